"""Applies events to the state of a background run.

Calls of one decision are counted together, in call order, once all have joined. An iteration that fails in whole or in
part counts as one failure; one that succeeds resets the failures in a row. One in which calls were denied, and none
failed, does neither: no tool has failed, and whoever makes a model try what is forbidden must not end its run by that.
"""

from datetime import datetime

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, truncate
from towpath_engine.reducers.loops.signatures import call_signature, is_plain_denial
from towpath_engine.state.background import CALLS_KEPT, REFLECTIONS_KEPT, BackgroundRunState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import ACTION_KINDS, RunState, StepCall

SHOWN_CHARS = 600
"""Of the arguments, and of the result, of a call that the snapshot shows; whole results stand beside it."""

REFUSED, FAILED, DENIED, DONE, TIMED_OUT = "refused", "failed", "denied", "completed", "timed_out"

REFLECTED_UPON = frozenset({FAILED, DENIED})
"""How an iteration went after which the model is asked how to go on."""


def update_background(  # noqa: C901 - one table of events
    before: RunState, after: RunState, background: BackgroundRunState, event: ev.AnyEvent, at: datetime
) -> BackgroundRunState:
    """Return what *background* is once *event* has made *after* of *before*."""
    match event:
        case ev.IterationStarted():
            began = active_ms(after, at)
            return replace(background, iteration=event.index, began_ms=began, decision="", tools=(), went="")
        case ev.DecisionReceived() if before.asked in ACTION_KINDS:
            return replace(background, decision=_action(event.decision), reflections=())
        case ev.DecisionRequestFailed() if before.asked in ACTION_KINDS:
            return replace(background, decision="", last_error=f"{event.code}: {event.message}")
        case ev.DecisionRefused():
            return replace(_failed(background, f"{event.code}: {event.feedback}"), went=REFUSED)
        case ev.InstructionIssued():
            calls = event.instruction.calls if isinstance(event.instruction, CallToolsInstruction) else ()
            return replace(background, tools=tuple(call.tool for call in calls), retry_allowed=False)
        case ev.ToolCallFinished() | ev.ToolCallDenied() if all(call.status for call in after.calls):
            return _joined(after, background)
        case ev.WorkspacePlanChanged():
            return replace(background, reset_allowed=False) if event.reset else background
        case ev.Reflected():
            return _reflected(background, event)
        case ev.IterationCompleted():
            late = event.reason == TIMED_OUT and background.went != FAILED
            counted = _failed(background, f"iteration {event.index} took too long") if late else background
            return replace(counted, iteration=0)
        case ev.RunEndDecided():
            ending = replace(background, ending=event.status, ending_reason=event.reason, payload=event.payload)
            return replace(ending, rationale=event.rationale)
        case ev.DeliverableRefused():
            return replace(background, faults=background.faults + 1, problems=event.problems)
        case ev.FinalSummaryRecorded():
            rationale = event.rationale or background.rationale
            return replace(background, summary=event.summary, deliverable=event.deliverable, rationale=rationale)
        case _:
            return background


def active_ms(state: RunState, now: datetime) -> int:
    """Return the run's active time in ms."""
    if state.active_since is None:
        return state.active_ms
    return state.active_ms + max(0, int((now - state.active_since).total_seconds() * 1000))


def _action(decision: JsonObject) -> str:
    action = decision.get("action")
    return action[:64] if isinstance(action, str) else ""


def _failed(background: BackgroundRunState, error: str) -> BackgroundRunState:
    return replace(
        background,
        failures=background.failures + 1,
        total_failures=background.total_failures + 1,
        last_error=truncate(error, SHOWN_CHARS),
    )


def _joined(state: RunState, background: BackgroundRunState) -> BackgroundRunState:
    shown = tuple(_shown(call) for call in state.calls)
    last = (*background.last_calls, *shown)[-CALLS_KEPT:]
    missed = [call for call in state.calls if call.status != "succeeded"]
    if not missed:
        return replace(background, last_calls=last, failures=0, failed=(), went=DONE)
    errors = "; ".join(f"{call.call.tool}: {_error(call)}" for call in missed)
    own = tuple(call_signature((call.call,)) for call in missed if not call.external)
    if all(is_plain_denial(call) for call in missed):
        told = truncate(errors, SHOWN_CHARS)
        return replace(background, last_calls=last, last_error=told, failed=own, went=DENIED)
    return replace(_failed(background, errors), last_calls=last, failed=own, went=FAILED)


def _shown(call: StepCall) -> JsonObject:
    shown: JsonObject = {"tool": call.call.tool, "arguments": truncate(as_text(call.shown_args()), SHOWN_CHARS)}
    if call.status == "succeeded":
        return {**shown, "status": call.status, "result": truncate(as_text(call.result), SHOWN_CHARS)}
    return {**shown, "status": call.status, "error": _error(call)}


def _error(call: StepCall) -> str:
    """Return why a call has no result, as the model was shown it."""
    return truncate(as_text(call.result), SHOWN_CHARS)


def _reflected(background: BackgroundRunState, event: ev.Reflected) -> BackgroundRunState:
    notes = [event.note] if event.note else []
    if not event.followed and event.refusal:
        notes.append(f"{event.verdict} was not followed: {event.refusal}")
    return replace(
        background,
        reflections=(*background.reflections, *notes)[-REFLECTIONS_KEPT:],
        retry_allowed=event.followed and event.verdict == "retry",
        reset_allowed=background.reset_allowed or (event.followed and event.verdict == "reset_plan"),
    )
