"""What a run says of itself: how a step went, how far it is, how sure, for whom it waits, and its last words.

Like `project`: one event, at most one run and one step.
"""

from collections.abc import Callable
from typing import Any

from towpath_contracts.base import MessagePart
from towpath_contracts.decisions.assessments import UNJUDGED
from towpath_contracts.events import log as ev
from towpath_log_writer.core.changes import EventRowBuilder
from towpath_log_writer.core.rows import plain


def _step_validated(position: EventRowBuilder, event: ev.StepResultValidated) -> None:
    """The run's own word on a step comes after all its attempts: what one of them did wrong is made good."""
    row = position.step(event.step)
    row.validation = {
        **(row.validation or {}),
        "success": event.success,
        "source": event.source,
        "reason": event.reason,
        "criteria": event.criteria,
        "error_signature": event.error_signature,
        "attempt": event.attempt,
    }
    row.set_verdict(event.success)
    if not event.success and row.error is None:
        row.error = plain(event.reason or event.error_signature) or None
    position.merge_state({"criteria_met": event.criteria})


def _progress_measured(position: EventRowBuilder, event: ev.ProgressMeasured) -> None:
    position.step(event.step).progress = event.score
    summary = {"progress_score": event.score, "progress_source": event.source, "progress_metrics": event.metrics}
    position.merge_state(summary)


def _confidence_measured(position: EventRowBuilder, event: ev.GoalConfidenceMeasured) -> None:
    score = None if event.reason == UNJUDGED else event.score
    position.step(event.step).confidence = score
    position.merge_state({"last_confidence_score": score, "last_confidence_check_step": event.step})


def _gate_opened(position: EventRowBuilder, event: ev.GateOpened) -> None:
    """A gate about the run itself tells, should the run end there, why it was escalated."""
    position.note_wait(event.gate_id, open_=True)
    if event.execution_id is None:
        position.merge_state({"last_gate": {"type": event.gate_type, "reason": event.reason}})


def _gate_closed(position: EventRowBuilder, event: ev.GateClosed) -> None:
    position.note_wait(event.gate_id, open_=False)


def _child_waits(position: EventRowBuilder, event: ev.ChildGateWaitChanged) -> None:
    position.note_wait(event.child_id, open_=event.waits)


def _child_ended(position: EventRowBuilder, event: ev.ChildEnded) -> None:
    position.note_wait(event.child_id, open_=False)


def _cancel_accepted(position: EventRowBuilder, _event: ev.CancelAccepted) -> None:
    position.run("cancelling")


def _summarized(position: EventRowBuilder, event: ev.FinalSummaryRecorded) -> None:
    position.merge_state({"summary": event.summary, "deliverable": event.deliverable})


GOAL_EVENTS: dict[str, tuple[type[MessagePart], Callable[[EventRowBuilder, Any], None]]] = {
    "step_validated": (ev.StepResultValidated, _step_validated),
    "progress_measured": (ev.ProgressMeasured, _progress_measured),
    "confidence_measured": (ev.GoalConfidenceMeasured, _confidence_measured),
    "gate_opened": (ev.GateOpened, _gate_opened),
    "gate_closed": (ev.GateClosed, _gate_closed),
    "child_waits": (ev.ChildGateWaitChanged, _child_waits),
    "child_ended": (ev.ChildEnded, _child_ended),
    "cancel_accepted": (ev.CancelAccepted, _cancel_accepted),
    "summarized": (ev.FinalSummaryRecorded, _summarized),
}
"""Their events, with the model and what each does."""
