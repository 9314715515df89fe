"""What counts as the same call, error or result."""

from typing import Any

import pytest
from tests.support.engine.detected_loops import PAGE, call, failing, loops
from tests.support.engine.machine import Machine, route, use, use_all

from towpath_engine.reducers.loops.signatures import weight


def test_neither_the_order_of_keys_nor_of_calls_hides_a_loop() -> None:
    machine = Machine(system_params={"account": "a", "token": "t"})
    call(machine, use_all(("pay", {"amount": "1", "text": "x"}), ("echo", {"text": "y"})))
    call(machine, use_all(("echo", {"text": "y"}), ("pay", {"text": "x", "amount": "1"})))
    machine.decide(use_all(("pay", {"text": "x", "amount": "1"}), ("echo", {"text": "y"})))
    assert loops(machine) == [("calls", 3, "nudge")]


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


def test_failures_of_the_platform_are_compared_by_their_code() -> None:
    machine = Machine()
    for message in ("alpha", "beta", "gamma"):
        failing(machine, message, code="invalid_arguments")
    assert loops(machine) == [("errors", 3, "nudge")]


def test_typed_failures_of_a_tool_are_compared_by_their_text_too() -> None:
    """An author may have one code for whatever an edit does not fit to."""
    different, equal, coded = Machine(), Machine(), Machine()
    for place, message in enumerate(("no such line", "the file is read-only", "the text stands there twice")):
        failing(different, message, code="edit_refused")
        failing(equal, f"line {place} is not there", code="edit_refused")
        failing(coded, "no such line", code=f"edit_{place}")
    assert loops(different) == loops(coded) == []
    assert loops(equal) == [("errors", 3, "nudge")]


def test_equal_denials_are_equal_errors() -> None:
    machine = Machine()
    for number in range(3):
        machine.decide(use("echo", text=str(number)))
        machine.deny()
    assert loops(machine) == [("errors", 3, "nudge")]


def test_denials_of_different_tools_or_by_different_rules_are_no_loop() -> None:
    machine = Machine()
    for tool, rule in (
        ("echo", "a"),
        ("lookup", "a"),
        ("echo", "b"),
        ("lookup", None),
        ("echo", None),
        ("lookup", "b"),
    ):
        machine.decide(use(tool, text=f"{tool} {rule}"))
        machine.deny(tool=tool, rule=rule)
    assert loops(machine) == [] and not machine.state.is_final


def test_denials_of_one_tool_by_one_rule_are_one_error() -> None:
    machine = Machine()
    for number in range(3):
        machine.decide(use("echo", text=str(number)))
        machine.deny(tool="echo", rule="careful/untrusted-values")
    assert loops(machine) == [("errors", 3, "nudge")]
    assert machine.state.detectors.error_signature == "denied:permission_denied:echo:careful/untrusted-values"


def test_neither_the_order_of_keys_nor_of_calls_makes_a_denied_call_another_one() -> None:
    machine = Machine(max_steps=50)
    asked = [use_all(("echo", {"text": "a", "n": "1"}), ("echo", {"text": "b", "n": "1"}))]
    asked += [use("echo", text=text) for text in ("c", "d")] + [use("echo", n="1", text="b")]
    for decision in asked:
        machine.decide(decision)
        for index in range(len(machine.state.calls)):
            machine.deny(index, tool="echo", rule="careful")
    assert [action for _, _, action in loops(machine)] == ["nudge", "stop"]


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


def test_fields_that_say_when_a_result_was_made_do_not_make_it_another_one() -> None:
    machine = Machine(max_steps=50)
    for number in range(3):
        result = {**PAGE, "took_ms": number, "request_id": f"r{number}", "timestamp": f"12:0{number}"}
        call(machine, use("lookup", text=f"question {number}"), result=result)
    assert loops(machine) == [("results", 3, "nudge")]


@pytest.mark.parametrize("result", [None, "", "ok", True, [], {}, {"errors": [], "valid": True}, {"written": 1}, 0])
def test_results_that_say_next_to_nothing_may_be_the_same(result: Any) -> None:
    machine = Machine(max_steps=50)
    for number in range(6):
        call(machine, use("lookup", text=f"item {number}"), result=result)
    assert loops(machine) == []


def test_weight_stops_counting_when_there_is_enough() -> None:
    assert weight({"a": [1, True, None, "word", {"b": "more"}]}, 80) == 9
    assert weight("x" * 1_000, 80) == 1_000
    assert 80 <= weight(["x" * 30] * 1_000, 80) <= 110
