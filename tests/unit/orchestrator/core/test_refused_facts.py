"""How the facts of a batch are weighed, and how a run learns that one of them was refused."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.engine.machine import RUN, Machine, use

from towpath_contracts import facts
from towpath_engine.state.run import Status
from towpath_orchestrator.core.refused_facts import Remedy, halves_of, remedy_for

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def test_runs_are_halved_before_the_facts_of_one_run() -> None:
    assert halves_of({A: [1, 2], B: [3], C: [4]}) == [{A: [1, 2]}, {B: [3], C: [4]}]
    assert halves_of({A: [1, 2, 3]}) == [{A: [1]}, {A: [2, 3]}]
    assert halves_of({A: [1]}) == []


@pytest.fixture
def machine() -> Machine:
    return Machine()


def answer(request_id: UUID) -> facts.AnyFact:
    return facts.DecisionMadeFact(run_id=RUN, request_id=request_id, attempt=1, decision={})


def test_what_is_still_asked_is_asked_again(machine: Machine) -> None:
    (pending,) = machine.state.pending
    assert remedy_for(answer(pending.effect_id), machine.state) is Remedy.ASK_AGAIN
    machine.decide(use("echo", text="x"))
    call = machine.call_id()
    outcomes: list[facts.AnyFact] = [
        facts.ToolFinishedFact(run_id=RUN, execution_id=call, status="succeeded"),
        facts.InternalToolPermittedFact(run_id=RUN, execution_id=call),
    ]
    assert [remedy_for(fact, machine.state) for fact in outcomes] == [Remedy.ASK_AGAIN] * 2
    cancelling = replace(machine.state, status=Status.CANCELLING)
    assert remedy_for(outcomes[0], cancelling) is Remedy.NONE, "a cancel gives up what is late"


def test_a_run_that_would_wait_in_silence_is_parked(machine: Machine) -> None:
    waited_for: list[facts.AnyFact] = [
        answer(B),
        facts.TimerFiredFact(run_id=RUN),
        facts.CancelRequestedFact(run_id=RUN, by="ann"),
        facts.GateResolvedFact(run_id=RUN, gate_id=A, verdict="approved"),
        facts.RunAdmittedFact(run_id=RUN),
        facts.MessageDeadFact(run_id=RUN, stream="INBOX", reason="r"),
    ]
    assert {remedy_for(fact, machine.state) for fact in waited_for} == {Remedy.PARK}
    assert remedy_for(answer(A), None) is Remedy.PARK


def test_what_a_run_does_not_need_is_only_set_aside(machine: Machine) -> None:
    finding = facts.WatchdogReportedFact(run_id=RUN, finding="cycle", key="k", since=0)
    note = facts.RunSteeredFact(run_id=RUN, act="note", act_id=A, by="ann", text="x")
    assert {remedy_for(fact, machine.state) for fact in (finding, note)} == {Remedy.NONE}
