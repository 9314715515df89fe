"""How many calls of a run were refused and have failed is said in a sentence each."""

from uuid import UUID

from towpath_contracts.events.log import DecisionRefused, ToolCallDenied, ToolCallFinished
from towpath_contracts.tools.calls import Denial, ToolFailure
from towpath_contracts.tools.violations import DenialExplanation
from towpath_readings.unsuccessful_calls import failed_call, summaries_of_unsuccessful, told_call


def test_nothing_is_said_where_all_calls_succeeded() -> None:
    assert summaries_of_unsuccessful([], []) == []


def test_the_first_of_each_kind_is_told_and_the_others_are_counted() -> None:
    assert summaries_of_unsuccessful(["a: no"], ["b: broke", "c: broke"]) == [
        "1 call was refused: a: no",
        "2 calls failed, first: b: broke",
    ]
    assert summaries_of_unsuccessful(["a: no", "d: no"], []) == ["2 calls were refused, first: a: no"]
    assert summaries_of_unsuccessful([], ["b: broke"]) == ["1 call failed: b: broke"]


def test_what_stood_in_the_lines_of_a_run_is_only_named_at_its_end() -> None:
    step = {"step": 1, "epoch": 1, "agent_key": "a"}
    call = {**step, "execution_id": UUID(int=1), "call_index": 0, "tool": "orders.refund"}
    explained = Denial(
        violation_type="limit", reason="no", rule="small", explanation=DenialExplanation(detail="no", remedy="")
    )
    assert told_call(DecisionRefused(**step, code="arguments_invalid", feedback="x")) == "arguments_invalid"
    assert told_call(ToolCallDenied(**call, denial=explained)) == "orders.refund by rule small"
    assert told_call(ToolCallDenied(**call, denial=explained.model_copy(update={"rule": ""}))) == "orders.refund: limit"
    unexplained = explained.model_copy(update={"explanation": None})
    assert told_call(ToolCallDenied(**call, denial=unexplained)) == ""
    failed = ToolCallFinished(**call, status="failed", failure=ToolFailure(code="too_large", message="no"))
    assert told_call(failed) == "orders.refund: too_large"
    assert told_call(failed.model_copy(update={"failure": None})) == "orders.refund"
    raised = ToolFailure(code="tool_exception", message="KeyError: 'x'", place="orders.py:14")
    found = failed_call(failed.model_copy(update={"failure": raised}))
    assert found == "orders.refund: tool_exception: KeyError: 'x' (orders.py:14)"
