"""Sends a pending effect again.

Every resend raises the attempt number, so that the broker does not take the message for a duplicate, and moves
`resend_at` forward, so that the run is not woken twice for one resend.
"""

from datetime import timedelta

from towpath_contracts.events import log as ev
from towpath_engine.handlers.reservations import emit_request
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.calls import TOOL_RESEND_S
from towpath_engine.reducers.children import CHILD_RESEND_S
from towpath_engine.reducers.decisions import DECIDE_GRACE_S
from towpath_engine.reducers.gates import GATE_RESEND_S
from towpath_engine.reducers.lifecycle import FENCE_RESEND_S
from towpath_engine.state.run import STOPPING, EffectKind, PendingEffect, RunState

MAX_RESEND_S = 15
"""Resends back off to this: how late a lost claim's lease or a lost outcome is noticed, for one message a call."""

QUICK_FENCES = 5
"""A cancel waits for its fence; after this many attempts a lost message is no longer the likely cause."""

MAX_CHILD_RESEND_S = 30
"""Children may take long; a lost report delays the parent by at most this."""

MAX_GATE_RESEND_S = 120
"""People take hours: thousands of runs may wait for them, and each resend is a commit and an event of its run. A run
that has ended while a call of it lives waits as well, for the end of that call's lease."""


def resend(run: TransitionBuilder, pending: PendingEffect, *, dead: str = "") -> None:
    """Send *pending* again, with the next attempt number and the wait that is its own.

    *dead* is the reason why its last message could not be handled, where it was one.
    """
    resend_at = run.now + timedelta(seconds=_wait_s(run.state, pending))
    attempt = pending.attempt + 1
    emit_request(run, ev.EffectResent(effect_id=pending.effect_id, attempt=attempt, resend_at=resend_at, dead=dead))
    run.send_effect(pending.effect_id)


def _wait_s(state: RunState, pending: PendingEffect) -> float:
    """Return a wait that grows with the attempts; a decision waits for its lease, or a model would be paid twice."""
    if pending.kind is EffectKind.FENCE:
        limit = MAX_GATE_RESEND_S if state.is_final else MAX_RESEND_S
        return min(FENCE_RESEND_S << max(0, min(pending.attempt - QUICK_FENCES, 6)), limit)
    if any(gate.execution_id == pending.effect_id for gate in state.gates):
        return min(GATE_RESEND_S << min(pending.attempt - 1, 6), MAX_GATE_RESEND_S)
    if pending.kind is EffectKind.DECIDE:
        return state.created.step_timeout_ms / 1000 + DECIDE_GRACE_S
    if pending.kind is EffectKind.CHILD and not _is_stopped(state, pending):
        waits = any(child.waits and child.child_id == pending.effect_id for child in state.children)
        return min(CHILD_RESEND_S << min(pending.attempt, 6), MAX_GATE_RESEND_S if waits else MAX_CHILD_RESEND_S)
    return _backed_off_s(pending.attempt)


def _is_stopped(state: RunState, pending: PendingEffect) -> bool:
    """Return whether a child is told to stop, so its answer is not needed."""
    stopped = any(child.stopped and child.child_id == pending.effect_id for child in state.children)
    return stopped or state.is_final or state.status in STOPPING


def _backed_off_s(attempt: int) -> int:
    return min(TOOL_RESEND_S << min(attempt, 6), MAX_RESEND_S)
