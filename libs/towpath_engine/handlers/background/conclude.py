"""Ends a background run with a summary and its deliverable.

A deliverable must match its schema, or the run has failed. A model may correct it once; user code may not, because it
would give the same answer again.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import assessment_schema
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.json_schema import schema_faults
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.final_reports import close_iteration
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.effects import model_for
from towpath_engine.state.background import BackgroundRunState
from towpath_engine.state.run import Status

MAX_FAULTS = 2
"""Deliverables that are not what was asked for, before the run has failed: the first may be mended."""

AGENT_MODEL = "agent:"
"""User code makes the deliverable: what it gets wrong once it gets wrong again."""

MAX_PROBLEMS = 16


def conclude(
    run: TransitionBuilder, status: str, reason: str, *, rationale: str = "", payload: JsonObject | None = None
) -> None:
    """Record what ends the run; its summary is asked for next, by the phase `request_summary`."""
    close_iteration(run)
    run.emit(
        ev.RunEndDecided.model_validate(
            {"step": run.state.step, "status": status, "reason": reason, "rationale": rationale, "payload": payload}
        )
    )


def request_summary(run: TransitionBuilder) -> bool:
    """Ask for the summary of a run that is about to end; return whether it asked."""
    if run.state.background is None or not run.state.background.ending:
        return False
    request_assessment(run, DecisionKind.SUMMARIZE)
    return True


def take_summary(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take the summary and end the run; an invalid deliverable is asked for once more."""
    background = run.state.background
    if background is None or not background.ending:
        return
    problems = _problems(run, answer)
    if problems:
        run.emit(ev.DeliverableRefused(step=run.state.step, problems=problems[:MAX_PROBLEMS]))
        last = background.faults + 1 >= MAX_FAULTS
        if last or model_for(run.state, DecisionKind.SUMMARIZE).startswith(AGENT_MODEL):
            finish(run, Status.FAILED, "deliverable_invalid", "; ".join(problems[:MAX_PROBLEMS]))
        return
    if answer is not None:
        run.emit(ev.FinalSummaryRecorded.model_validate(_with_rationale(answer, background)))
    completed = background.ending == "completed"
    status = Status.COMPLETED if completed else Status.ABANDONED
    finish(run, status, background.ending_reason, "" if completed else background.rationale)


def _with_rationale(answer: JsonObject, background: BackgroundRunState) -> JsonObject:
    return {**answer, "rationale": answer["rationale"] or background.rationale}


def _problems(run: TransitionBuilder, answer: JsonObject | None) -> tuple[str, ...]:
    """Return what is wrong with the summary; that of an abandoned run needs no deliverable."""
    task, background = run.state.created.background, run.state.background
    schema = task.deliverable_schema if task is not None else None
    if schema is None or background is None or background.ending != "completed":
        return ()
    if answer is None:
        return _unread(run)
    if answer["deliverable"] is None:
        return ("the deliverable is missing",)
    return tuple(schema_faults(schema, answer["deliverable"]))


def _unread(run: TransitionBuilder) -> tuple[str, ...]:
    """Return why the answer could not be used: its faults, or the decider's message."""
    faults = ("the answer is not a summary with a deliverable",)
    match next(
        (e.event for e in run.entries if isinstance(e.event, ev.DecisionRequestFailed | ev.DecisionReceived)), None
    ):
        case ev.DecisionRequestFailed(message=why):
            return (*faults, why)
        case ev.DecisionReceived(decision=answer):
            return (*faults, *schema_faults(assessment_schema(DecisionKind.SUMMARIZE), answer))
        case _:
            return faults
