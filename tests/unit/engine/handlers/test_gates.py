"""Gates: a run waits for a person without forgetting anything, and never for ever."""

from typing import Any
from uuid import UUID, uuid5

from tests.support.engine.machine import RUN, Machine, types, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.advance import wake_at
from towpath_engine.handlers.gates import UNKNOWN_GATE_HOURS
from towpath_engine.handlers.resend import MAX_GATE_RESEND_S
from towpath_engine.reducers.calls import QUEUE_MS
from towpath_engine.reducers.gates import GATE_RESEND_S

FIRST, SECOND = uuid5(RUN, "approval 1"), uuid5(RUN, "approval 2")
DAY = UNKNOWN_GATE_HOURS * 3600.0


def paying(**more: Any) -> Machine:
    machine = Machine(system_params={"account": "a"}, **more)
    machine.decide(use("pay", amount="1"))
    return machine


def gates(machine: Machine) -> list[tuple[str, str]]:
    """Each gate ever opened: its type, and how it was closed."""
    closed = {event.gate_id: event.verdict for event in machine.events(ev.GateClosed)}
    return [(event.gate_type, closed.get(event.gate_id, "open")) for event in machine.events(ev.GateOpened)]


def asked(machine: Machine) -> list[ToolRequest]:
    return [request for request in machine.requests if isinstance(request, ToolRequest)]


def test_an_approval_opens_a_gate_that_says_what_a_person_must_know() -> None:
    machine = paying()
    origins = ({"path": "to", "from": "unknown", "sink": True},)
    assert types(machine.want_approval(FIRST, changes=("amount",), origins=origins, summary="Pay {to}")) == [
        "gate_opened"
    ]
    (opened,) = machine.events(ev.GateOpened)
    assert (opened.gate_type, opened.approval_id, opened.execution_id) == ("approval", FIRST, machine.call_id())
    assert opened.detail["changes"] == ["amount"] and opened.detail["agent"] == "triage"
    assert opened.detail["origins"] == list(origins)
    assert opened.detail["summary"] == "Pay {to}", "a template: what is erased from the arguments is in no other place"
    assert opened.detail["digest"] == "sha256:02" and "people-first" in opened.reason
    assert machine.state.status == "waiting"


def test_an_approved_call_is_asked_for_again_at_once() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    assert types(machine.resolve("approved", approval_id=FIRST)) == ["gate_closed", "effect_resent"]
    (request,) = asked(machine)
    assert (request.execution_id, request.attempt) == (machine.call_id(), 2)
    assert machine.state.status == "running"
    machine.finish(result="paid")
    assert gates(machine) == [("approval", "approved")]


def test_a_denied_approval_is_reported_by_tool_access_and_fed_back() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    machine.resolve("denied", gate_id=machine.state.gates[0].gate_id)
    assert types(machine.deny(violation="approval_denied")) == ["tool_call_denied", "decision_requested"]
    assert "approval_denied" in machine.context.outputs[0].text


def test_a_gate_is_resolved_once_and_only_by_its_own_ids() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    assert machine.want_approval(FIRST) == []
    assert machine.resolve("approved", approval_id=SECOND) == []
    assert machine.resolve("approved", gate_id=SECOND) == []
    nobody = facts.GateResolvedFact(run_id=RUN, verdict="approved")
    assert machine.feed(nobody) == [], "a fact that names no gate settles none"
    machine.resolve("approved", approval_id=FIRST)
    assert machine.resolve("denied", approval_id=FIRST) == []


def test_a_stale_demand_never_opens_a_settled_approval_again() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    machine.resolve("approved", approval_id=FIRST)
    assert machine.want_approval(FIRST) == []
    assert machine.state.status == "running"


def test_drift_replaces_the_gate_by_a_fresh_one() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    assert types(machine.want_approval(SECOND)) == ["gate_closed", "gate_opened"]
    assert gates(machine) == [("approval", "void"), ("approval", "open")]
    assert machine.want_approval(FIRST) == []
    assert machine.resolve("approved", approval_id=FIRST) == []
    machine.resolve("approved", approval_id=SECOND)
    assert gates(machine) == [("approval", "void"), ("approval", "approved")]


def test_the_outcome_settles_a_gate_whose_resolution_was_lost() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    assert types(machine.finish(result="paid")) == ["gate_closed", "tool_call_finished", "decision_requested"]
    assert gates(machine) == [("approval", "settled")]


def test_an_unknown_outcome_asks_a_person_once() -> None:
    machine = paying()
    assert types(machine.unknown()) == ["gate_opened"]
    (opened,) = machine.events(ev.GateOpened)
    assert (opened.gate_type, opened.detail["verdicts"]) == (
        "unknown_effect",
        ["happened", "did_not_happen", "retry"],
    )
    assert (opened.expires_at - machine.now).total_seconds() == DAY
    assert machine.unknown() == [] and machine.state.status == "waiting"


def test_a_late_outcome_settles_the_doubt() -> None:
    machine = paying()
    machine.unknown()
    assert types(machine.finish(result="paid")) == ["gate_closed", "tool_call_finished", "decision_requested"]
    assert gates(machine) == [("unknown_effect", "settled")]


def test_a_second_doubt_after_a_retry_is_a_gate_of_its_own() -> None:
    machine = paying()
    machine.unknown()
    (first,) = machine.events(ev.GateOpened)
    machine.resolve("retry")
    machine.unknown()
    assert gates(machine) == [("unknown_effect", "retry"), ("unknown_effect", "open")]
    assert machine.resolve("retry", gate_id=first.gate_id) == [], "the old word is not the new one"
    assert machine.state.status == "waiting"


def test_a_doubt_replaces_the_gate_of_an_approval() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    assert types(machine.unknown()) == ["gate_closed", "gate_opened"]
    assert gates(machine) == [("approval", "settled"), ("unknown_effect", "open")]
    assert machine.want_approval(FIRST) == [], "and is not replaced by the stale demand for it"


def test_a_waiting_call_is_asked_for_more_and_more_seldom() -> None:
    machine = paying()
    machine.want_approval(FIRST)
    waits = (GATE_RESEND_S, GATE_RESEND_S, 60, MAX_GATE_RESEND_S, MAX_GATE_RESEND_S)
    for attempt, wait in enumerate(waits, 2):
        due = wake_at(machine.state)
        assert due is not None and (due - machine.now).total_seconds() == wait
        assert types(machine.wake()) == ["effect_resent"]
        assert [request.attempt for request in asked(machine)] == [attempt]


def test_the_run_wakes_for_the_expiry_of_a_gate() -> None:
    machine = paying()
    machine.want_approval(FIRST, hours=0.001)
    assert wake_at(machine.state) == machine.state.gates[0].expires_at


def test_an_expired_approval_is_closed_and_its_fate_asked_for() -> None:
    machine = paying()
    machine.want_approval(FIRST, hours=0.001)
    assert machine.timer(after=3.5) == []
    assert types(machine.timer(after=0.1)) == ["gate_closed", "effect_resent"]
    assert gates(machine) == [("approval", "expired")] and len(asked(machine)) == 1
    machine.deny(violation="approval_expired")
    assert machine.state.step == 2


def test_an_expired_doubt_stays_one_and_the_run_goes_on() -> None:
    machine = paying()
    machine.unknown()
    machine.timer(after=DAY - 1)
    assert machine.state.status == "waiting"
    assert types(machine.timer(after=1)) == ["gate_closed", "tool_call_finished", "decision_requested"]
    (output,) = machine.context.outputs
    assert output.status == "unknown" and "outcome_unknown" in output.text and "without checking" in output.text
    assert gates(machine) == [("unknown_effect", "expired")]


def test_an_expiry_that_comes_as_a_fact_is_the_same_expiry() -> None:
    machine = paying()
    machine.unknown()
    assert types(machine.resolve("expired")) == ["gate_closed", "tool_call_finished", "decision_requested"]


def test_all_gates_of_a_step_expire_together() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.unknown(0)
    machine.unknown(1)
    assert gates(machine) == [("unknown_effect", "open")] * 2
    events = machine.timer(after=DAY)
    assert types(events) == ["gate_closed", "tool_call_finished"] * 2 + ["decision_requested"]


def test_the_time_of_a_call_begins_again_when_its_gate_closes() -> None:
    machine = paying()
    first = asked(machine)[0].deadline
    machine.want_approval(FIRST, hours=9)
    machine.resolve("approved", approval_id=FIRST, after=7200)
    (request,) = asked(machine)
    assert (request.deadline - machine.now).total_seconds() == (30_000 + QUEUE_MS) / 1000
    assert request.deadline > first


def test_gates_and_other_calls_are_independent() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.want_approval(FIRST, 1)
    assert machine.state.status == "running", "the other call still runs"
    machine.finish(0)
    assert machine.state.status == "waiting"
    machine.resolve("approved", approval_id=FIRST)
    machine.finish(1)
    assert machine.state.step == 2


def test_every_end_closes_the_gates_in_the_log() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.want_approval(FIRST, 1)
    assert types(machine.timer(after=300)) == ["gate_closed", "run_finished"]
    assert gates(machine) == [("approval", "void")]
    other = paying()
    other.want_approval(FIRST)
    other.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=other.call_id(), message="differs"))
    assert gates(other) == [("approval", "void")]


def test_a_gate_for_an_unknown_call_is_not_opened() -> None:
    machine = paying()
    stranger = UUID(int=7)
    fact = machine_fact(machine, stranger)
    assert machine.feed(fact) == []


def machine_fact(machine: Machine, execution_id: UUID) -> facts.ApprovalRequiredFact:
    return facts.ApprovalRequiredFact(
        run_id=RUN,
        execution_id=execution_id,
        approval_id=FIRST,
        rule="r",
        tool="pay",
        args={"rate": float("nan")},
        args_digest="",
        digest="",
        expires_at=machine.now,
    )


def test_what_is_shown_to_a_person_is_json_and_an_old_gate_closes_at_the_next_look() -> None:
    machine = paying()
    machine.feed(machine_fact(machine, machine.call_id()))
    assert machine.events(ev.GateOpened)[0].detail["args"] == {"rate": None}
    assert types(machine.timer()) == ["gate_closed", "effect_resent"]
