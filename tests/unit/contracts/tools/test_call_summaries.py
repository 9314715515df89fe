"""A call in the words of its tool."""

import time
from typing import Any

import pytest

from towpath_contracts.tools.call_summaries import (
    MAX_SUMMARY_CHARS,
    placeholders,
    question_of_gate,
    summarize_call,
    summary_of_gate,
)


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [
        ("Refund {amount} EUR to {customer.name}", {"amount": 20, "customer": {"name": "Ann"}}, "Refund 20 EUR to Ann"),
        ("Send {items}", {"items": [1, {"a": None}]}, 'Send [1,{"a":null}]'),
        ("Refund {amount}", {}, "Refund (not given)"),
        ("Refund {amount.net}", {"amount": 3}, "Refund (not given)"),
        ("Say {text}", {"text": "{amount}\nand\u202e more\x1b[31m"}, "Say {amount} and⟨U+202E⟩ more⟨U+001B⟩[31m"),
        ("Say {text}", {"text": "x" * 60}, "Say " + "x" * 60),
        ("Say {text}", {"text": "x" * 61}, "Say " + "x" * 59 + "…"),
        ("Say {all}", {"all": {"a": "\ud800\u202e"}}, 'Say {"a":"?⟨U+202E⟩"}'),
        ("Say\n{text}\x1b", {"text": "x"}, "Say x⟨U+001B⟩"),
        ("{text}" * 8 + "a" * 20, {"text": "x" * 60}, "x" * 480 + "a" * 20),
        ("{text}" * 8 + "a" * 21, {"text": "x" * 60}, "x" * 480 + "a" * 19 + "…"),
        ("", {"text": "x"}, ""),
    ],
)
def test_a_summary_is_filled_with_the_arguments_in_one_line(
    template: str, args: dict[str, object], expected: str
) -> None:
    assert summarize_call(template, args) == expected


def test_the_places_of_a_template_are_its_paths() -> None:
    assert placeholders("Refund { amount } to {customer.name}, {}") == ("amount", "customer.name", "")


def test_a_gate_tells_its_call_and_one_without_words_or_arguments_nothing() -> None:
    held = {"summary": "Refund {amount}", "args": {"amount": 3}}
    assert summary_of_gate(held) == "Refund 3"
    assert summary_of_gate({**held, "args": {}}) == "Refund (not given)", "as after an erasure"
    assert [summary_of_gate(one) for one in ({}, {"args": {}}, {**held, "args": "erased"}, {**held, "summary": 3})] == [
        ""
    ] * 4


CALL: dict[str, Any] = {"tool": "orders.refund", "agent": "billing", "args": {"order_id": "8812", "amount": 129.0}}


@pytest.mark.parametrize(
    ("gate_type", "detail", "asked"),
    [
        ("approval", CALL, "May billing make this call? orders.refund with order_id 8812, amount 129.0"),
        (
            "approval",
            {**CALL, "summary": "Refund {amount} EUR"},
            "May billing make this call? orders.refund: Refund 129.0 EUR",
        ),
        ("manual", {"tool": "pay", "args": {}}, "May the agent make this call? pay"),
        ("approval", {"tool": "pay", "args": "erased"}, "May the agent make this call? pay"),
        ("unknown_effect", {"tool": "pay"}, "Did this call happen? pay"),
        ("paused", {"tool": "pay"}, "A stop switch holds this call, and only the switch opens it: pay"),
        ("loop_detected", {"key": "loop:same_call"}, "The run goes round in circles: shall it go on?"),
        ("budget", {}, "A budget is nearly spent: shall the run go on?"),
        ("audit\nnow", {}, "audit now: shall the run go on?"),
    ],
)
def test_a_gate_asks_for_one_thing_in_one_sentence(gate_type: str, detail: dict[str, Any], asked: str) -> None:
    assert question_of_gate(gate_type, detail) == asked


@pytest.mark.parametrize(
    "args",
    [
        {"rows": [{"id": number, "text": "x" * 40} for number in range(20_000)]},
        {"text": "y " * 500_000},
        {f"k{number}": "v" * 20 for number in range(50_000)},
    ],
    ids=["a large value", "a long text", "many arguments"],
)
def test_a_call_as_large_as_a_message_is_told_as_quickly_as_a_small_one(args: dict[str, Any]) -> None:
    began = time.process_time()
    asked = question_of_gate("approval", {**CALL, "args": args})
    assert time.process_time() - began < 0.02, "a list has hundreds of gates"
    assert asked.endswith("…") and len(asked) < MAX_SUMMARY_CHARS + 100


def test_what_is_left_out_of_a_text_is_told_also_where_the_start_is_hardly_more_than_white_space() -> None:
    assert summarize_call("Pay {who}", {"who": "a" + " " * 5_000 + "b"}) == "Pay a…"
