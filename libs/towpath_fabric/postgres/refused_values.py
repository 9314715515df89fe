"""Which errors of Postgres say that a value can't be stored, and how the one at fault is found among many.

Many messages are written by one statement, so one value that no column takes fails the writes of all. Such a failure
would be the same at every repeat, and is nobody's but that one message's: the batch is halved until it is found, and it
alone is refused. An outage, a lock or a login that lost its rights says nothing about any value, and accuses none.

    outage, deadlock, a lost race ------> the same batch again: `DATABASE_DOWN`, unique and foreign keys
    a value that no column takes -------> halves, and halves of these, until one message is left: that one is refused
    anything else ----------------------> a defect: not of this message, and not mended by setting messages aside
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg
from asyncpg.exceptions import _base

INVALID_DATA = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""What is raised for a value that Postgres can't store: U+0000 in a text, a number out of range, a text that is too
long for its index, JSON that is too deep."""

VALUE_REFUSED = (*INVALID_DATA, asyncpg.CheckViolationError, asyncpg.NotNullViolationError)
"""What a group commit raises for the values of one of its messages. Unique and foreign keys are not among them: another
replica may have been first, and the next look shows that."""

ENCODING_REFUSED = _base.DataError
"""What asyncpg raises for a value that it can't send. It is among its errors of connections, and so would pass for an
outage: `StoringConnection` makes an `asyncpg.DataError` of it."""

REFUSAL_CHARS = 300

Item = TypeVar("Item")


def is_value_refused(error: BaseException) -> bool:
    """Return whether *error* belongs to a value: the same write would fail for ever, and others would not."""
    return isinstance(error, VALUE_REFUSED)


def refusal_reason(error: BaseException) -> str:
    """Return the reason of a dead letter for a message that holds such a value: a code, and what Postgres said."""
    said = str(error).encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    return f"value_refused: Postgres can't store it: {type(error).__name__}: {said[:REFUSAL_CHARS]}"


def halved(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Return two halves of at least two *items*, in order."""
    middle = len(items) // 2
    return items[:middle], items[middle:]


async def store_or_refuse(
    items: Sequence[Item],
    store: Callable[[Sequence[Item]], Awaitable[None]],
    refuse: Callable[[Item, Exception], Awaitable[None]],
) -> None:
    """Store *items* together; where a value of theirs is refused, all but those at fault, which are refused.

    *store* may be called again for what it has stored. Raises what both raise for any other reason.
    """
    try:
        await store(items)
    except VALUE_REFUSED as error:
        if len(items) == 1:
            await refuse(items[0], error)
            return
        for half in halved(items):
            await store_or_refuse(half, store, refuse)
