"""Applies the events of tool calls: opens calls, and keeps what the next prompt needs of their outcomes.

Calls of one decision finish in any order. Their outcomes are added to the state in call order, all at once when the
last one is finished, so a prompt never depends on which worker was faster.
"""

from datetime import datetime, timedelta
from typing import Any

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.request import FullToolOutput, OlderOutput
from towpath_contracts.events import log as ev
from towpath_contracts.runs.views import CallCounts
from towpath_contracts.text import as_text, truncate
from towpath_contracts.tools.previews import OutputPreview, text_bytes
from towpath_engine.reducers.loops.counters import after_calls, after_polling, after_step, poll_wait_s
from towpath_engine.reducers.loops.signatures import error_signature
from towpath_engine.reducers.workspace import with_unconfirmed_outcome
from towpath_engine.state.output_shares import cut_text, divide_outputs, keep_outputs
from towpath_engine.state.replace import replace
from towpath_engine.state.run import LOG_TAIL, OLDER_KEPT, EffectKind, PendingEffect, RunState, StepCall
from towpath_engine.state.workspace import file_list_json
from towpath_readings.effects import outcome_of
from towpath_readings.execution_log import RESPONSE_CHARS, call_status, response_of, tool_entry

TOOL_RESEND_S = 5
"""First resend of a tool request."""

QUEUE_MS = 600_000
"""How long a call may wait for a worker beyond its own timeout before TAS gives it up."""


MOST_SHOWN = 200_000
"""Bytes: the largest context limit that a network may have; that of the run is looked at when its step has ended."""


def call_deadline(state: RunState, tool: str, at: datetime) -> datetime:
    """Return when a call of *tool* that may start from *at* on is given up."""
    return at + timedelta(milliseconds=state.snapshot.all_tools[tool].timeout_ms + QUEUE_MS)


def apply_instruction_issued(state: RunState, event: ev.InstructionIssued, at: datetime) -> RunState:
    return _open_calls(state, event.instruction, at) if isinstance(event.instruction, CallToolsInstruction) else state


def _open_calls(state: RunState, instruction: CallToolsInstruction, at: datetime) -> RunState:
    """Return the state with every call of *instruction* pending, and counted by the loop detector."""
    polling = all(state.snapshot.all_tools[call.tool].polling for call in instruction.calls)
    wait = timedelta(seconds=poll_wait_s(state.detectors) if polling else 0)
    wanted = tuple(
        PendingEffect(
            effect_id=call.execution_id,
            kind=EffectKind.TOOL,
            attempt=0 if wait else 1,  # one that waits is first sent by the timer
            resend_at=at + (wait or timedelta(seconds=TOOL_RESEND_S)),
            deadline=call_deadline(state, call.tool, at + wait),
            call_index=call.call_index,
            fence=state.fence,
        )
        for call in instruction.calls
    )
    calls = tuple(StepCall(call=call, workspace=_files_for(state, call.tool)) for call in instruction.calls)
    queued = replace(state, calls=calls).queued
    if queued:  # their time begins with their turn
        wanted = tuple(replace(p, deadline=None) if p.effect_id in queued else p for p in wanted)
    detectors = state.detectors
    detectors = after_polling(detectors) if polling else after_calls(detectors, instruction.calls)
    counts = state.call_counts
    counts = counts.model_copy(update={"asked": counts.asked + len(calls)})
    return replace(state, pending=(*state.pending, *wanted), calls=calls, detectors=detectors, call_counts=counts)


def _files_for(state: RunState, tool: str) -> str:
    """Return the digest of the list of files that a call of *tool* works with; empty where it asks for none."""
    return digest_text(file_list_json(state.desk)) if state.snapshot.all_tools[tool].workspace else ""


def apply_tool_call_edited(state: RunState, event: ev.ToolCallEdited, _at: datetime) -> RunState:
    """Return the state that knows what was executed in the place of what was asked for."""
    calls = tuple(
        replace(c, executed_args=event.args, edited_by=event.by) if c.call.execution_id == event.execution_id else c
        for c in state.calls
    )
    return replace(state, calls=calls)


def apply_tool_call_finished(state: RunState, event: ev.ToolCallFinished, at: datetime) -> RunState:
    return with_unconfirmed_outcome(_close_call(state, event, at), event, at)


def apply_tool_call_denied(state: RunState, event: ev.ToolCallDenied, at: datetime) -> RunState:
    return _close_call(state, event, at)


def apply_tool_call_postponed(state: RunState, event: ev.ToolCallPostponed, at: datetime) -> RunState:
    """Return the state in which the call is requested again at the time said, and waiting costs it none of its own."""
    waits = max(event.until - at, timedelta())
    pending = tuple(
        replace(p, resend_at=event.until, postponed=True, deadline=None if p.deadline is None else p.deadline + waits)
        if p.effect_id == event.execution_id
        else p
        for p in state.pending
    )
    return replace(state, pending=pending)


def _close_call(state: RunState, event: ev.ToolCallFinished | ev.ToolCallDenied, at: datetime) -> RunState:
    """Return the state with one call finished; with the last one of a decision, all of them are remembered."""
    failed = call_status(event) != "succeeded"
    calls = tuple(_closed(c, event) if c.call.execution_id == event.execution_id else c for c in state.calls)
    changed = replace(
        state,
        calls=calls,
        pending=tuple(p for p in state.pending if p.effect_id != event.execution_id),
        gates=tuple(g for g in state.gates if g.execution_id != event.execution_id),
        tool_errors=state.tool_errors + (1 if failed and not _names_tool(event) else 0),
        call_counts=_counted(state.call_counts, call_status(event)),
        last_output=state.last_output if failed else response_of(event),
        worked=state.worked if failed else _worked(state, event.tool),
    )
    return _joined(changed) if all(c.status for c in calls) else _turns_begun(state, changed, at)


def _names_tool(event: ev.ToolCallFinished | ev.ToolCallDenied) -> bool:
    """Whether *event* is a denial that names its tool: no tool ran, so none has failed.

    Whoever makes a model try many forbidden things must not end its run by them. Denials of earlier releases don't name
    their tool and count as they did then: replays stay the same.
    """
    return isinstance(event, ev.ToolCallDenied) and bool(event.denial.tool)


def _counted(counts: CallCounts, status: str) -> CallCounts:
    """Count what became of a call; one that was voided was neither allowed nor denied."""
    if status == "void":
        return counts
    what = "denied" if status == "denied" else "allowed"
    return counts.model_copy(update={what: getattr(counts, what) + 1})


def _turns_begun(before: RunState, after: RunState, at: datetime) -> RunState:
    """Calls whose turn has come are asked for from now on, and their own time begins."""
    begun = before.queued - after.queued
    if not begun:
        return after
    resend_at = at + timedelta(seconds=TOOL_RESEND_S)
    until = {c.call.execution_id: call_deadline(after, c.call.tool, at) for c in after.calls}
    pending = tuple(
        replace(p, resend_at=resend_at, deadline=until[p.effect_id]) if p.effect_id in begun else p
        for p in after.pending
    )
    return replace(after, pending=pending)


def _worked(state: RunState, tool: str) -> tuple[str, ...]:
    """A child knows which tools worked in it: its parent asks. A run that is no child is not asked."""
    return state.worked if state.created.parent is None or tool in state.worked else (*state.worked, tool)


def _closed(call: StepCall, event: ev.ToolCallFinished | ev.ToolCallDenied) -> StepCall:
    status, response = call_status(event), response_of(event)
    finished = event if isinstance(event, ev.ToolCallFinished) else None
    output = FullToolOutput(
        execution_id=event.execution_id,
        tool=event.tool,
        step=event.step,
        status=status,
        **_shown(call, event, response),
    )
    return replace(
        call,
        status=status,
        outcome=_outcome(event),
        error_signature="" if status == "succeeded" else error_signature(event),
        external=bool(finished and finished.failure and finished.failure.external),
        result_digest=(finished.result_digest or "") if finished else "",
        result=response,
        output=output,
        entry=tool_entry(event, call.shown_args()),
    )


def _shown(call: StepCall, event: ev.ToolCallFinished | ev.ToolCallDenied, response: Any) -> dict[str, Any]:
    """Return the text of an output: the response, or how one begins and ends that is in the blob store.

    A model must not take the result for that of the call it asked for, where somebody changed that.
    """
    note = ""
    if call.executed_args is not None:
        note = f"{call.edited_by} changed the arguments of this call to {as_text(call.shown_args())}\n"
    if not isinstance(event, ev.ToolCallFinished) or not event.blob:
        return {"text": note + as_text(response)}
    said = "" if event.result is None else as_text(event.result)
    preview = event.preview or OutputPreview.model_construct(head=said, tail="", size=event.result_bytes)
    noted = preview.model_copy(update={"head": note + preview.head})
    text, cut = cut_text(noted, MOST_SHOWN, event.execution_id)
    return {"text": text, "cut": cut, "blob_digest": event.result_digest}


def _outcome(event: ev.ToolCallFinished | ev.ToolCallDenied) -> str:
    """Return what became of the call as the list of effects does; a denial by its own name.

    A failure without a report whether the call began is called what earlier engines called it: replays stay the same.
    """
    if isinstance(event, ev.ToolCallDenied):
        return "denied"
    if event.status == "failed" and (event.failure is None or event.failure.began is None):
        return "failed"
    return outcome_of(event)


def _joined(state: RunState) -> RunState:
    """Remember the outcomes of a decision in call order; its outputs come before those of earlier steps."""
    entries = [c.entry for c in state.calls if c.entry is not None]
    succeeded = [c.result for c in state.calls if c.status == "succeeded"]
    outputs = [c.output for c in state.calls if c.output is not None]
    changed = replace(
        state,
        calls=tuple(replace(c, output=None, entry=None) for c in state.calls),
        log_tail=(*state.log_tail, *entries)[-LOG_TAIL:],
        last_output=succeeded[-1] if succeeded else state.last_output,
        detectors=after_step(state.detectors, state.calls, state.snapshot.all_tools, state.step),
    )
    return with_outputs(changed, [*outputs, *state.outputs])


def with_outputs(state: RunState, outputs: list[FullToolOutput]) -> RunState:
    """Keep what the context limit leaves of the outputs, newest first; those without room by id, then as a count."""
    divide = divide_outputs if state.epoch_turns is None else keep_outputs
    shown, hidden, size = divide(outputs, state.created.context_limit)
    older = (*map(_older, hidden), *state.older)[:OLDER_KEPT]
    count = state.older_count + len(hidden)
    return replace(state, outputs=tuple(shown), output_bytes=size, older=older, older_count=count)


def _older(output: FullToolOutput) -> OlderOutput:
    return OlderOutput(
        execution_id=output.execution_id,
        tool=output.tool,
        preview=truncate(output.text, RESPONSE_CHARS),
        size=text_bytes(output.text) if output.cut is None else output.cut.size,
    )
