"""Loop detectors: what counts as the same, when they fire, what they do."""

from typing import Any

import pytest
from tests.support.engine.machine import START, Machine, respond, route, snapshot, types, use, use_all

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import RunCreated
from towpath_engine.state.run import dump_state, load_state


def call(machine: Machine, decision: dict[str, Any], result: Any = "same") -> None:
    machine.decide(decision)
    for index in range(len(machine.state.calls)):
        machine.finish(index, result=result)


def loops(machine: Machine) -> list[tuple[str, int, str]]:
    return [(event.detector, event.count, event.action) for event in machine.events(ev.LoopDetected)]


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


def test_neither_the_order_of_keys_nor_of_calls_hides_a_loop() -> None:
    machine = Machine(system_params={"account": "a", "token": "t"})
    call(machine, use_all(("pay", {"amount": "1", "text": "x"}), ("echo", {"text": "y"})))
    call(machine, use_all(("echo", {"text": "y"}), ("pay", {"text": "x", "amount": "1"})))
    machine.decide(use_all(("pay", {"text": "x", "amount": "1"}), ("echo", {"text": "y"})))
    assert loops(machine) == [("calls", 3, "nudge")]


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


def test_a_polling_tool_may_be_called_again_and_again() -> None:
    machine = Machine()
    for _ in range(6):
        call(machine, use("poll", text="x"))
    assert loops(machine) == []
    both = use_all(("poll", {"text": "x"}), ("echo", {"text": "x"}))
    for _ in range(2):
        call(machine, both)
    machine.decide(both)
    assert loops(machine) == [("calls", 3, "nudge")], "only a decision of nothing but polling tools is exempt"


def test_polling_in_between_does_not_hide_a_loop() -> None:
    machine = Machine()
    for _ in range(2):
        call(machine, use("echo", text="x"))
        call(machine, use("poll", text="x"))
    machine.decide(use("echo", text="x"))
    assert loops(machine) == [("calls", 3, "nudge")]


def test_only_the_last_eight_loops_are_remembered() -> None:
    machine = Machine(max_steps=100)
    for number in range(10):
        for _ in range(2):
            call(machine, use("echo", text=str(number)))
        machine.decide(use("echo", text=str(number)))
    assert len(loops(machine)) == 10 and len(machine.state.detectors.nudged) == 8


def failing(machine: Machine, message: str, **more: Any) -> None:
    number = len(machine.events(ev.DecisionReceived))
    machine.decide(use("echo", text=f"try {number}"))
    machine.fail(message=message, **more)


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


@pytest.mark.parametrize(
    "messages",
    [
        ("Unknown tool: alpha", "unknown TOOL beta", "Error: unknown tool 'gamma'"),
        ("row 17 is missing", "row 18 is missing", "row 4711 is missing"),
        ("bad pointer 0xdeadbeef", "bad pointer 0x1", "bad pointer 0xABC"),
        ("no key 'a' in table", "no key 'b' in table", 'no key "c d" in table'),
        ("permission denied: /etc", "403: you lack permission", "Permission missing for bob"),
        ("request timed out", "read timeout after 3 s", "deadline exceeded"),
        ("connection refused by db-1", "Connection reset by peer", "host is unreachable"),
        ("日本語のエラー", "日本語のエラー", "日本語のエラー"),
        ("e" * 10_000, "e" * 10_000 + "x", "e" * 9_000),
    ],
)
def test_errors_of_one_class_are_the_same_error(messages: tuple[str, str, str]) -> None:
    machine = Machine()
    for message in messages:
        failing(machine, message)
    assert loops(machine) == [("errors", 3, "nudge")]
    assert len(machine.state.detectors.error_signature) < 250


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


def test_typed_failures_are_compared_by_their_code() -> None:
    machine = Machine()
    for message in ("alpha", "beta", "gamma"):
        failing(machine, message, code="invalid_arguments")
    assert loops(machine) == [("errors", 3, "nudge")]


def test_equal_denials_are_equal_errors() -> None:
    machine = Machine()
    for number in range(3):
        machine.decide(use("echo", text=str(number)))
        machine.deny()
    assert loops(machine) == [("errors", 3, "nudge")]


def test_three_unknown_tools_are_one_error_whatever_their_names() -> None:
    machine = Machine()
    for name in ("alpha", "beta"):
        machine.decide(use(name))
    assert loops(machine) == []
    machine.decide(use("gamma"))
    assert loops(machine) == [("errors", 3, "nudge")]
    machine.decide(use("delta"))
    assert (machine.finished.status, machine.finished.reason) == ("failed", "loop_detected")


@pytest.mark.parametrize(
    "decisions",
    [
        [route("a"), route("b"), route("c")],
        [{"action": "DANCE"}] * 3,
        [use("pay")] * 3,
    ],
)
def test_equal_refusals_are_equal_errors(decisions: list[dict[str, Any]]) -> None:
    machine = Machine(system_params={"account": "x"})
    for decision in decisions:
        machine.decide(decision)
    assert loops(machine) == [("errors", 3, "nudge")]


def test_arguments_that_get_better_are_no_loop() -> None:
    machine = Machine(system_params={"account": "x"})
    for decision in (use("pay"), use("pay", account="mine"), use("pay", amount="1", token="t"), use("pay", token="t")):
        machine.decide(decision)
    assert loops(machine) == []


def test_unreadable_answers_are_equal_errors() -> None:
    machine = Machine()
    for number in range(3):
        machine.miss("invalid_output", f"line {number}: no JSON")
    assert loops(machine) == [("errors", 3, "nudge")]


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
    said = machine.finished.final["message"]
    assert "the last one was invalid_output: " in said and "action_details.payload: Field required" in said
