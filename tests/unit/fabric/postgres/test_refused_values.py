"""Errors of Postgres that belong to a value, and those that belong to nobody."""

from collections.abc import Sequence

import asyncpg
import pytest

from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import is_value_refused, refusal_reason, store_or_refuse

OF_A_VALUE = [
    asyncpg.UntranslatableCharacterError,
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.NumericValueOutOfRangeError,
    asyncpg.InvalidTextRepresentationError,
    asyncpg.DatetimeFieldOverflowError,
    asyncpg.StringDataRightTruncationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.StatementTooComplexError,
    asyncpg.CheckViolationError,
    asyncpg.NotNullViolationError,
]
OF_NOBODY = [
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
    asyncpg.ForeignKeyViolationError,
    asyncpg.QueryCanceledError,
    asyncpg.DiskFullError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedColumnError,
    asyncpg.InterfaceError,
    asyncpg.ConnectionDoesNotExistError,
    TimeoutError,
    OSError,
]


@pytest.mark.parametrize("error", OF_A_VALUE, ids=lambda error: error.__name__)
def test_what_a_value_is_to_blame_for_is_no_outage(error: type[Exception]) -> None:
    assert is_value_refused(error("no")) and not issubclass(error, DATABASE_DOWN)


@pytest.mark.parametrize("error", OF_NOBODY, ids=lambda error: error.__name__)
def test_an_outage_a_lost_race_or_a_defect_accuses_no_value(error: type[Exception]) -> None:
    assert not is_value_refused(error("no"))


def test_a_reason_holds_a_code_and_nothing_that_could_be_refused_again() -> None:
    reason = refusal_reason(asyncpg.DataError("a\x00b\ud800" + "x" * 1_000))
    assert reason.startswith("value_refused: Postgres can't store it: DataError: a\ufffdb?xxx")
    assert 300 < len(reason) < 400, "it is a line of a list"


async def weighed(items: Sequence[int], bad: set[int]) -> tuple[list[int], list[int], int]:
    """Return what was stored and what was refused of *items*, and how often something was stored."""
    stored: list[int] = []
    refused: list[int] = []
    tries = 0

    async def store(some: Sequence[int]) -> None:
        nonlocal tries
        tries += 1
        if bad & set(some):
            raise asyncpg.UntranslatableCharacterError("no")
        stored.extend(some)

    async def refuse(item: int, error: Exception) -> None:
        assert isinstance(error, asyncpg.UntranslatableCharacterError)
        refused.append(item)

    await store_or_refuse(items, store, refuse)
    return stored, refused, tries


async def test_a_batch_without_fault_is_stored_once() -> None:
    assert await weighed(range(256), set()) == (list(range(256)), [], 1)
    assert await weighed([], set()) == ([], [], 1)


@pytest.mark.parametrize("bad", [{0}, {255}, {7, 8, 200}, set(range(256))], ids=len)
async def test_all_but_those_at_fault_are_stored_once_and_in_order(bad: set[int]) -> None:
    stored, refused, tries = await weighed(range(256), bad)
    assert (stored, refused) == (sorted(set(range(256)) - bad), sorted(bad))
    assert tries <= 1 + 2 * 8 * len(bad)


async def test_what_accuses_no_value_ends_the_weighing() -> None:
    async def store(_some: Sequence[int]) -> None:
        raise asyncpg.DeadlockDetectedError("no")

    async def refuse(_item: int, _error: Exception) -> None:
        raise AssertionError

    with pytest.raises(asyncpg.DeadlockDetectedError):
        await store_or_refuse([1, 2], store, refuse)
