"""Calls of a run that were refused, in words: before anybody was asked for a right, by the policy, or by a person."""

from towpath_contracts.events.call_events import ToolCallDenied
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


def summary_of_refused(refused: list[str]) -> str:
    """Return in one sentence how many calls were refused, and the first; empty where none was."""
    if not refused:
        return ""
    told = "1 call was refused" if len(refused) == 1 else f"{len(refused)} calls were refused, first"
    return f"{told}: {refused[0]}"
