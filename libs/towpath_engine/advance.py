"""What a fact makes of a run: the deciding half of the machine.

Law: any fact in any state returns. A duplicate or stale fact yields no event; what is still pending is sent again by
its own `resend_at`, so nothing here depends on the order or number of deliveries (design §4, §5).
"""

from datetime import datetime, timedelta
from uuid import UUID

from towpath_contracts import events as ev
from towpath_contracts import facts
from towpath_contracts.ids import gate_id
from towpath_engine.effects import Effect, message_of
from towpath_engine.evolve import FENCE_RESEND_S, GATE_RESEND_S, TOOL_RESEND_S
from towpath_engine.state import EffectKind, OpenGate, PendingEffect, RunState, Status
from towpath_engine.steps import after_decision, begin_step, end_with_error, finish, join_calls, resend_decision
from towpath_engine.transition import Transition

MAX_RESEND_S = 60
"""Resends back off to once a minute (design §4)."""

UNKNOWN_GATE_HOURS = 24
"""Expiry of a gate about an unknown effect (design §5: default 24 h)."""


def advance(
    state: RunState, fact: facts.AnyFact, now: datetime
) -> tuple[tuple["ev.LogEntry", ...], tuple[Effect, ...], RunState]:
    """Return what *fact* makes of the run: its events in order, the effects to send, and the state they fold to.

    A duplicate or stale fact yields no event and no effect.
    """
    transition = Transition(state=state, now=now)
    _dispatch(transition, fact)
    after = transition.state
    effects = tuple(message_of(after, pending) for pending in after.pending if pending.effect_id in transition.send)
    return tuple(transition.entries), effects, after


def wake_at(state: RunState) -> datetime | None:
    """When the reconciler must look at the run again: the earliest resend, gate expiry or deadline (design §4)."""
    if state.status in (Status.NEW, Status.QUEUED, Status.QUARANTINED):
        return None
    times = [pending.resend_at for pending in state.pending]
    times += [gate.expires_at for gate in state.gates]
    deadline = state.active_deadline()
    if deadline is not None and not state.is_final:
        times.append(deadline)
    return min(times) if times else None


def _dispatch(t: Transition, fact: facts.AnyFact) -> None:  # noqa: C901 - one table of facts
    if t.state.is_final:
        if isinstance(fact, facts.FenceRaised | facts.TimerFired):
            _after_the_end(t, fact)
        return
    if t.state.status is Status.QUARANTINED and not isinstance(fact, facts.CancelRequested):
        return
    match fact:
        case facts.RunAdmitted():
            _admitted(t)
        case facts.DecisionMade():
            _decision_made(t, fact)
        case facts.DecisionFailed():
            _decision_failed(t, fact)
        case facts.ToolFinished():
            _tool_finished(t, fact)
        case facts.ToolDenied():
            _tool_denied(t, fact)
        case facts.ApprovalRequired():
            _approval_required(t, fact)
        case facts.GateResolved():
            _gate_resolved(t, fact)
        case facts.ExecutionConflict():
            t.emit(ev.RunQuarantined(code="execution_conflict", message=fact.message))
        case facts.TimerFired():
            _timer_fired(t)
        case facts.CancelRequested():
            _cancel_requested(t, fact)
        case facts.FenceRaised():
            _fence_raised(t, fact)
        case facts.MessageDead():
            _message_dead(t, fact)


def _after_the_end(t: Transition, fact: facts.FenceRaised | facts.TimerFired) -> None:
    pending = next((p for p in t.state.pending if p.kind is EffectKind.FENCE), None)
    if pending is None:
        return
    if isinstance(fact, facts.TimerFired):
        if pending.resend_at <= t.now:
            _resend(t, pending, FENCE_RESEND_S)
    elif fact.fence == t.state.fence:
        t.emit(ev.FenceStored(fence=fact.fence, voided=fact.voided, live=fact.live))


def _admitted(t: Transition) -> None:
    if t.state.status is Status.QUEUED:
        t.emit(ev.RunStarted())
        begin_step(t)


def _decision_made(t: Transition, fact: facts.DecisionMade) -> None:
    if t.state.pending_effect(fact.request_id) is None:
        return
    t.emit(
        ev.DecisionReceived(
            request_id=fact.request_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            decision=fact.decision,
            model=fact.model,
            usage=fact.usage,
            cost=fact.cost,
            duration_ms=fact.duration_ms,
            prompt_digest=fact.prompt_digest,
            raw_digest=fact.raw_digest,
            script=fact.script,
        )
    )
    after_decision(t, fact.decision)


def _decision_failed(t: Transition, fact: facts.DecisionFailed) -> None:
    if t.state.pending_effect(fact.request_id) is None:
        return
    t.emit(
        ev.DecisionMissed(
            request_id=fact.request_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            code=fact.code,
            message=fact.message,
            model=fact.model,
            usage=fact.usage,
            cost=fact.cost,
            duration_ms=fact.duration_ms,
        )
    )
    if fact.code == "invalid_output":
        resend_decision(t, fact.code, f"Your last answer was not a valid decision: {fact.message}")
    else:
        end_with_error(t, fact.code, fact.message)


def _tool_finished(t: Transition, fact: facts.ToolFinished) -> None:
    open_call = t.state.open_call(fact.execution_id)
    if open_call is None:
        return
    if fact.status == "unknown" and t.state.status is not Status.CANCELLING:
        _open_unknown_gate(t, fact, open_call.call.tool)
        return
    _settle_gate(t, fact.execution_id)
    t.emit(
        ev.ToolCallFinished(
            execution_id=fact.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=open_call.call.tool,
            status=fact.status,
            result=fact.result,
            result_digest=fact.result_digest,
            result_bytes=fact.result_bytes,
            blob=fact.blob,
            failure=fact.failure,
            duration_ms=fact.duration_ms,
            worker=fact.worker,
            policy_version=fact.policy_version,
        )
    )
    _after_call(t)


def _tool_denied(t: Transition, fact: facts.ToolDenied) -> None:
    open_call = t.state.open_call(fact.execution_id)
    if open_call is None:
        return
    _settle_gate(t, fact.execution_id)
    t.emit(
        ev.ToolCallDenied(
            execution_id=fact.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=open_call.call.tool,
            denial=fact.denial,
            policy_version=fact.policy_version,
        )
    )
    _after_call(t)


def _after_call(t: Transition) -> None:
    if t.state.status is Status.CANCELLING:
        _finish_cancel_if_quiet(t)
    elif all(call.status for call in t.state.calls):
        join_calls(t)


def _gate_of(state: RunState, execution_id: UUID) -> OpenGate | None:
    return next((gate for gate in state.gates if gate.execution_id == execution_id), None)


def _settle_gate(t: Transition, execution_id: UUID) -> None:
    gate = _gate_of(t.state, execution_id)
    if gate is not None:
        t.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="settled", reason="the call has an outcome"))


def _open_unknown_gate(t: Transition, fact: facts.ToolFinished, tool: str) -> None:
    if _gate_of(t.state, fact.execution_id) is not None:
        return
    message = fact.failure.message if fact.failure else "the worker was lost while the call ran"
    t.emit(
        ev.GateOpened(
            gate_id=gate_id(t.state.run_id, f"unknown:{fact.execution_id}"),
            gate_type="unknown_effect",
            execution_id=fact.execution_id,
            reason=f"nobody knows whether {tool} happened: {message}",
            detail={"tool": tool, "worker": fact.worker, "verdicts": ["happened", "did_not_happen", "retry"]},
            expires_at=t.now + timedelta(hours=UNKNOWN_GATE_HOURS),
        )
    )


def _approval_required(t: Transition, fact: facts.ApprovalRequired) -> None:
    if t.state.open_call(fact.execution_id) is None or t.state.status is Status.CANCELLING:
        return
    gate = _gate_of(t.state, fact.execution_id)
    if gate is not None and gate.approval_id == fact.approval_id:
        return
    if gate is not None:
        t.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="void", reason="the call or its rules changed"))
    t.emit(
        ev.GateOpened(
            gate_id=gate_id(t.state.run_id, f"approval:{fact.approval_id}"),
            gate_type="approval",
            execution_id=fact.execution_id,
            approval_id=fact.approval_id,
            reason=fact.reason or f"rule {fact.rule} wants a person's approval",
            detail={
                "tool": fact.tool,
                "args": fact.args,
                "args_digest": fact.args_digest,
                "digest": fact.digest,
                "rule": fact.rule,
                "agent": t.state.agent_key,
                "changes": list(fact.changes),
            },
            expires_at=fact.expires_at,
        )
    )


def _gate_resolved(t: Transition, fact: facts.GateResolved) -> None:
    gate = next(
        (
            g
            for g in t.state.gates
            if (fact.gate_id is not None and g.gate_id == fact.gate_id)
            or (fact.approval_id is not None and g.approval_id == fact.approval_id)
        ),
        None,
    )
    if gate is None:
        return
    t.emit(ev.GateClosed(gate_id=gate.gate_id, verdict=fact.verdict, reason=fact.reason, by=fact.by))
    pending = t.state.pending_effect(gate.execution_id) if gate.execution_id else None
    if pending is not None:
        _resend(t, pending, TOOL_RESEND_S)


def _resend(t: Transition, pending: PendingEffect, base_s: int) -> None:
    """Send *pending* again with the next attempt number and a longer wait."""
    delay = min(base_s * 2 ** min(pending.attempt, 6), MAX_RESEND_S)
    t.emit(
        ev.EffectResent(
            effect_id=pending.effect_id, attempt=pending.attempt + 1, resend_at=t.now + timedelta(seconds=delay)
        )
    )
    t.ask(pending.effect_id)


def _timer_fired(t: Transition) -> None:
    deadline = t.state.active_deadline()
    if deadline is not None and deadline <= t.now and t.state.status is not Status.CANCELLING:
        limit = t.state.created.timeout_ms
        finish(t, Status.TIMED_OUT, "deadline_exceeded", f"the run used its {limit} ms of active time")
        return
    if t.state.status is Status.CANCELLING:
        _give_up_late_calls(t)
        if t.state.is_final:
            return
    gated = {gate.execution_id for gate in t.state.gates}
    expired = {gate.execution_id for gate in t.state.gates if gate.expires_at <= t.now}
    for pending in t.state.pending:
        if pending.resend_at > t.now and pending.effect_id not in expired:
            continue
        if pending.effect_id in gated:
            _resend_steadily(t, pending, GATE_RESEND_S)
        elif pending.kind is EffectKind.FENCE:
            _resend_steadily(t, pending, FENCE_RESEND_S)
        else:
            _resend(t, pending, TOOL_RESEND_S)


def _resend_steadily(t: Transition, pending: PendingEffect, every_s: int) -> None:
    resend_at = t.now + timedelta(seconds=every_s)
    t.emit(ev.EffectResent(effect_id=pending.effect_id, attempt=pending.attempt + 1, resend_at=resend_at))
    t.ask(pending.effect_id)


def _cancel_requested(t: Transition, fact: facts.CancelRequested) -> None:
    if t.state.status is Status.CANCELLING:
        return
    t.emit(ev.CancelAccepted(by=fact.by, reason=fact.reason, fence=t.state.fence + 1))
    fence = next((p for p in t.state.pending if p.kind is EffectKind.FENCE), None)
    if fence is None:
        _finish_cancel_if_quiet(t)
    else:
        t.ask(fence.effect_id)


def _fence_raised(t: Transition, fact: facts.FenceRaised) -> None:
    if t.state.status is not Status.CANCELLING or fact.fence != t.state.fence:
        return
    known = {p.effect_id for p in t.state.pending if p.kind is EffectKind.TOOL}
    live = tuple(e for e in fact.live if e in known)
    if set(live) != known:
        t.emit(ev.FenceStored(fence=fact.fence, voided=fact.voided, live=live))
    _finish_cancel_if_quiet(t)


def _give_up_late_calls(t: Transition) -> None:
    """End the wait for calls that still live although their own time is long over (design §7, cancel)."""
    late = [p for p in t.state.pending if p.kind is EffectKind.TOOL and p.deadline is not None and p.deadline <= t.now]
    for pending in late:
        call = next(c.call for c in t.state.calls if c.call.execution_id == pending.effect_id)
        t.emit(
            ev.ToolCallFinished(
                execution_id=pending.effect_id,
                step=t.state.step,
                epoch=t.state.epoch,
                agent_key=t.state.agent_key,
                call_index=call.call_index,
                tool=call.tool,
                status="unknown",
            )
        )
    if late:
        _finish_cancel_if_quiet(t)


def _finish_cancel_if_quiet(t: Transition) -> None:
    if any(p.kind is EffectKind.TOOL for p in t.state.pending):
        return
    finish(t, Status.CANCELLED, "cancelled", f"cancelled by {t.state.cancelled_by}")


def _message_dead(t: Transition, fact: facts.MessageDead) -> None:
    if fact.effect_id is not None and t.state.pending_effect(fact.effect_id) is None:
        return
    end_with_error(t, "dead_lettered", f"a message of {fact.stream} can't be handled: {fact.reason}")
