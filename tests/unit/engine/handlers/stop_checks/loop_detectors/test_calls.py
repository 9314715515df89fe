"""The detector `calls`: the third equal call in a row is not run."""

import pytest
from tests.support.engine.detected_loops import call, loops
from tests.support.engine.machine import Machine, respond, route, types, use

from towpath_contracts.events import log as ev


def test_the_third_equal_call_in_a_row_is_refused_and_the_fourth_stops_the_run() -> None:
    machine = Machine()
    for _ in range(2):
        call(machine, use("echo", text="x"))
    assert loops(machine) == []
    events = machine.decide(use("echo", text="x"))
    assert types(events) == ["decision_received", "loop_detected", "decision_refused", "decision_requested"]
    assert loops(machine) == [("calls", 3, "nudge")]
    assert machine.state.detectors.error_count == 0, "a refused loop is no error of its own"
    assert "echo was just called 2 times with the same arguments" in machine.context.feedback[0]
    assert types(machine.decide(use("echo", text="x"))) == ["decision_received", "loop_detected", "run_finished"]
    assert loops(machine)[-1] == ("calls", 3, "stop")
    assert (machine.finished.status, machine.finished.reason) == ("failed", "loop_detected")
    assert machine.finished.last_output == "same"
    assert len(machine.events(ev.ToolCallFinished)) == 2, "the third was never run"


@pytest.mark.parametrize("texts", ["xxyx", "xyxyx", "xyzxyzxy", "xxyxxyxx"])
def test_calls_that_differ_in_between_are_no_loop(texts: str) -> None:
    machine = Machine()
    for text in texts:
        call(machine, use("echo", text=text))
    assert loops(machine) == []


def test_a_loop_is_seen_through_routes_refusals_and_other_agents() -> None:
    machine = Machine()
    call(machine, use("echo", text="x"))
    machine.decide(route("expert"))
    call(machine, use("echo", text="x"))
    machine.decide(use("ghost"))
    machine.decide(route("triage"))
    machine.decide(use("echo", text="x"))
    assert loops(machine) == [("calls", 3, "nudge")]


def test_a_nudged_run_that_does_something_else_goes_on() -> None:
    machine = Machine()
    for _ in range(2):
        call(machine, use("echo", text="x"))
    machine.decide(use("echo", text="x"))
    call(machine, use("lookup", text="x"))
    machine.decide(respond("well"))
    assert machine.finished.status == "completed"


def test_a_second_time_around_there_is_no_second_nudge() -> None:
    machine = Machine(max_steps=20)
    for _ in range(2):
        call(machine, use("echo", text="x"))
    machine.decide(use("echo", text="x"))
    call(machine, use("lookup", text="x"))
    for _ in range(2):
        call(machine, use("echo", text="x"))
    machine.decide(use("echo", text="x"))
    assert loops(machine) == [("calls", 3, "nudge"), ("calls", 3, "stop")]


def test_the_same_call_after_an_outage_is_no_loop() -> None:
    """That its server was away is not the model's doing: the call is not counted."""
    machine = Machine(max_steps=50, max_tool_errors=50)
    for _ in range(4):
        machine.decide(use("lookup", text="x"))
        machine.fail(code="unavailable", message="HTTP 503", external=True)
    call(machine, use("lookup", text="x"))
    assert loops(machine) == []
    call(machine, use("lookup", text="x"))
    machine.decide(use("lookup", text="x"))
    assert loops(machine) == [("calls", 3, "nudge")], "what was answered counts"


def test_only_the_last_eight_loops_are_remembered() -> None:
    machine = Machine(max_steps=100)
    for number in range(10):
        for _ in range(2):
            call(machine, use("echo", text=str(number)))
        machine.decide(use("echo", text=str(number)))
    assert len(loops(machine)) == 10 and len(machine.state.detectors.nudged) == 8
