"""What a goal or background run says of itself: how a step went, how far it is, how sure, and its last words.

Like `project`: one event, at most one run and one step.
"""

from collections.abc import Callable
from typing import Any

from towpath_contracts.base import Value
from towpath_contracts.decisions.assessments import UNJUDGED
from towpath_contracts.events import log as ev
from towpath_log_writer.core.changes import EventPosition
from towpath_log_writer.core.rows import plain


def _step_validated(place: EventPosition, event: ev.StepValidated) -> None:
    """The run's own word on a step comes after all its attempts: what one of them did wrong is made good."""
    row = place.step(event.step)
    row.validation = {
        **(row.validation or {}),
        "success": event.success,
        "source": event.source,
        "reason": event.reason,
        "criteria": event.criteria,
        "error_signature": event.error_signature,
        "attempt": event.attempt,
    }
    row.judge(event.success)
    if not event.success and row.error is None:
        row.error = plain(event.reason or event.error_signature) or None
    place.noted({"criteria_met": event.criteria})


def _progress_measured(place: EventPosition, event: ev.ProgressMeasured) -> None:
    place.step(event.step).progress = event.score
    told = {"progress_score": event.score, "progress_source": event.source, "progress_metrics": event.metrics}
    place.noted(told)


def _confidence_measured(place: EventPosition, event: ev.ConfidenceMeasured) -> None:
    score = None if event.reason == UNJUDGED else event.score
    place.step(event.step).confidence = score
    place.noted({"last_confidence_score": score, "last_confidence_check_step": event.step})


def _gate_opened(place: EventPosition, event: ev.GateOpened) -> None:
    """A gate about the run itself tells, should the run end there, why it was escalated."""
    if event.execution_id is None:
        place.noted({"last_gate": {"type": event.gate_type, "reason": event.reason}})


def _summarized(place: EventPosition, event: ev.Summarized) -> None:
    place.noted({"summary": event.summary, "deliverable": event.deliverable})


GOAL_EVENTS: dict[str, tuple[type[Value], Callable[[EventPosition, Any], None]]] = {
    "step_validated": (ev.StepValidated, _step_validated),
    "progress_measured": (ev.ProgressMeasured, _progress_measured),
    "confidence_measured": (ev.ConfidenceMeasured, _confidence_measured),
    "gate_opened": (ev.GateOpened, _gate_opened),
    "summarized": (ev.Summarized, _summarized),
}
"""Their events, with the model and what each does."""
