"""The stop switch over real replicas: it holds everywhere at once, survives kills, and loses nothing."""

import asyncio
import contextlib
import uuid
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.support.tas.tas_caller import TasCaller, query, row, settled
from tests.support.tas.tas_running import Running, audit_holds, shared_tas, tas
from tests.support.waiting import all_sent, eventually

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.switches import SwitchSet, WakePaused

__all__ = ["audit_holds", "shared_tas", "tas"]


RUN = """
INSERT INTO runs.run (run_id, project, status, kind, network, version, snapshot_digest, seq, caller, created_at,
                      updated_at)
VALUES ($1, $2, $3, 'network', 'support', 1, 'sha256:snapshot', 1, $4, now(), now())
"""


async def switch(caller: TasCaller, verb: str, kind: str = "tool", name: str = "orders.*", **more: Any) -> SwitchSet:
    fields = {"project": caller.project, "kind": kind, "name": name, "paused": verb == "pause", "reason": "it leaks"}
    done: SwitchSet = await caller.ask(rpc.SET_SWITCH, **{**fields, "actor": "ann", "roles": ("operator",), **more})
    return done


@contextlib.asynccontextmanager
async def orchestrator(caller: TasCaller) -> Any:
    """Stand in for the orchestrator where it is told whom a switch lets go."""
    woken: list[WakePaused] = []

    async def wake(message: Msg) -> None:
        woken.append(WakePaused.model_validate_json(message.data))
        await message.respond(ActionDone().model_dump_json().encode())

    subscription = await caller.nc.subscribe(rpc.WAKE_PAUSED.subject, cb=wake)
    await all_sent(caller.nc)
    try:
        yield woken
    finally:
        await subscription.unsubscribe()


async def test_a_paused_tool_waits_and_goes_on_and_the_audit_says_who(tas: Running) -> None:
    caller = tas.caller
    async with orchestrator(caller) as woken:
        paused = await switch(caller, "pause")
        assert paused.changed
        assert paused.switch is not None
        request = await caller.put(caller.request("orders.refund"))
        found = await caller.fact(request, "call.paused")
        assert found["switch"]["switch_id"] == str(paused.switch.switch_id)
        assert (await row(tas.dsn, request.execution_id))["status"] == "requested"
        await caller.fact(await caller.again(request), "call.paused", times=2)
        assert not caller.invocations.get(request.execution_id)
        resumed = await switch(caller, "resume")
        assert (resumed.changed, [wake.switch_id for wake in woken]) == (True, [paused.switch.switch_id])
        await caller.again(request, attempt=3)
        invocation = await caller.dispatched(request)
        assert (await caller.claim(invocation)).granted
    entries = await caller.audit()
    phases = [(entry.phase, entry.actor) for entry in entries if entry.phase.startswith(("switch", "held"))]
    assert phases == [("switch.paused", "ann"), ("held", "ann"), ("switch.resumed", "ann")]
    assert [entry.verdict for entry in entries if entry.phase == "decision"] == ["allow"]


async def test_what_was_sent_out_already_does_not_start_and_what_runs_goes_on(tas: Running) -> None:
    caller = tas.caller
    running, waiting = await caller.call("orders.refund"), await caller.call("orders.tag")
    claim_id = uuid.uuid4()
    assert (await caller.claim(running, claim_id)).granted
    await switch(caller, "pause", "network", "support")
    refused = await caller.claim(waiting)
    assert (refused.granted, refused.reason) == (False, "paused")
    await caller.fact(waiting, "call.paused")
    assert (await caller.claim(running, claim_id)).granted, "it runs, and its worker asks again"
    await caller.confirmation(await caller.report(running, claim_id))
    await switch(caller, "resume", "network", "support")
    request = caller.request("orders.tag", run_id=waiting.run_id, execution_id=waiting.execution_id, attempt=2)
    again = await caller.dispatched(await caller.put(request), times=2)
    assert (again.attempt, (await caller.claim(waiting)).reason) == (2, "outdated")
    assert (await caller.claim(again)).granted


async def test_stopping_what_runs_asks_its_workers(tas: Running) -> None:
    caller = tas.caller
    running, other = await caller.call("orders.refund"), await caller.call("orders.refund", caller="bob")
    for one, submitter in ((running, "anonymous"), (other, "bob")):
        assert (await caller.claim(one)).granted
        await query(tas.dsn, RUN, one.run_id, caller.project, "waiting", submitter)
    done = await switch(caller, "pause", "caller", "bob", stop_running=True)
    assert done.stopping == 1
    await eventually(lambda: other.execution_id in caller.stops)
    assert running.execution_id not in caller.stops
    await query(tas.dsn, "UPDATE runs.run SET status = 'quarantined' WHERE run_id = $1", other.run_id)
    again = {"stop_running": True, "reason": "it leaks still", "actor": "ben"}
    done = await switch(caller, "pause", "caller", "bob", **again)
    assert (done.changed, done.stopping) == (False, 1)
    await eventually(lambda: len(caller.stop_reasons) == 2)
    assert caller.stop_reasons[1] == "caller bob is paused by ben: it leaks still", "the words of who stopped it"
    listed = [entry for entry in await caller.audit() if entry.phase.startswith("switch")]
    assert [(entry.phase, entry.actor) for entry in listed] == [("switch.paused", "ann"), ("switch.stopping", "ben")]
    assert listed[1].detail["reason"] == "it leaks still"


async def test_only_an_operator_with_a_reason_sets_it_and_an_equal_setting_changes_nothing(tas: Running) -> None:
    caller = tas.caller
    for more, code in (
        ({"roles": ("approver", "policy_admin")}, "role_missing"),
        ({"reason": "  "}, "reason_required"),
        ({"kind": "project", "name": "another"}, "request_invalid"),
    ):
        with pytest.raises(ProblemError) as refused:
            await switch(caller, "pause", **more)
        assert refused.value.problem.code == code
    assert not (await switch(caller, "resume")).changed
    first, second = await switch(caller, "pause"), await switch(caller, "pause", reason="another reason")
    assert (second.changed, second.switch) == (False, first.switch)
    found = await caller.ask(rpc.LIST_SWITCHES, project=caller.project)
    assert found.switches == (first.switch,)
    assert (await caller.ask(rpc.LIST_SWITCHES, project="another")).switches == ()
    assert len(await query(tas.dsn, "SELECT FROM tas.switch WHERE project = $1", caller.project)) == 1


async def test_two_replicas_obey_it_from_its_answer_on_and_a_kill_forgets_nothing(tas: Running) -> None:
    """Every call that is asked for after the answer waits, whichever replica takes it, and after one was killed."""
    caller = tas.caller
    with tas.start() as second:
        await second.wait_ready()
        await asyncio.gather(*(caller.call("orders.find") for _ in range(20)))  # both have the law in memory
        await switch(caller, "pause")
        held = [await caller.put(caller.request("orders.find")) for _ in range(30)]
        for request in held:
            await caller.fact(request, "call.paused")
        second.kill()
    with tas.start() as third:
        await third.wait_ready()
        late = [await caller.put(caller.request("orders.refund")) for _ in range(10)]
        for request in late:
            await caller.fact(request, "call.paused")
        assert not any(caller.invocations.get(request.execution_id) for request in (*held, *late))
        await switch(caller, "resume")
        for request in (*held, *late):
            await caller.again(request)
        for request in (*held, *late):
            await caller.dispatched(request)
        assert (await settled(tas.dsn, held[0].execution_id, "permitted"))["attempt"] == 1


async def test_a_switch_waits_for_none_of_the_many_that_another_project_sets_at_once(tas: Running) -> None:
    caller = tas.caller
    asked, answered = 400, 0

    async def one_of_many(place: int) -> str:
        nonlocal answered
        try:
            await switch(caller, "pause", project="greedy", name=f"orders.{place}")
        except ProblemError as error:
            return error.problem.code
        finally:
            answered += 1
        return "set"

    flood = [asyncio.ensure_future(one_of_many(place)) for place in range(asked)]
    await eventually(lambda: answered > 0)
    assert (await switch(caller, "pause")).changed
    assert answered < asked / 2
    assert {*await asyncio.gather(*flood)} <= {"set", "overloaded"}
