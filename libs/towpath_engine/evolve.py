"""What one event makes of the state: the remembering half of the machine.

Law: total and blind. Every event is applied as it stands, whether or not `advance` would emit it now; decisions are
made elsewhere. One `match` says all there is (design §5).
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from towpath_contracts import events as ev
from towpath_contracts.deciding import Cost, OlderOutput, ToolOutput, Usage
from towpath_contracts.decisions import CallTools
from towpath_contracts.execution_log import (
    RESPONSE_CHARS,
    agent_entry,
    as_text,
    call_status,
    response_of,
    tool_entry,
    truncate,
)
from towpath_contracts.ids import effect_id
from towpath_engine.loops import after_calls, after_success_or_error, error_signature
from towpath_engine.state import (
    LOG_TAIL,
    OLDER_KEPT,
    EffectKind,
    OpenCall,
    OpenGate,
    PendingEffect,
    RunState,
    Status,
)

TOOL_RESEND_S = 5
"""First resend of a tool request (design §4)."""

FENCE_RESEND_S = 2
"""Resend of a fence until no claim lives any more."""

GATE_RESEND_S = 30
"""Resend of a tool request whose gate is open (design §4)."""

DECIDE_GRACE_S = 15
"""Added to the step's model timeout to give the decider's lease."""

QUEUE_MS = 600_000
"""How long a call may wait for a worker beyond its own timeout before TAS gives it up."""


def evolve(state: RunState, entry: "ev.LogEntry") -> RunState:
    """Return the state after *entry*, with its seq and its active time brought up to date."""
    changed = _apply(state, entry.event, entry.at)
    changed = replace(changed, seq=entry.seq, status=_live_status(changed))
    return _active_time(changed, entry.at)


def _live_status(state: RunState) -> Status:
    if state.status in (Status.RUNNING, Status.WAITING):
        return Status.WAITING if state.waits_only_for_people else Status.RUNNING
    return state.status


def _active_time(state: RunState, at: datetime) -> RunState:
    active = state.status in (Status.RUNNING, Status.CANCELLING)
    if active == (state.active_since is not None):
        return state
    if active:
        return replace(state, active_since=at)
    since = state.active_since
    spent = int((at - since).total_seconds() * 1000) if since is not None else 0
    return replace(state, active_since=None, active_ms=state.active_ms + max(0, spent))


def _apply(state: RunState, event: "ev.AnyEvent", at: datetime) -> RunState:  # noqa: C901 - one table of events
    match event:
        case ev.RunCreated():
            return replace(state, task=event, status=Status.QUEUED, agent_key=event.agent_key, created_at=at)
        case ev.RunStarted():
            return replace(state, status=Status.RUNNING, started_at=at)
        case ev.DecisionRequested():
            return _decision_requested(state, event, at)
        case ev.DecisionReceived():
            return _decision_received(state, event)
        case ev.DecisionMissed():
            return _decision_missed(state, event)
        case ev.DecisionRefused():
            return _feedback(_tail(state, _system(event.step, event.feedback)), event.feedback)
        case ev.InstructionIssued():
            return _instruction_issued(state, event, at)
        case ev.ToolCallFinished() | ev.ToolCallDenied():
            return _call_finished(state, event)
        case ev.AgentTransferred():
            return _transferred(state, event)
        case ev.GateOpened():
            return _gate_opened(state, event, at)
        case ev.GateClosed():
            return replace(state, gates=tuple(g for g in state.gates if g.gate_id != event.gate_id))
        case ev.LoopDetected():
            key = f"{event.detector}:{event.signature}"
            return replace(state, detectors=replace(state.detectors, nudged=(*state.detectors.nudged, key)[-8:]))
        case ev.NoteAdded():
            return replace(_tail(state, _system(event.step, event.text)), notes=(*state.notes, event.text))
        case ev.EffectResent():
            return _resent(state, event)
        case ev.CancelAccepted():
            return _cancel_accepted(state, event, at)
        case ev.FenceStored():
            return _fence_stored(state, event)
        case ev.RunQuarantined():
            return replace(state, status=Status.QUARANTINED, reason=event.code, pending=(), gates=())
        case ev.RunFinished():
            return _finished(state, event, at)


def _system(step: int, text: str) -> dict[str, Any]:
    return {"type": "system", "step": step, "text": truncate(text, 120)}


def _tail(state: RunState, entry: dict[str, Any]) -> RunState:
    return replace(state, log_tail=(*state.log_tail, entry)[-LOG_TAIL:])


def _feedback(state: RunState, text: str) -> RunState:
    return replace(state, feedback=(*state.feedback, text))


def _without(state: RunState, kind: EffectKind) -> tuple[PendingEffect, ...]:
    return tuple(effect for effect in state.pending if effect.kind is not kind)


def _decision_requested(state: RunState, event: "ev.DecisionRequested", at: datetime) -> RunState:
    lease = timedelta(milliseconds=state.created.step_timeout_ms, seconds=DECIDE_GRACE_S)
    pending = PendingEffect(effect_id=event.request_id, kind=EffectKind.DECIDE, attempt=1, resend_at=at + lease)
    return replace(
        state,
        step=event.step,
        requests=state.requests + 1,
        pending=(*state.pending, pending),
        calls=(),
        input_preview=event.input_preview,
    )


def _spent(state: RunState, event: "ev.DecisionReceived | ev.DecisionMissed") -> RunState:
    usage, cost = state.usage, state.cost
    known = cost.price_known and event.cost.price_known
    return replace(
        state,
        usage=Usage(
            input_tokens=usage.input_tokens + event.usage.input_tokens,
            output_tokens=usage.output_tokens + event.usage.output_tokens,
            total_tokens=usage.total_tokens + event.usage.total_tokens,
            model_calls=usage.model_calls + event.usage.model_calls,
        ),
        cost=Cost(
            usd=(cost.usd or 0.0) + (event.cost.usd or 0.0) if known else None,
            price_known=known,
            price_source=event.cost.price_source,
        ),
        pending=_without(state, EffectKind.DECIDE),
    )


def _decision_received(state: RunState, event: "ev.DecisionReceived") -> RunState:
    state = _tail(_spent(state, event), agent_entry(event, state.input_preview))
    cursors = state.cursors
    if event.script is not None:
        cursors = {**cursors, event.script.queue: event.script.index + 1}
    return replace(state, cursors=cursors, feedback=(), notes=(), handoff=None, handoff_from=None)


def _decision_missed(state: RunState, event: "ev.DecisionMissed") -> RunState:
    return _tail(_spent(state, event), _system(event.step, f"{event.code}: {event.message}"))


def _instruction_issued(state: RunState, event: "ev.InstructionIssued", at: datetime) -> RunState:
    if not isinstance(event.instruction, CallTools):
        return state
    pending = list(state.pending)
    for call in event.instruction.calls:
        timeout = state.snapshot.tools[call.tool].timeout_ms
        pending.append(
            PendingEffect(
                effect_id=call.execution_id,
                kind=EffectKind.TOOL,
                attempt=1,
                resend_at=at + timedelta(seconds=TOOL_RESEND_S),
                deadline=at + timedelta(milliseconds=timeout + QUEUE_MS),
                call_index=call.call_index,
            )
        )
    calls = tuple(OpenCall(call=call) for call in event.instruction.calls)
    polling = all(state.snapshot.tools[call.tool].polling for call in event.instruction.calls)
    detectors = state.detectors if polling else after_calls(state.detectors, event.instruction.calls)
    return replace(state, pending=tuple(pending), calls=calls, detectors=detectors)


def _call_finished(state: RunState, event: "ev.ToolCallFinished | ev.ToolCallDenied") -> RunState:
    args = next((c.call.args for c in state.calls if c.call.execution_id == event.execution_id), {})
    status = call_status(event)
    failed = status != "succeeded"
    response = response_of(event)
    failure = event.failure if isinstance(event, ev.ToolCallFinished) else None
    calls = tuple(
        replace(
            c,
            status=status,
            error_signature=error_signature(event) if failed else "",
            external=bool(failure and failure.external),
            result=None if failed else event.result if isinstance(event, ev.ToolCallFinished) else None,
        )
        if c.call.execution_id == event.execution_id
        else c
        for c in state.calls
    )
    state = replace(
        state,
        calls=calls,
        pending=tuple(p for p in state.pending if p.effect_id != event.execution_id),
        gates=tuple(g for g in state.gates if g.execution_id != event.execution_id),
        tool_errors=state.tool_errors + (1 if failed else 0),
        last_output=state.last_output if failed else response,
        detectors=after_success_or_error(state.detectors, calls) if all(c.status for c in calls) else state.detectors,
    )
    return _remember_output(_tail(state, tool_entry(event, args)), event, as_text(response), status)


def _remember_output(
    state: RunState, event: "ev.ToolCallFinished | ev.ToolCallDenied", text: str, status: str
) -> RunState:
    """Keep full outputs newest first while they fit; older ones become previews, then a count (feature A11)."""
    output = ToolOutput(
        execution_id=event.execution_id,
        tool=event.tool,
        step=event.step,
        status=status,
        text=text,
        blob_digest=event.result_digest if isinstance(event, ev.ToolCallFinished) and event.blob else None,
    )
    outputs = [output, *state.outputs]
    size = state.output_bytes + len(text)
    limit = state.created.context_limit
    older, count = state.older, state.older_count
    while outputs and size > limit:
        gone = outputs.pop()
        size -= len(gone.text)
        preview = OlderOutput(
            execution_id=gone.execution_id, tool=gone.tool, preview=truncate(gone.text, RESPONSE_CHARS)
        )
        older = (preview, *older)[:OLDER_KEPT]
        count += 1
    return replace(state, outputs=tuple(outputs), output_bytes=size, older=older, older_count=count)


def _transferred(state: RunState, event: "ev.AgentTransferred") -> RunState:
    context = None if event.context is None else as_text(event.context)
    if event.target == state.agent_key:
        return replace(state, handoff=context, handoff_from=event.source)
    return replace(
        state,
        agent_key=event.target,
        epoch=event.epoch,
        handoff=context,
        handoff_from=event.source,
        outputs=(),
        output_bytes=0,
        older=(),
        older_count=0,
    )


def _gate_opened(state: RunState, event: "ev.GateOpened", at: datetime) -> RunState:
    gate = OpenGate(
        gate_id=event.gate_id,
        gate_type=event.gate_type,
        expires_at=event.expires_at,
        execution_id=event.execution_id,
        approval_id=event.approval_id,
    )
    pending = tuple(
        replace(p, resend_at=at + timedelta(seconds=GATE_RESEND_S)) if p.effect_id == event.execution_id else p
        for p in state.pending
    )
    return replace(state, gates=(*state.gates, gate), pending=pending)


def _resent(state: RunState, event: "ev.EffectResent") -> RunState:
    pending = tuple(
        replace(p, attempt=event.attempt, resend_at=event.resend_at) if p.effect_id == event.effect_id else p
        for p in state.pending
    )
    return replace(state, pending=pending)


def fence_effect(state: RunState, at: datetime, fence: int) -> PendingEffect:
    """Return the pending effect that stores *fence* at the tool-access service."""
    return PendingEffect(
        effect_id=effect_id(state.run_id, f"fence:{fence}"),
        kind=EffectKind.FENCE,
        attempt=1,
        resend_at=at + timedelta(seconds=FENCE_RESEND_S),
    )


def _cancel_accepted(state: RunState, event: "ev.CancelAccepted", at: datetime) -> RunState:
    pending = _without(state, EffectKind.DECIDE)
    if pending:
        pending = (*pending, fence_effect(state, at, event.fence))
    return replace(state, status=Status.CANCELLING, fence=event.fence, pending=pending, gates=(), cancelled_by=event.by)


def _fence_stored(state: RunState, event: "ev.FenceStored") -> RunState:
    live = set(event.live)
    calls = tuple(
        replace(c, status="void") if not c.status and c.call.execution_id not in live else c for c in state.calls
    )
    kept = tuple(p for p in state.pending if p.kind is EffectKind.TOOL and p.effect_id in live)
    fences = tuple(p for p in state.pending if p.kind is EffectKind.FENCE) if live and not state.is_final else ()
    return replace(state, calls=calls, pending=() if state.is_final else (*kept, *fences))


def _finished(state: RunState, event: "ev.RunFinished", at: datetime) -> RunState:
    unanswered = any(p.kind is EffectKind.TOOL for p in state.pending) and event.fence > state.fence
    pending = (fence_effect(state, at, event.fence),) if unanswered else ()
    return replace(
        state,
        status=Status(event.status),
        reason=event.reason,
        final=event.final,
        fence=event.fence,
        ended_at=at,
        pending=pending,
        gates=(),
    )
