"""Whatever lets a call start looks at the stored fence, in the transaction that stores it."""

import asyncio
import uuid

import asyncpg
import pytest
from tests.support.tas.tas_caller import query, row
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_tas.adapters.ledger_tables import QUERIES

__all__ = ["shared_tas", "tas"]


async def test_a_claim_is_refused_once_the_fence_is_raised(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.tag")
    claim_id = uuid.uuid4()
    assert (await caller.claim(invocation, claim_id)).granted
    await caller.ask(rpc.RAISE_FENCE, run_id=invocation.run_id, project=caller.project, fence=1)
    refused = await caller.claim(invocation, claim_id)
    assert (refused.granted, refused.reason) == (False, "fence_raised")
    audit = await caller.audit(execution_id=invocation.execution_id)
    assert [one.verdict for one in audit if one.phase == "claim"] == ["granted", "refused"]


async def test_a_claim_that_meets_a_fence_being_raised_waits_for_it(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.refund")
    connection = await asyncpg.connect(tas.dsn)
    try:
        async with connection.transaction():
            await connection.execute(QUERIES.lock_fence, invocation.run_id)
            await connection.fetchrow(QUERIES.raise_fence, invocation.run_id, caller.project, 1)
            asked = asyncio.create_task(caller.claim(invocation))
            await somebody_waits(tas.dsn)
            assert not asked.done()
        answer = await asked
    finally:
        await connection.close()
    assert (answer.granted, answer.reason) == (False, "fence_raised")
    stored = await row(tas.dsn, invocation.execution_id)
    assert (stored["status"], stored["claims"]) == ("permitted", "[]")


async def test_a_person_can_not_retry_a_call_of_a_stopped_run(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    invocation = await caller.dispatched(request)
    assert (await caller.claim(invocation)).granted
    await query(
        tas.dsn,
        "UPDATE tas.tool_call SET claims = regexp_replace(claims, '20..(-..-)', '2001\\1'), revision = revision + 1"
        " WHERE execution_id = $1",
        request.execution_id,
    )
    await caller.again(request)
    assert (await caller.fact(request, "tool.finished"))["status"] == "unknown"
    await caller.ask(rpc.RAISE_FENCE, run_id=request.run_id, project=caller.project, fence=1)
    settlement = {
        "project": caller.project,
        "run_id": request.run_id,
        "execution_id": request.execution_id,
        "actor": "paula",
    }
    with pytest.raises(ProblemError, match="fence_raised"):
        await caller.ask(rpc.SETTLE_CALL, **settlement, verdict="retry", reason="again")
    assert (await row(tas.dsn, request.execution_id))["status"] == "unknown"
    assert len(caller.invocations[request.execution_id]) == 1
    await caller.ask(rpc.SETTLE_CALL, **settlement, verdict="happened", reason="saw it")
    assert (await row(tas.dsn, request.execution_id))["status"] == "succeeded"


async def somebody_waits(dsn: str) -> None:
    """Wait until a transaction of this database waits for an advisory lock."""
    for _ in range(1_200):
        (found,) = await query(
            dsn,
            "SELECT count(*) AS n FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()",
        )
        if found["n"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nobody waits for the fence")
