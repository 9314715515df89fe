"""The detector `errors`: steps that fail in the same way."""

import pytest
from tests.support.engine.detected_loops import call, failing, loops
from tests.support.engine.machine import RUN, START, Machine, route, snapshot, use, use_all

from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import RunCreated
from towpath_engine.reducers.loops.counters import after_step
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.run import StepCall, dump_state, load_state


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


def denied(machine: Machine, text: str, *, tool: str = "echo", rule: str = "careful") -> None:
    machine.decide(use(tool, text=text))
    machine.deny(tool=tool, rule=rule)


def denied_call(rule: str, text: str) -> StepCall:
    call_of_echo = ToolCall(execution_id=RUN, call_index=0, tool="echo", args={"text": text})
    signature = f"denied:permission_denied:echo:{rule}"
    return StepCall(call=call_of_echo, status="denied", error_signature=signature, result={"tool": "echo"})


def actions(machine: Machine) -> list[tuple[int, str]]:
    return [(count, action) for detector, count, action in loops(machine) if detector == "errors"]


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ("abcdefghi", 0),
        ("abca", 4),
        ("abcdefb", 7),
        ("aabcdefg", 0),  # what was asked for again before the note does not count
        ("aabcdefa", 8),
        ("ababab", 4),
    ],
)
def test_denials_end_a_run_only_where_a_denied_call_is_asked_for_again_after_the_note(asked: str, ends: int) -> None:
    machine = Machine(max_steps=50)
    for number, text in enumerate(asked, start=1):
        denied(machine, text)
        assert machine.state.is_final == (number == ends)
        if ends == number:
            break
    assert actions(machine) == [(3, "nudge"), *([(ends, "stop")] if ends else [])]
    assert not ends or machine.finished.reason == "loop_detected"


@pytest.mark.parametrize("works", [True, False])
def test_a_success_or_another_failure_forgets_which_calls_were_denied(works: bool) -> None:
    machine = Machine(max_steps=50)
    denied(machine, "a")
    if works:
        call(machine, use("echo", text="it works"))
    else:
        failing(machine, "disk is full")
    for text in "bcda":
        denied(machine, text)
    assert actions(machine) == [(3, "nudge")]
    denied(machine, "d")
    assert machine.finished.reason == "loop_detected"


def test_a_denial_of_another_kind_in_between_forgets_none() -> None:
    machine = Machine(max_steps=50)
    for text in "abc":
        denied(machine, text)
    denied(machine, "a", tool="lookup")
    for text in "defg":
        denied(machine, text)
    assert actions(machine) == [(3, "nudge")] and not machine.state.is_final
    denied(machine, "b")
    assert machine.finished.reason == "loop_detected"


def test_a_failure_beside_denials_is_an_error_like_any_other() -> None:
    machine = Machine(max_steps=50)
    for number in range(4):
        machine.decide(use_all(("echo", {"text": f"{number}"}), ("lookup", {"text": f"{number}"})))
        machine.deny(0, tool="echo", rule="careful")
        machine.fail(1, message="disk is full")
    assert actions(machine) == [(3, "nudge"), (4, "stop")]


def test_denials_that_do_not_name_their_tool_end_a_run_as_they_always_did() -> None:
    machine = Machine(max_steps=50)
    for text in "abcd":
        machine.decide(use("echo", text=text))
        machine.deny()
    assert actions(machine) == [(3, "nudge"), (4, "stop")] and machine.state.tool_errors == 4


def test_the_denied_calls_of_all_attempts_of_a_step_are_remembered() -> None:
    counters, tools = LoopCounters(), snapshot().tools
    for step, rule, text in ((1, "a", "x"), (2, "b", "y"), (2, "a", "z"), (3, "a", "y")):
        counters = after_step(counters, (denied_call(rule, text),), tools, step)
        assert not counters.denied_again, "the same arguments under another rule are another denial"
    assert (counters.error_count, len(counters.denied_calls)) == (3, 4)
    assert after_step(counters, (denied_call("b", "y"),), tools, 3).denied_again
    assert after_step(counters, (denied_call("a", "x"),), tools, 4).denied_again


def test_after_the_note_a_failure_with_an_external_cause_or_another_agent_changes_nothing() -> None:
    machine = Machine(max_steps=50, max_tool_errors=50)
    for text in "abcd":
        denied(machine, text)
    failing(machine, "disk is full", external=True)
    machine.decide(route("expert"))
    denied(machine, "e")
    assert not machine.state.is_final
    denied(machine, "d")
    assert actions(machine) == [(3, "nudge"), (6, "stop")]


def test_denied_calls_do_not_use_up_the_error_budget() -> None:
    machine = Machine(max_steps=50, max_tool_errors=2)
    for number in range(10):
        denied(machine, f"{number}")
    failing(machine, "disk is full")
    assert not machine.state.is_final and machine.state.tool_errors == 1
    failing(machine, "row is missing")
    assert machine.finished.reason == "max_tool_errors_exceeded"


def test_a_model_that_varies_an_argument_for_ever_is_ended_by_its_steps() -> None:
    machine = Machine()
    for number in range(machine.state.created.max_steps):
        denied(machine, f"{number}")
    assert machine.finished.reason == "max_steps_exceeded"


def test_a_loop_of_refusals_names_the_last_one() -> None:
    """B8: the end says why the answers were no decisions, and not only that there were many."""
    machine = Machine()
    while not machine.state.is_final:
        machine.miss("invalid_output", "action_details.payload is missing")
    assert machine.finished.reason == "loop_detected"
    found = machine.finished.final["message"]
    assert "the last one was invalid_output: " in found and "action_details.payload is missing" in found
