"""Why a run ended without an answer: in words, where, and what to do about it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.drawings.timeline import TimelineRow
from towpath_contracts.problems.registry import REGISTRY
from towpath_contracts.runs.statuses import FINAL_STATUSES

_LOOK = "Look at the step where it ended. Fork from there with a note for the model, or continue with a message."
_REMEDIES = {
    "max_steps_exceeded": "Look whether its steps go in circles. Where they do not, run it with more: "
    "--max-steps, or max_steps of the network.",
    "max_tool_errors_exceeded": "Look at the calls that failed, mend what they lack, and fork from the first of them.",
    "max_failures_exceeded": "Look at the iterations that failed: each has a run in the tree of children.",
    "script_exhausted": "Add a decision for this agent to the script. With a model of a provider nothing is played.",
    "budget_exceeded": "Look at Costs at what is spent; raise the limit, and fork from the last step.",
    "budget_refused": "Look at Costs at what is spent and reserved; raise the limit, and run it again.",
    "price_unknown": "Set a price for the model, or run it without a limit in dollars.",
    "deadline_exceeded": "Give it more time (--deadline), or fork from its last step.",
    "plan_failed": "Open the tree of children: the step of the plan that failed is a run there.",
    "deliverable_invalid": "Look at what it answered: it is not of the form that the goal asks for.",
}


class RunEnd(NamedTuple):
    """How a run ended: its title, what is said of it, what to do, and the step to look at; None where there is none."""

    title: str
    tone: str
    said: str
    remedy: str
    reason: str
    step: int | None


def end_of(run: Mapping[str, Any], rows: Sequence[TimelineRow]) -> RunEnd | None:
    """Return why *run* ended without an answer; None where it goes on, or has completed."""
    status, reason = run["status"], str(run.get("reason") or "")
    if status not in FINAL_STATUSES or status == "completed":
        return None
    if status == "cancelled":
        said = str(run.get("message") or "It was cancelled.")
        return RunEnd("Cancelled", "mute", said, "", "", None)
    failed = next((row.number for row in reversed(rows) if row.good is False), None)
    known = REGISTRY.get(reason)
    return RunEnd(
        title="Why it failed" if status == "failed" else f"Why it is {status.replace('_', ' ')}",
        tone="bad",
        said=str(run.get("message") or reason.replace("_", " ") or "The log says no more."),
        remedy=_REMEDIES.get(reason) or (known.remedy if known else _LOOK),
        reason=reason,
        step=failed if failed is not None else rows[-1].number if rows else None,
    )
