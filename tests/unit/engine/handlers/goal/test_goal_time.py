"""Goals that ask a person at their deadline: whatever is under way then."""

from typing import Any

import pytest
from tests.support.engine.goal_machine import PASSING, asked, goal_run
from tests.support.engine.machine import RUN, Machine, respond, use

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_engine.advance import wake_at
from towpath_engine.state.run import Status
from towpath_readings.nodes import project_nodes

LIMIT_S = 300
"""Active time of a run in these tests."""

MOST_WAKES = 40
"""Timers of a run within that time: its question is asked again every 75 s, its call every 15 s."""


def at_deadline(machine: Machine) -> ev.GateOpened:
    """Let time pass until the run is out of it, and return the gate that it opens."""
    known = len(machine.events(ev.GateOpened))
    for _ in range(MOST_WAKES):
        machine.wake()
        if len(machine.events(ev.GateOpened)) > known:
            break
    gate = machine.events(ev.GateOpened)[-1]
    assert len(machine.events(ev.GateOpened)) == known + 1 and gate.gate_type == "timeout"
    return gate


def late(machine: Machine, request_id: Any, decision: dict[str, Any]) -> list[Any]:
    return machine.feed(facts.DecisionMadeFact(run_id=RUN, request_id=request_id, attempt=1, decision=decision))


@pytest.mark.parametrize("waits_s", [0, 7_200])
def test_c11_a_question_without_an_answer_does_not_hold_the_gate_back(waits_s: float) -> None:
    """C11: the gate `timeout` opens at the deadline; whoever lets the run go on gives it its whole time once more."""
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    old = machine.request_id
    began = machine.now
    gate = at_deadline(machine)
    assert (machine.now - began).total_seconds() == LIMIT_S
    assert machine.state.status == Status.WAITING and machine.state.pending == ()
    assert late(machine, old, use("deploy", text="late")) == [], "nothing runs while a person is asked"
    (node,) = project_nodes(RUN, machine.entries).nodes
    assert (node.status, node.ended_at) == ("timeout", machine.now)
    machine.resolve("approved", gate_id=gate.gate_id, after=waits_s)
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest) and request.request_id != old
    assert (request.step, asked(machine), machine.state.active_ms) == (1, "decide", 0)
    assert late(machine, old, use("deploy", text="late")) == [], "the new question is answered by its own answer"
    machine.decide(use("test"), after=LIMIT_S - 1)
    machine.finish(result=PASSING)
    assert (machine.finished.status, machine.finished.reason) == ("completed", "criteria_met")


def test_c11_time_that_is_used_up_a_second_time_is_asked_about_again() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    first = at_deadline(machine)
    machine.resolve("denied", gate_id=first.gate_id, reason="smaller steps")
    assert machine.context.notes[-1].endswith("smaller steps")
    second = at_deadline(machine)
    assert second.gate_id != first.gate_id
    machine.resolve("stop", gate_id=second.gate_id)
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "timeout")


def test_c11_a_gate_at_the_deadline_that_nobody_settles_ends_the_run() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    at_deadline(machine)
    machine.wake()
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "timeout")


def test_c11_a_further_attempt_is_asked_for_again_as_the_same_attempt() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    machine.decide(use("edit", text="a"))
    machine.fail()
    machine.timer(after=2)
    goal = machine.state.goal
    assert asked(machine) == "replan" and goal is not None and goal.attempt == 2
    gate = at_deadline(machine)
    machine.resolve("approved", gate_id=gate.gate_id)
    assert (asked(machine), machine.state.step, machine.state.goal) == ("replan", 1, goal)


def test_c11_an_assessment_without_an_answer_is_asked_for_again() -> None:
    machine = goal_run(texts=("it works",), validate_steps=True, on_timeout="gate")
    machine.decide(respond("All done!"))
    assert asked(machine) == "validate"
    gate = at_deadline(machine)
    machine.resolve("approved", gate_id=gate.gate_id)
    assert asked(machine) == "validate" and len(machine.requests) == 1
    machine.decide({"valid": True, "criteria": [{"criterion": 0, "met": True}]})
    assert machine.finished.status == "completed"


def test_c11_a_call_that_has_begun_comes_to_its_end_while_a_person_is_asked() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    machine.decide(use("test"), after=LIMIT_S - 1)
    gate = at_deadline(machine)
    call = machine.state.pending[0]
    assert machine.state.status == Status.RUNNING and machine.state.pending_effect(call.effect_id)
    wanted = wake_at(machine.state)
    assert wanted is not None and wanted > machine.now, "the deadline wakes the run once"
    machine.finish(result=PASSING, after=1)
    assert machine.state.status == Status.WAITING
    machine.resolve("approved", gate_id=gate.gate_id, after=60)
    assert (machine.finished.status, machine.finished.reason) == ("completed", "criteria_met")


def test_c11_a_call_that_has_begun_goes_on_in_the_time_that_a_person_gives() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    machine.decide(use("edit"), after=LIMIT_S - 1)
    gate = at_deadline(machine)
    machine.resolve("approved", gate_id=gate.gate_id, after=1)
    assert not machine.state.gates
    machine.timer(after=1)
    assert not machine.state.gates, "its whole time once more"
    machine.finish()
    assert asked(machine) == "decide" and machine.state.step == 2
