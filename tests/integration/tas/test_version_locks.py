"""A version that has moved holds from its commit on: nothing decided under an older one is stored later."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.tas.tas_caller import query
from tests.support.tas.tas_calls import ask, request
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.switches import SwitchSet
from towpath_fabric.ids import new_run_id
from towpath_tas.adapters.ledger_tables import AuthorizationVersions, LedgerWriteResult, LimitUse, open_calls
from towpath_tas.core.call import LedgerChange

__all__ = ["shared_tas", "tas"]

WAITING = """
SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND NOT l.granted
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
"""


@pytest.fixture
async def other(tas: Running) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A connection of another replica."""
    connection = await asyncpg.connect(tas.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def seen_now(tas: Running) -> AuthorizationVersions:
    (found,) = await query(tas.dsn, "SELECT * FROM tas.project_state WHERE project = $1", tas.caller.project)
    return AuthorizationVersions(**found)


async def waits(tas: Running, what: "asyncio.Task[Any]") -> None:
    """Return once *what* waits for a lock; it must not get by."""
    connection = await asyncpg.connect(tas.dsn)
    try:
        while not await connection.fetch(WAITING):
            assert not what.done(), "it did not wait"
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


def opened(tas: Running) -> LedgerChange:
    run_id = new_run_id()
    step: LedgerChange = ask(None, said=request(run_id=run_id, execution_id=new_run_id(), project=tas.caller.project))
    return step


async def store(
    connection: Any, step: LedgerChange, seen: AuthorizationVersions, counts: tuple[LimitUse, ...] = ()
) -> LedgerWriteResult:
    return await open_calls(connection, [step], counts, [seen])


async def pause(tas: Running) -> SwitchSet:
    fields = {"project": tas.caller.project, "kind": "tool", "name": "orders.*", "paused": True, "reason": "it leaks"}
    done: SwitchSet = await tas.caller.ask(rpc.SET_SWITCH, **fields, actor="ann", roles=("operator",))
    return done


async def test_a_switch_answers_after_everything_that_was_decided_before_it(
    tas: Running, other: "asyncpg.Connection[Any]"
) -> None:
    seen, step = await seen_now(tas), opened(tas)
    async with other.transaction():
        assert (await store(other, step, seen)).calls
        pausing = asyncio.create_task(pause(tas))
        await waits(tas, pausing)
    assert (await pausing).changed
    assert (await store(other, opened(tas), seen)).stale == (tas.caller.project,)


async def test_what_waits_for_a_version_to_move_is_refused_under_the_old_one(
    tas: Running, other: "asyncpg.Connection[Any]"
) -> None:
    seen = await seen_now(tas)
    mover = await asyncpg.connect(tas.dsn)
    try:
        async with mover.transaction():
            await mover.execute(
                "UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1", seen.project
            )
            storing = asyncio.create_task(store(other, opened(tas), seen))
            await waits(tas, storing)
        written = await storing
    finally:
        await mover.close()
    assert (written.calls, written.stale) == (frozenset(), (seen.project,))


async def test_a_refused_batch_leaves_the_counters_alone(tas: Running, other: "asyncpg.Connection[Any]") -> None:
    """What was decided under an older matrix may name another window, and would begin it anew."""
    seen, place = await seen_now(tas), "SELECT per_s, used FROM tas.rate_count WHERE project = $1"

    def rated(step: LedgerChange, per_s: int) -> tuple[LimitUse, ...]:
        assert step.call is not None
        return (LimitUse(step.call.run_id, "rule-1", step.call.execution_id, 0, seen.project, per_s, 10),)

    step = opened(tas)
    assert (await store(other, step, seen, rated(step, 31 * 86_400))).calls
    step = opened(tas)
    refused = await store(other, step, seen._replace(policy_version=0), rated(step, 86_400))
    assert (refused.calls, refused.stale) == (frozenset(), (seen.project,))
    assert [tuple(found.values()) for found in await query(tas.dsn, place, seen.project)] == [(31 * 86_400, 1)]
