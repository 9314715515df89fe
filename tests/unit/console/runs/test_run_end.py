"""Why a run ended is said in words, with what to do and the step; and a decision is read without its JSON."""

from typing import Any

import pytest

from towpath_console.drawings.timeline import TimelineRow
from towpath_console.pages.runs.run_end import end_of
from towpath_console.pages.runs.run_step import decided


def row(number: int, *, good: bool | None) -> TimelineRow:
    return TimelineRow(number, "clerk", 0, "calls crm.read", "2026-11-26T14:00:00Z", None, good, error="", attempt=1)


def test_a_run_that_failed_says_why_what_to_do_and_at_which_step() -> None:
    run = {"status": "failed", "reason": "max_steps_exceeded", "message": "no answer within 3 steps"}
    end = end_of(run, [row(1, good=True), row(2, good=False), row(3, good=True)])
    assert end is not None and (end.title, end.said, end.step) == ("Why it failed", "no answer within 3 steps", 2)
    assert "--max-steps" in end.remedy
    unknown = end_of({"status": "failed", "reason": "some_new_reason"}, [row(4, good=True)])
    assert unknown is not None and unknown.said == "some new reason" and unknown.step == 4 and unknown.remedy
    of_the_registry = end_of({"status": "failed", "reason": "agent_not_found", "message": "m"}, [])
    assert of_the_registry is not None and "Name an agent that the network has" in of_the_registry.remedy


def test_a_run_that_goes_on_or_answered_has_no_such_end_and_a_cancelled_one_no_remedy() -> None:
    assert end_of({"status": "running", "reason": ""}, []) is None
    assert end_of({"status": "completed", "reason": "responded"}, []) is None
    end = end_of({"status": "cancelled", "reason": "cancelled", "message": "cancelled by ann: twice"}, [])
    assert end is not None and (end.title, end.remedy) == ("Cancelled", "")


@pytest.mark.parametrize(
    ("action", "details", "said"),
    [
        ("USE_TOOL", {"tool_name": "t", "tool_params": {}}, {"kind": "calls", "calls": [{"tool": "t", "args": {}}]}),
        ("USE_TOOL", {"calls": [{"tool_name": "t"}, "x"]}, {"kind": "calls", "calls": [{"tool": "t", "args": None}]}),
        ("ROUTE_TO_AGENT", {"target_agent_name": "b", "context": "c"}, {"kind": "hands over", "to": "b", "text": "c"}),
        ("RESPOND", {"payload": {"message": "m"}}, {"kind": "answers", "text": "m"}),
        ("RESPOND", {"payload": {"message": "m", "n": 1}}, {"kind": "answers", "text": {"message": "m", "n": 1}}),
        ("ASK_PERSON", {"q": 1}, {"kind": "other", "name": "Ask person", "details": {"q": 1}}),
    ],
)  # fmt: skip
def test_a_decision_is_read_as_what_it_does(action: str, details: dict[str, Any], said: dict[str, Any]) -> None:
    assert decided({"action": {"action": action, "action_details": details}}) == said


def test_without_a_decision_there_is_none() -> None:
    assert decided({"action": None}) is None
