"""The detector `errors`: steps that fail in the same way."""

import pytest
from tests.support.engine.detected_loops import call, failing, loops
from tests.support.engine.machine import START, Machine, route, snapshot, use, use_all

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import RunCreated
from towpath_engine.state.run import dump_state, load_state


def test_the_third_equal_error_nudges_and_the_fourth_stops() -> None:
    machine = Machine()
    for _ in range(2):
        failing(machine, "disk is full")
    assert loops(machine) == [] and not machine.context.notes
    failing(machine, "disk is full")
    assert loops(machine) == [("errors", 3, "nudge")]
    assert "The last 3 steps failed in the same way" in machine.context.notes[0]
    failing(machine, "disk is full")
    assert loops(machine)[-1] == ("errors", 4, "stop")
    assert (machine.finished.status, machine.finished.reason) == ("failed", "loop_detected")


def test_a_nudge_is_given_once_and_steps_without_an_error_do_not_stop_the_run() -> None:
    machine = Machine()
    for _ in range(3):
        failing(machine, "disk is full")
    machine.decide(route("expert"))
    failing(machine, "disk is full", external=True)
    assert loops(machine) == [("errors", 3, "nudge")] and not machine.state.is_final
    failing(machine, "disk is full")
    assert machine.finished.reason == "loop_detected"


@pytest.mark.parametrize("messages", ["aab", "aba", "abab", "abcabc", "aabaab"])
def test_different_errors_are_no_loop(messages: str) -> None:
    machine = Machine(max_tool_errors=50)
    for letter in messages:
        failing(machine, f"problem {letter} of the disk")
    assert loops(machine) == []


def test_one_success_clears_the_errors() -> None:
    machine = Machine()
    for _ in range(2):
        failing(machine, "disk is full")
    call(machine, use("lookup", text="x"))
    for _ in range(2):
        failing(machine, "disk is full")
    assert loops(machine) == []


def test_a_success_beside_a_failure_clears_too() -> None:
    machine = Machine()
    for _ in range(2):
        failing(machine, "disk is full")
    machine.decide(use_all(("echo", {"text": "q"}), ("lookup", {"text": "q"})))
    machine.finish(1)
    machine.fail(0, message="disk is full")
    assert machine.state.detectors.error_count == 0


def test_external_causes_do_not_count_and_do_not_clear() -> None:
    machine = Machine(max_tool_errors=50)
    for _ in range(2):
        failing(machine, "disk is full")
    for _ in range(4):
        failing(machine, "disk is full", external=True)
    assert loops(machine) == [] and machine.state.detectors.error_count == 2
    failing(machine, "disk is full")
    assert loops(machine) == [("errors", 3, "nudge")]


def test_the_same_errors_after_a_success_are_reported_no_second_time_and_stop_at_the_fourth() -> None:
    machine = Machine(max_steps=50, max_tool_errors=50)
    for number in range(6):
        if number == 3:
            call(machine, use("echo", text="it works"))
        machine.decide(use("lookup", text=f"{number}"))
        machine.fail(message="disk is full")
    assert loops(machine) == [("errors", 3, "nudge")] and not machine.state.is_final
    machine.decide(use("lookup", text="6"))
    machine.fail(message="disk is full")
    assert loops(machine)[-1] == ("errors", 4, "stop")


def test_counters_survive_a_restart_and_a_change_of_agent() -> None:
    machine = Machine()
    call(machine, use("echo", text="x"))
    failing(machine, "disk is full")
    created = machine.entries[0].event
    assert isinstance(created, RunCreated)
    machine.state = load_state(dump_state(machine.state), created, machine.network)
    machine.decide(route("expert"))
    failing(machine, "disk is full")
    machine.state = load_state(dump_state(machine.state), created, machine.network)
    failing(machine, "disk is full")
    assert loops(machine) == [("errors", 3, "nudge")]
    assert machine.state.agent_key == "expert"


def test_each_loop_is_reported_with_its_signature() -> None:
    machine = Machine()
    for _ in range(3):
        failing(machine, "Unknown tool: x")
    (event,) = machine.events(ev.LoopDetected)
    assert event.signature == "tool_exception:unknown_tool"
    assert f"errors:{event.signature}" in machine.state.detectors.nudged


def test_the_errors_loop_comes_before_the_error_budget_and_the_step_limit() -> None:
    machine = Machine(max_steps=4, max_tool_errors=4)
    for _ in range(4):
        failing(machine, "disk is full")
    assert machine.finished.reason == "loop_detected"


def test_the_error_budget_comes_before_the_step_limit() -> None:
    machine = Machine(snapshot(), max_steps=2, max_tool_errors=2)
    for word in ("alpha", "beta"):
        failing(machine, word)
    assert machine.finished.reason == "max_tool_errors_exceeded"
    assert machine.now == START


def test_a_loop_of_refusals_names_the_last_one() -> None:
    """B8: the end says why the answers were no decisions, and not only that there were many."""
    machine = Machine()
    while not machine.state.is_final:
        machine.miss("invalid_output", "action_details.payload: Field required")
    assert machine.finished.reason == "loop_detected"
    found = machine.finished.final["message"]
    assert "the last one was invalid_output: " in found and "action_details.payload: Field required" in found
