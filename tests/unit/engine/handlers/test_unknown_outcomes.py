"""A call that nobody can answer for: asked about once, and settled by a word or by a fact."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine.machine import RUN, START, Machine, types, use

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolFailure, UnknownCallEvidence

DOUBT = UnknownCallEvidence(
    worker="w1", claimed_at=START, lease_until=START + timedelta(seconds=40), starts=1, probe="unclear"
)


def paying() -> Machine:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"))
    return machine


def doubt(machine: Machine, attempt: int) -> list[ev.AnyEvent]:
    failure = ToolFailure(code="outcome_unknown", message="nothing was heard of it")
    return machine.finish(result=None, status="unknown", worker="w1", attempt=attempt, doubt=DOUBT, failure=failure)


def verdicts(machine: Machine) -> list[tuple[str, str]]:
    return [(event.verdict, event.by) for event in machine.events(ev.GateClosed)]


def test_the_gate_shows_what_is_known_and_what_a_retry_may_cost() -> None:
    machine = paying()
    doubt(machine, 1)
    (opened,) = machine.events(ev.GateOpened)
    detail = opened.detail
    assert (detail["tool"], detail["args"]["amount"], detail["worker"], detail["starts"]) == ("pay", "1", "w1", 1)
    assert detail["claimed_at"] < detail["lease_until"]
    assert (detail["why"], detail["probe"]) == ("nothing was heard of it", "unclear")
    assert "may still act" in detail["retry_warning"]


def test_a_doubt_that_is_reported_again_after_a_retry_is_not_asked_about_again() -> None:
    machine = paying()
    doubt(machine, 1)
    machine.resolve("retry")
    assert doubt(machine, 1) == [] and machine.state.status == "running"
    assert types(doubt(machine, 2)) == ["gate_opened"], "the next attempt's doubt is a new one"
    assert doubt(machine, 1) == doubt(machine, 2) == []
    machine.resolve("retry")
    assert doubt(machine, 1) == doubt(machine, 2) == []
    assert types(machine.finish(result="paid", attempt=3)) == ["tool_call_finished", "decision_requested"]


@pytest.mark.parametrize("verdict", ["happened", "did_not_happen"])
@pytest.mark.parametrize("first", ["outcome", "word"])
def test_a_persons_decision_closes_the_gate_whichever_way_it_comes(verdict: str, first: str) -> None:
    machine = paying()
    doubt(machine, 1)
    gate_id = machine.state.gates[0].gate_id
    settled: dict[str, Any] = {"settled_by": "ann", "attempt": 1}
    if verdict == "happened":
        settled |= {"status": "succeeded", "result": {"note": "", "reason": "seen"}}
    else:
        settled |= {"status": "failed", "failure": ToolFailure(code="did_not_happen", message="seen")}
    if first == "word":
        machine.resolve(verdict, gate_id=gate_id, reason="seen")
        machine.finish(**settled)
    else:
        machine.finish(**settled)
        assert machine.resolve(verdict, gate_id=gate_id) == []
    assert verdicts(machine) == [(verdict, "ann")]
    (finished,) = machine.events(ev.ToolCallFinished)
    assert finished.settled_by == "ann" and machine.state.status == "running"
    assert machine.events(ev.GateClosed)[0].reason == "seen"
    stale = next(fact for fact, _ in machine.facts if isinstance(fact, facts.ToolFinishedFact))
    assert machine.feed(stale) == [], "and nobody is asked again"


def test_a_late_outcome_closes_the_gate_and_the_run_goes_on() -> None:
    machine = paying()
    doubt(machine, 1)
    late = machine.finish(result="paid", attempt=1, probe="happened")
    assert types(late) == ["gate_closed", "tool_call_finished", "decision_requested"]
    assert verdicts(machine) == [("settled", "")]
    assert machine.events(ev.ToolCallFinished)[0].probe == "happened"
    fact = facts.GateResolvedFact(
        run_id=RUN, gate_id=machine.events(ev.GateOpened)[0].gate_id, verdict="retry", by="ann"
    )
    assert machine.feed(fact) == [], "a word that comes after it changes nothing"


def test_after_a_restore_the_gate_warns_of_what_the_database_does_not_know() -> None:
    machine, since = paying(), START - timedelta(hours=1)
    failure = ToolFailure(code="outcome_unknown", message="the database was restored from a backup")
    lost = UnknownCallEvidence(lost_since=since)
    machine.finish(result=None, status="unknown", attempt=1, doubt=lost, failure=failure)
    (opened,) = machine.events(ev.GateOpened)
    assert opened.detail["verdicts"] == ["happened", "did_not_happen", "retry"]
    assert opened.detail["lost_since"] == since.isoformat().replace("+00:00", "Z")
    assert "after the backup was made" in opened.detail["retry_warning"]
    other = paying()
    doubt(other, 1)
    assert "lost_since" not in other.events(ev.GateOpened)[0].detail, "older logs give the same events"
