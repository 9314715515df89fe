"""Calls of a run that were refused or failed, in words: a run that completed says nothing of them by itself.

They were refused before anybody was asked for a right, by the policy, or by a person; or their tools failed them.
"""

from collections.abc import Sequence

from towpath_contracts.events.call_events import ToolCallDenied, ToolCallFinished
from towpath_contracts.events.decision_events import DecisionRefused
from towpath_contracts.events.log import AnyEvent

REFUSED_CALLS = frozenset({"tool_not_allowed", "arguments_invalid"})
"""Codes of decisions whose calls were refused before anybody was asked for a right."""


def refused_call(event: AnyEvent) -> str | None:
    """Return which call *event* says was refused, and why; None where it says nothing of the kind."""
    match event:
        case DecisionRefused(code=code, feedback=feedback) if code in REFUSED_CALLS:
            return f"{code}: {feedback}"
        case ToolCallDenied(tool=tool, denial=denial):
            return f"{tool}: {denial.told()}"
        case _:
            return None


def refused_decision(event: AnyEvent) -> str | None:
    """Return which decision *event* says was refused, and why, but for one that was about a call; else None."""
    match event:
        case DecisionRefused(code=code, feedback=feedback) if code not in REFUSED_CALLS:
            return f"{code}: {feedback}"
        case _:
            return None


def told_call(event: AnyEvent) -> str:
    """Return which call *event* is about, for somebody who has read why it was refused or failed.

    Nothing where that stood in no line: a denial is explained there only where the policy explained it.
    """
    match event:
        case DecisionRefused(code=code):
            return code
        case ToolCallDenied(tool=tool, denial=denial) if denial.explanation is not None:
            return f"{tool} by rule {denial.rule}" if denial.rule else f"{tool}: {denial.violation_type}"
        case ToolCallFinished(tool=tool, failure=failure):
            return tool if failure is None else f"{tool}: {failure.code}"
        case _:
            return ""


def failed_call(event: AnyEvent) -> str | None:
    """Return which call *event* says has failed, and why; None where it says nothing of the kind."""
    match event:
        case ToolCallFinished(status="failed", tool=tool, failure=failure):
            return f"{tool}: failed" if failure is None else f"{tool}: {failure.code}: {failure.for_people()}"
        case _:
            return None


def summaries_of_unsuccessful(refused: list[str], failed: list[str], decisions: Sequence[str] = ()) -> list[str]:
    """Return how many calls were *refused* and have *failed*, and the first: a sentence for each kind that there is.

    So it does of *decisions* that were refused.
    """
    kinds = (
        (refused, "1 call was refused", "calls were refused"),
        (failed, "1 call failed", "calls failed"),
        (decisions, "1 decision was refused", "decisions were refused"),
    )
    return [
        f"{one if len(calls) == 1 else f'{len(calls)} {many}, first'}: {calls[0]}"
        for calls, one, many in kinds
        if calls
    ]
