"""The life of calls in a real TAS process, over real NATS and Postgres."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tas.tas_caller import ARGS, OPEN, query, row, settled, tool
from tests.support.tas.tas_running import Running, shared_tas, tas
from tests.support.waiting import eventually

from towpath_contracts import rpc, subjects
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.tickets import TicketVerifier

__all__ = ["shared_tas", "tas"]


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def test_f6_a_call_is_permitted_run_reported_and_audited(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    key = await caller.report(invocation)
    await caller.confirmation(key)
    fact = await caller.fact(invocation, "tool.finished")
    assert (fact["status"], fact["result"]) == ("succeeded", {"ok": True})
    stored = await row(tas.dsn, invocation.execution_id)
    assert (stored["status"], stored["attempt"], stored["revision"]) == ("succeeded", 1, 2)
    entries = await caller.audit(execution_id=invocation.execution_id)
    assert [(entry.phase, entry.verdict) for entry in entries] == [("decision", "allow"), ("outcome", "succeeded")]
    await caller.quiet()
    await caller.quiet("TOOLOUT")


async def test_an_invocation_carries_a_ticket_for_exactly_this_call(tas: Running) -> None:
    caller = tas.caller
    registered = await caller.register()
    invocation = await caller.call("orders.refund")
    assert (invocation.toolset, invocation.args, invocation.timeout_ms) == ("orders", ARGS, 1_000)
    claims = TicketVerifier(registered.ticket_keys).open(invocation.ticket)
    assert (claims.execution_id, claims.attempt, claims.tool) == (invocation.execution_id, 1, "orders.refund")
    assert (claims.policy_version, str(claims.effect_class)) == (1, "irreversible")


async def test_a_repeated_request_sends_the_same_attempt_with_the_same_message_id(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.find"))
    await caller.dispatched(request)
    await caller.again(request)
    await caller.dispatched(request, times=2)
    assert caller.message_ids == [f"{request.execution_id}:1"] * 2
    told = [(entry.phase, entry.verdict) for entry in await caller.audit(execution_id=request.execution_id)]
    assert told == [("decision", "allow"), ("dispatch", "repeated")], "decided once"


async def test_a_repeat_after_the_end_is_answered_from_the_ledger(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.find"))
    invocation = await caller.dispatched(request)
    await caller.report(invocation)
    first = await caller.fact(request, "tool.finished")
    await caller.again(request)
    assert await caller.fact(request, "tool.finished", times=2) == first
    assert len(caller.invocations[request.execution_id]) == 1


async def test_a_repeat_with_other_arguments_is_a_conflict_and_a_dead_letter(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.find"))
    await caller.dispatched(request)
    await caller.again(request, args={"order_id": "B-2"})
    await caller.fact(request, "execution.conflict")
    await caller.quiet()
    dead = await query(tas.dsn, "SELECT stream, reason FROM runs.dead_letter WHERE run_id = $1", request.run_id)
    assert [one["stream"] for one in dead] == ["TOOLREQ"]
    assert "another arguments" in dead[0]["reason"]
    assert len(caller.invocations[request.execution_id]) == 1


@pytest.mark.parametrize(
    ("name", "args", "violation"),
    [
        ("orders.fnd", ARGS, "tool_unknown"),
        ("orders.find", {"amount": "x"}, "invalid_arguments"),
        ("mail.send", ARGS, "permission_denied"),
    ],
)
async def test_a_denial_says_why_and_what_would_do(tas: Running, name: str, args: object, violation: str) -> None:
    caller = tas.caller
    await caller.register(tool("mail.send", "irreversible", toolset="mail"))
    request = await caller.put(caller.request(name, args=args))
    denial = (await caller.fact(request, "tool.denied"))["denial"]
    assert denial["violation_type"] == violation
    assert denial["suggestion"]
    await caller.again(request)
    assert (await caller.fact(request, "tool.denied", times=2))["denial"] == denial
    assert caller.invocations == {}
    entries = await caller.audit(execution_id=request.execution_id)
    assert [(entry.phase, entry.verdict, entry.detail["violation_type"]) for entry in entries] == [
        ("decision", "deny", violation)
    ]


async def test_the_tasks_own_grant_narrows(tas: Running) -> None:
    caller = tas.caller
    small = ({"tool": "orders.refund", "operation": "*", "when": "args.amount < 5"},)
    request = await caller.put(caller.request("orders.refund", grant=small))
    assert (await caller.fact(request, "tool.denied"))["denial"]["violation_type"] == "not_granted"
    await caller.call("orders.refund", grant=small, args={"order_id": "A", "amount": 4})


async def test_a_limit_holds_for_calls_that_arrive_together(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(OPEN.replace("effect: allow", "effect: allow, max_calls_per_run: 3"))
    run_id = caller.request("orders.find").run_id
    requests = [caller.request("orders.find", run_id=run_id) for _ in range(10)]
    await asyncio.gather(*(caller.put(request) for request in requests))
    await eventually(lambda: len(caller.facts) + len(caller.invocations) == 10)
    assert len(caller.invocations) == 3
    assert {fact[0]["denial"]["violation_type"] for fact in caller.facts.values()} == {"limit_exceeded"}
    other = await caller.call("orders.find")
    assert other.run_id != run_id


async def test_an_irreversible_call_is_claimed_once(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.refund")
    claim_id = uuid.uuid4()
    answer = await caller.claim(invocation, claim_id)
    assert (answer.granted, answer.start_by_ms, answer.lease_ms) == (True, 5_000, 11_000)
    assert (await caller.claim(invocation, claim_id)).granted, "the answer was lost: asked again"
    other = await caller.claim(invocation, worker="w2")
    assert (other.granted, other.reason) == (False, "claimed")
    await caller.confirmation(await caller.report(invocation, claim_id))
    assert (await settled(tas.dsn, invocation.execution_id, "succeeded"))["accepted"] == f"1:{claim_id}"
    assert (await caller.claim(invocation)).reason == "succeeded"
    phases = [(entry.phase, entry.verdict) for entry in await caller.audit(execution_id=invocation.execution_id)]
    assert phases == [
        ("decision", "allow"),
        ("claim", "granted"),
        ("claim", "refused"),
        ("outcome", "succeeded"),
        ("claim", "refused"),
    ]


async def test_of_many_claims_at_once_one_is_granted(tas: Running) -> None:
    invocation = await tas.caller.call("orders.refund")
    answers = await asyncio.gather(*(tas.caller.claim(invocation) for _ in range(20)))
    assert sum(answer.granted for answer in answers) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ticket": ""}, "ticket_missing"),
        ({"ticket": "e30.e30"}, "ticket_forged"),
        ({"execution_id": uuid.uuid4()}, "unknown_call"),
        ({"attempt": 2}, "outdated"),
    ],
)
async def test_a_claim_without_its_own_ticket_is_refused(tas: Running, change: dict[str, object], reason: str) -> None:
    invocation = await tas.caller.call("orders.refund")
    answer = await tas.caller.claim(invocation, **change)
    assert (answer.granted, answer.reason) == (False, reason)


async def test_a_ticket_of_another_call_is_refused(tas: Running) -> None:
    one, other = await tas.caller.call("orders.refund"), await tas.caller.call("orders.refund")
    answer = await tas.caller.claim(one, ticket=other.ticket)
    assert (answer.granted, answer.reason) == (False, "ticket_mismatch")


async def test_a_foreign_outcome_is_evidence_and_confirmed(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.refund")
    claim_id = uuid.uuid4()
    await caller.claim(invocation, claim_id)
    await caller.confirmation(await caller.report(invocation, uuid.uuid4(), result="not mine"))
    assert (await row(tas.dsn, invocation.execution_id))["status"] == "started"
    await caller.report(invocation, claim_id)
    assert (await caller.fact(invocation, "tool.finished"))["result"] == {"ok": True}
    phases = [entry.phase for entry in await caller.audit(execution_id=invocation.execution_id)]
    assert phases == ["decision", "claim", "evidence", "outcome"]


async def test_an_outcome_without_a_ticket_settles_nothing(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    await caller.report(invocation, ticket="")
    await caller.report(invocation, ticket="e30.e30")
    await caller.quiet("TOOLOUT")
    assert (await row(tas.dsn, invocation.execution_id))["status"] == "permitted"
    dead = await query(tas.dsn, "SELECT reason FROM runs.dead_letter WHERE run_id = $1 ORDER BY 1", invocation.run_id)
    assert [one["reason"] for one in dead] == [
        "an outcome with a ticket that is forged",
        "an outcome with a ticket that is missing",
    ]


async def test_an_outcome_sent_again_is_confirmed_again_and_recorded_once(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    key = await caller.report(invocation)
    await caller.confirmation(key)
    await caller.report(invocation)
    await caller.confirmation(key, times=2)
    phases = [entry.phase for entry in await caller.audit(execution_id=invocation.execution_id)]
    assert phases == ["decision", "outcome"]


async def test_an_expired_ticket_is_authorised_again_as_the_next_attempt(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    first = await caller.dispatched(request)
    await caller.confirmation(await caller.report(first, status="ticket_expired", result=None))
    second = await caller.dispatched(request, times=2)
    assert (second.attempt, caller.message_ids[-1]) == (2, f"{request.execution_id}:2")
    assert (await caller.claim(first)).reason == "outdated"
    assert (await caller.claim(second)).granted


async def test_an_expired_ticket_meets_the_law_of_now(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    first = await caller.dispatched(request)
    await caller.apply("kind: Policy\nrules: []")
    await caller.report(first, status="ticket_expired", result=None)
    assert (await caller.fact(request, "tool.denied"))["policy_version"] == 2


async def test_a_call_that_nobody_started_did_not_happen(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund", deadline=soon(0.5)))
    await caller.dispatched(request)
    await asyncio.sleep(0.6)
    await caller.again(request)
    fact = await caller.fact(request, "tool.finished")
    assert (fact["status"], fact["failure"]["code"]) == ("failed", "not_started")


async def test_a_lost_irreversible_call_becomes_unknown_and_a_late_outcome_settles_it(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    invocation = await caller.dispatched(request)
    claim_id = uuid.uuid4()
    await caller.claim(invocation, claim_id)
    await expire_lease(tas, invocation.execution_id)
    await caller.again(request)
    assert (await caller.fact(request, "tool.finished"))["status"] == "unknown"
    await caller.report(invocation, claim_id)
    assert (await caller.fact(request, "tool.finished", times=2))["status"] == "succeeded"


async def test_a_lost_idempotent_call_is_sent_again_as_the_next_attempt(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.tag"))
    invocation = await caller.dispatched(request)
    await caller.claim(invocation)
    await caller.again(request)
    await caller.quiet()
    assert len(caller.invocations[request.execution_id]) == 1, "it runs, as far as anybody knows"
    await expire_lease(tas, invocation.execution_id)
    await caller.again(request)
    second = await caller.dispatched(request, times=2)
    assert second.attempt == 2
    assert (await caller.claim(second)).granted


@pytest.mark.parametrize(
    ("verdict", "status"), [("happened", "succeeded"), ("did_not_happen", "failed"), ("retry", "permitted")]
)
async def test_a_person_settles_an_unknown_call(tas: Running, verdict: str, status: str) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    invocation = await caller.dispatched(request)
    await caller.claim(invocation)
    await expire_lease(tas, invocation.execution_id)
    await caller.again(request)
    await caller.fact(request, "tool.finished")
    settlement = {
        "project": caller.project,
        "run_id": request.run_id,
        "execution_id": request.execution_id,
        "actor": "paula",
    }
    with pytest.raises(ProblemError, match="tool_call_not_found"):
        await caller.ask(rpc.SETTLE_CALL, **{**settlement, "project": "other"}, verdict=verdict)
    await caller.ask(rpc.SETTLE_CALL, **settlement, verdict=verdict, reason="looked it up")
    await settled(tas.dsn, request.execution_id, status)
    if verdict == "retry":
        second = await caller.dispatched(request, times=2)
        assert (await caller.claim(second)).granted
    else:
        assert (await caller.fact(request, "tool.finished", times=2))["status"] == status
    with pytest.raises(ProblemError, match="gate_settled"):
        await caller.ask(rpc.SETTLE_CALL, **settlement, verdict="happened")
    assert [entry.execution_id for entry in await caller.audit(actor="paula")] == [request.execution_id]


async def test_a_fence_voids_what_waits_stops_what_runs_and_refuses_what_comes(tas: Running) -> None:
    caller = tas.caller
    run_id = caller.request("orders.find").run_id
    idle = await caller.call("orders.refund", run_id=run_id)
    pure = await caller.call("orders.find", run_id=run_id)
    live = await caller.call("orders.tag", run_id=run_id)
    elsewhere = await caller.call("orders.refund")
    claim_id = uuid.uuid4()
    assert (await caller.claim(live, claim_id)).granted
    fields = {"run_id": run_id, "project": caller.project, "fence": 1, "reason": "cancelled"}
    answer = await caller.ask(rpc.RAISE_FENCE, **fields)
    assert (set(answer.voided), answer.live) == ({idle.execution_id, pure.execution_id}, (live.execution_id,))
    assert await caller.ask(rpc.RAISE_FENCE, **fields) == answer, "asked again, answered the same"
    await eventually(lambda: {pure.execution_id, live.execution_id} <= set(caller.stops))
    assert (await caller.claim(idle)).reason == "void"
    late = await caller.put(caller.request("orders.find", run_id=run_id))
    assert (await caller.fact(late, "tool.finished"))["status"] == "void"
    await caller.confirmation(await caller.report(pure))
    assert (await row(tas.dsn, pure.execution_id))["status"] == "void", "the answer of a stopped pure call is dropped"
    await caller.report(live, claim_id)
    await settled(tas.dsn, live.execution_id, "succeeded")
    assert (await caller.claim(elsewhere)).granted
    newer = await caller.put(caller.request("orders.find", run_id=run_id, fence=1))
    await caller.dispatched(newer)


async def test_malformed_and_hostile_messages_are_set_aside_and_nothing_else_suffers(tas: Running) -> None:
    caller = tas.caller
    before = {stream: await dead_letters(tas, stream) for stream in ("TOOLREQ", "TOOLOUT")}
    js = caller.nc.jetstream()
    good = caller.request("orders.find").model_dump_json()
    bodies = [
        b"",
        b"{}",
        b"\xff\xfe",
        b"[" * 5_000,
        good.replace('"amount":10', '"amount":NaN').encode(),
        good.replace('"amount":10', '"amount":' + "[" * 150 + "]" * 150).encode(),
        good.replace('"step":1', '"step":99999999999').encode(),
        good.replace('"orders.find"', '"orders\\u0000find"').encode(),
        good.replace('"caller":"anonymous"', '"caller":"a\\u0000b"').encode(),
    ]
    for body in bodies:
        await js.publish(subjects.TOOL_REQUEST, body, timeout=60)
        await js.publish(subjects.TOOL_OUTCOME, body, timeout=60)
    invocation = await caller.call("orders.find")
    await caller.confirmation(await caller.report(invocation))
    await eventually_dead(tas, "TOOLOUT", before["TOOLOUT"] + len(bodies))
    await eventually_dead(tas, "TOOLREQ", before["TOOLREQ"] + len(bodies) - 1)  # the deep one is a denial
    assert tas.service.process.poll() is None
    assert caller.fault is None


async def expire_lease(tas: Running, execution_id: uuid.UUID) -> None:
    """Let the lease of a started call be over, without waiting for it."""
    changed = await query(
        tas.dsn,
        "UPDATE tas.tool_call SET claims = regexp_replace(claims, '20..(-..-)', '2001\\1'), revision = revision + 1"
        " WHERE execution_id = $1 AND status = 'started' RETURNING claims",
        execution_id,
    )
    assert changed


async def dead_letters(tas: Running, stream: str) -> int:
    """Count what was set aside from *stream*."""
    found = await query(tas.dsn, "SELECT count(*) AS n FROM runs.dead_letter WHERE stream = $1", stream)
    return int(found[0]["n"])


async def eventually_dead(tas: Running, stream: str, count: int) -> None:
    """Wait until *count* messages of *stream* were set aside."""
    for _ in range(600):
        if (found := await dead_letters(tas, stream)) >= count:
            assert found == count
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{await dead_letters(tas, stream)} dead letters in {stream}, not {count}")
