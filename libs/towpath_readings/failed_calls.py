"""Calls of a run that its tools failed, in words: a run that completed says nothing of them by itself."""

from towpath_contracts.events.call_events import ToolCallFinished
from towpath_contracts.events.log import AnyEvent


def failed_call(event: AnyEvent) -> str | None:
    """Return which call *event* says has failed, and why; None where it says nothing of the kind."""
    match event:
        case ToolCallFinished(status="failed", tool=tool, failure=failure):
            return f"{tool}: failed" if failure is None else f"{tool}: {failure.code}: {failure.message}"
        case _:
            return None


def summary_of_failed(failed: list[str]) -> str:
    """Return in one sentence how many calls have failed, and the first; empty where none has."""
    if not failed:
        return ""
    told = "1 call failed" if len(failed) == 1 else f"{len(failed)} calls failed, first"
    return f"{told}: {failed[0]}"
