"""Applies the opening and closing of gates: what waits for a person, and what a person's decision resets."""

from datetime import datetime, timedelta

from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_engine.reducers.calls import call_deadline
from towpath_engine.reducers.operator_acts import with_act
from towpath_engine.reducers.watchdog import clear_reported_finding
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.replace import replace
from towpath_engine.state.run import EffectKind, OpenGate, PendingEffect, RunState

GATE_RESEND_S = 30
"""Resend of a tool request whose gate is open."""


def apply_gate_opened(state: RunState, event: ev.GateOpened, at: datetime) -> RunState:
    """Remember a gate; the request of its call is resent more slowly."""
    gate = OpenGate(
        gate_id=event.gate_id,
        gate_type=event.gate_type,
        expires_at=event.expires_at,
        execution_id=event.execution_id,
        approval_id=event.approval_id,
        key=str(event.detail.get("key", "")) if event.execution_id is None else "",
        inherited=event.execution_id is None and bool(event.detail.get("inherited")),
        holds=event.execution_id is None and bool(event.detail.get("holds")),
    )
    if event.execution_id is None:
        if gate.key == OUT_OF_TIME or gate.holds:
            state = _waited_for_no_longer(state, given_up=state.unanswered and (gate.holds or state.held))
        opened = replace(state, gates=(*state.gates, gate), run_gates=state.run_gates + 1)
        return with_act(clear_reported_finding(opened, event.reason), event.detail.get("act"))
    pending = tuple(
        replace(p, resend_at=at + timedelta(seconds=GATE_RESEND_S)) if p.effect_id == event.execution_id else p
        for p in state.pending
    )
    counts = state.call_counts
    call = state.open_call(event.execution_id)
    if call is not None and not call.closed_gates:  # its first gate: another closes the one before
        counts = counts.model_copy(update={"held": counts.held + 1})
    return replace(state, gates=(*state.gates, gate), pending=pending, call_counts=counts)


def _waited_for_no_longer(state: RunState, *, given_up: bool) -> RunState:
    """Drop the request to a model; where one was *given_up* before, it is still to be asked once more."""
    pending = tuple(effect for effect in state.pending if effect.kind is not EffectKind.DECIDE)
    return replace(state, pending=pending, unanswered=given_up or len(pending) < len(state.pending))


def apply_gate_closed(state: RunState, event: ev.GateClosed, at: datetime) -> RunState:
    """Remove the gate, but keep its id; its call may start only now, so its time begins again."""
    gate = next((g for g in state.gates if g.gate_id == event.gate_id), None)
    if gate is None:
        return state
    if gate.execution_id is None:
        return _run_gate_closed(state, gate, event.verdict, at)
    return replace(
        state,
        gates=tuple(g for g in state.gates if g is not gate),
        calls=tuple(
            replace(c, closed_gates=(*c.closed_gates, gate.gate_id)) if c.call.execution_id == gate.execution_id else c
            for c in state.calls
        ),
        pending=tuple(
            _begun_anew(state, p, at, withheld=state.held) if p.effect_id == gate.execution_id else p
            for p in state.pending
        ),
    )


def _run_gate_closed(state: RunState, gate: OpenGate, verdict: str, at: datetime) -> RunState:
    """A person's decision clears what the detectors counted."""
    decided = verdict in ("approved", "denied")
    again = decided and gate.key == OUT_OF_TIME
    closed = replace(
        state,
        gates=tuple(g for g in state.gates if g is not gate),
        revisions=state.revisions + 1 if verdict == "denied" else 0 if verdict == "approved" else state.revisions,
        detectors=LoopCounters() if decided else state.detectors,
        active_ms=0 if again else state.active_ms,
        active_since=at if again and state.active_since is not None else state.active_since,
    )
    return _let_go(state, closed, at) if state.held and not closed.held else closed


def _let_go(held: RunState, state: RunState, at: datetime) -> RunState:
    """Nobody holds the run any more: what was held back may start only now, so its time begins again."""
    back = held.withheld | (held.queued - state.queued)
    pending = tuple(_begun_anew(state, p, at, withheld=p.withheld) if p.effect_id in back else p for p in state.pending)
    return replace(state, pending=pending)


def _begun_anew(state: RunState, pending: PendingEffect, at: datetime, *, withheld: bool) -> PendingEffect:
    call = state.open_call(pending.effect_id)
    if call is None:
        return pending
    return replace(pending, deadline=call_deadline(state, call.call.tool, at), withheld=withheld)
