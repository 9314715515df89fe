"""A restored database over a real service: what it does not know is asked about on every way to a worker."""

import asyncio
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.integration.tas.test_approvals import make_key, vote, waiting
from tests.integration.tas.test_switches import RUN
from tests.support.tas.tas_caller import query, row, settled
from tests.support.tas.tas_running import Running, audit_holds, shared_tas, tas

from towpath.cli import main
from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.postgres.restores import mark_restored

__all__ = ["audit_holds", "shared_tas", "tas"]


def some_time() -> datetime:
    """A moment that no other test names."""
    return datetime.now(UTC) - timedelta(hours=1)


async def mark(tas: Running, since: datetime) -> dict[str, Any]:
    """Say it while the service runs, which the command refuses."""
    return dict((await query(tas.dsn, "SELECT * FROM tas.mark_restored($1, 'ann')", since))[0])


async def add_run(tas: Running, run_id: uuid.UUID, status: str = "running") -> None:
    await query(tas.dsn, RUN, run_id, tas.caller.project, status, "anonymous")


async def test_calls_of_a_restored_run_wait_for_a_person_and_those_of_others_do_not(tas: Running) -> None:
    caller = tas.caller
    sent, on_its_way = await caller.call("orders.refund"), await caller.call("orders.tag")
    ended = await caller.call("orders.refund")
    for invocation, status in ((sent, "running"), (on_its_way, "waiting"), (ended, "completed")):
        await add_run(tas, invocation.run_id, status)
    since = some_time()
    done = await mark(tas, since)
    assert (done["runs"] >= 2, done["marked_now"]) == (True, True)
    marked = await query(
        tas.dsn, "SELECT run_id, lost_since FROM tas.restored_run WHERE project = $1 ORDER BY 1", caller.project
    )
    assert [(found["run_id"], found["lost_since"]) for found in marked] == sorted(
        (invocation.run_id, since) for invocation in (sent, on_its_way)
    )

    refused = await caller.claim(on_its_way)
    assert (refused.granted, refused.reason) == (False, "unknown")
    fact = await caller.fact(on_its_way, "tool.finished")
    assert (fact["status"], fact["doubt"]["starts"]) == ("unknown", 0)
    assert datetime.fromisoformat(fact["doubt"]["lost_since"]) == since

    run_id = sent.run_id
    await caller.put(caller.request("orders.refund", run_id=run_id, execution_id=sent.execution_id, attempt=2))
    await caller.fact(sent, "tool.finished")
    fresh = await caller.put(caller.request("orders.refund", run_id=run_id))
    child = await caller.put(caller.request("orders.ship", root_run_id=run_id))
    for request in (fresh, child):
        assert (await caller.fact(request, "tool.finished"))["status"] == "unknown"
        assert request.execution_id not in caller.invocations
    assert len(caller.invocations[sent.execution_id]) == 1
    pure = await caller.call("orders.find", run_id=run_id)
    assert (await caller.claim(pure)).granted
    other = await caller.call("orders.refund")
    assert (await caller.claim(other)).granted

    said = {"project": caller.project, "run_id": run_id, "actor": "ann", "reason": "she looked"}
    await caller.ask(rpc.SETTLE_CALL, execution_id=fresh.execution_id, verdict="retry", **said)
    again = await caller.dispatched(fresh)
    claim_id = uuid.uuid4()
    assert (again.attempt, (await caller.claim(again, claim_id)).granted) == (2, True)
    await caller.confirmation(await caller.report(again, claim_id))
    assert (await row(tas.dsn, fresh.execution_id))["status"] == "succeeded"
    await caller.ask(rpc.SETTLE_CALL, execution_id=sent.execution_id, verdict="happened", **said)
    assert (await settled(tas.dsn, sent.execution_id, "succeeded"))["settled_by"] == "ann"
    entries = [entry for entry in await caller.audit() if entry.phase == "database.restored"]
    assert [(entry.actor, entry.verdict, entry.detail["runs"]) for entry in entries] == [("ann", "marked", 2)]


async def test_a_stopped_run_does_not_say_of_such_a_call_that_it_never_began(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.refund")
    await add_run(tas, invocation.run_id)
    await mark(tas, some_time())
    fence = {"project": caller.project, "run_id": invocation.run_id, "fence": 1, "reason": "cancelled"}
    answer = await caller.ask(rpc.RAISE_FENCE, **fence)
    assert (answer.voided, answer.unknown) == ((), (invocation.execution_id,))


async def test_a_call_that_people_decide_about_is_asked_about_whatever_they_say(tas: Running) -> None:
    caller = tas.caller
    approved, denied = [await waiting(tas) for _ in range(2)]
    for request, _ in (approved, denied):
        await add_run(tas, request.run_id)
    await mark(tas, some_time())
    key = await make_key(tas, "paula")
    for (request, asked), verdict in ((approved, "approved"), (denied, "denied")):
        await vote(caller, asked, verdict, reason="too much", **key)
        await caller.again(request)
        fact = await caller.fact(request, "tool.finished")
        assert (fact["status"], "too much" in fact["failure"]["message"]) == ("unknown", verdict == "denied")
        assert fact["doubt"]["lost_since"]
        assert request.execution_id not in caller.invocations
    said = {"project": caller.project, "actor": "ann", "reason": "she looked"}
    for request, verdict in ((approved[0], "retry"), (denied[0], "happened")):
        names = {"run_id": request.run_id, "execution_id": request.execution_id}
        await caller.ask(rpc.SETTLE_CALL, **names, verdict=verdict, **said)
    assert (await caller.dispatched(approved[0])).attempt == 2
    assert (await row(tas.dsn, denied[0].execution_id))["status"] == "succeeded"


async def test_messages_about_what_the_database_does_not_know_do_no_harm(tas: Running) -> None:
    """The broker may be newer than the database: it has deliveries, claims and outcomes of calls that are gone."""
    caller = tas.caller
    invocation = await caller.call("orders.refund")
    await add_run(tas, invocation.run_id)
    await mark(tas, some_time())
    await caller.report(invocation, uuid.uuid4())  # of a claim that was granted after the backup
    lost = invocation.model_copy(update={"run_id": uuid.uuid4(), "execution_id": uuid.uuid4()})
    refused = await caller.claim(lost)
    assert (refused.granted, refused.reason) == (False, "unknown_call")
    await caller.report(lost, uuid.uuid4())
    await caller.quiet("TOOLOUT", "tas")
    found = await row(tas.dsn, invocation.execution_id)
    assert (found["status"], found["accepted"]) == ("permitted", ""), "nothing is known of that claim"
    [letter] = await query(tas.dsn, "SELECT reason FROM runs.dead_letter WHERE stream = 'TOOLOUT'")
    assert letter["reason"] == "an outcome for a call that is not in the ledger"
    run_id, execution_id = invocation.run_id, invocation.execution_id
    await caller.put(caller.request("orders.refund", run_id=run_id, execution_id=execution_id, attempt=2))
    assert (await caller.fact(invocation, "tool.finished"))["status"] == "unknown"
    assert len(caller.invocations[invocation.execution_id]) == 1


async def test_saying_it_twice_marks_nothing_more(tas: Running) -> None:
    since = some_time()
    await add_run(tas, uuid.uuid4())
    first = await mark(tas, since)
    await add_run(tas, uuid.uuid4())  # it has begun after the restore
    again = await mark(tas, since)
    assert again == {**first, "marked_now": False}
    assert first["marked_now"]
    phases = [entry.phase for entry in await tas.caller.audit()]
    assert phases.count("database.restored") == 1


async def test_the_command_refuses_while_services_work_and_a_time_to_come(
    tas: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProblemError) as refused:
        await mark_restored(tas.dsn, some_time(), "ann")
    assert refused.value.problem.code == "services_running"
    assert "towpath" in refused.value.problem.detail


@pytest.mark.prints("db restored")
async def test_the_command_says_how_many_runs_it_marked(
    tas: Running, database: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = database()
    with pytest.raises(ProblemError) as refused:
        await mark_restored(dsn, datetime.now(UTC) + timedelta(minutes=5), "ann")
    assert (refused.value.problem.code, "still to come" in refused.value.problem.detail) == ("request_invalid", True)
    connection = await asyncpg.connect(dsn)
    await connection.execute(RUN, uuid.uuid4(), "default", "queued", "anonymous")
    await connection.close()
    words = ["db", "restored", "--lost-since", some_time().isoformat(), "--database-url", dsn, "-o", "json"]
    assert await asyncio.to_thread(main, words) in {0, None}
    marks = json.loads(capsys.readouterr().out)
    assert [marks[name] for name in ("runs", "calls", "projects", "already")] == [1, 0, 1, False]
    assert (await mark_restored(dsn, datetime.fromisoformat(marks["lost_since"]), "ann")).already
