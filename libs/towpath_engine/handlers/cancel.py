"""Cancelling a run, and the fence that a run leaves behind.

A run is `cancelled` only when none of its calls can still happen unnoticed: each was voided, has its outcome, or
is listed as unknown because its own time is over. What the tool-access service neither voided nor sees running has an
outcome that is on its way here, or was never asked for: the service is asked, under the old fence, and says which.
"""

from datetime import timedelta
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.gates import close_all
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.lifecycle import FENCE_RESEND_S
from towpath_engine.state.run import EffectKind, PendingEffect, Status

ANSWER_WAIT = timedelta(seconds=FENCE_RESEND_S)
"""How long the answer about a call that is neither voided nor live may take; then it is listed as unknown."""


def on_cancel_requested(t: TransitionBuilder, fact: facts.CancelRequested) -> None:
    """Raise the fence and wait until nothing of the run can happen any more."""
    if t.state.status is Status.CANCELLING:
        return
    close_all(t, "the run is cancelled")
    t.emit(ev.CancelAccepted(by=fact.by, reason=fact.reason, fence=t.state.fence + 1))
    fence = _pending_fence(t)
    for child in pending_children(t.state):
        t.ask(child.effect_id)
    if fence is None:
        finish_if_quiet(t)
    else:
        t.ask(fence.effect_id)


def on_fence_raised(t: TransitionBuilder, fact: facts.FenceRaised) -> None:
    """Take the answer to the raised fence: what was voided, what still runs."""
    if t.state.status is not Status.CANCELLING or fact.fence != t.state.fence:
        return
    unfinished = {c.call.execution_id for c in t.state.calls if not c.status} - t.state.under_way
    voided = tuple(e for e in fact.voided if e in unfinished)
    live = tuple(e for e in fact.live if e in unfinished and e not in voided)
    if t.state.fence_stored < fact.fence or voided or set(live) != unfinished & set(t.state.fence_live):
        t.emit(ev.FenceStored(fence=fact.fence, voided=voided, live=live))
        for pending in _neither_voided_nor_live(t, live):
            resend(t, pending)
    elif t.state.fence_stored_at is not None and t.state.fence_stored_at + ANSWER_WAIT <= t.now:
        for pending in _neither_voided_nor_live(t, live):
            _list_as_unknown(t, pending.effect_id)
    finish_if_quiet(t)


def _neither_voided_nor_live(t: TransitionBuilder, live: tuple[UUID, ...]) -> list[PendingEffect]:
    return [pending for pending in _pending_calls(t) if pending.effect_id not in live]


def give_up_late_calls(t: TransitionBuilder) -> None:
    """End the wait for calls that still live although their own time is long over."""
    late = [p for p in _pending_calls(t) if p.deadline is not None and p.deadline <= t.now]
    for pending in late:
        _list_as_unknown(t, pending.effect_id)
    if late:
        finish_if_quiet(t)


def _list_as_unknown(t: TransitionBuilder, execution_id: UUID) -> None:
    open_call = t.state.open_call(execution_id)
    if open_call is None:
        return
    t.emit(
        ev.ToolCallFinished(
            execution_id=execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=open_call.call.tool,
            status="unknown",
        )
    )


def finish_if_quiet(t: TransitionBuilder) -> None:
    """End a cancelling run once no call and no child of it is pending."""
    if not _pending_calls(t) and not pending_children(t.state):
        finish(t, Status.CANCELLED, "cancelled", f"cancelled by {t.state.cancelled_by}")


def on_fence_raised_after_end(t: TransitionBuilder, fact: facts.FenceRaised) -> None:
    """Take the answer to the fence of a run that has ended; it is pending until no call of the run is live."""
    if _pending_fence(t) is None or fact.fence != t.state.fence:
        return
    if t.state.fence_stored < fact.fence or set(fact.live) != set(t.state.fence_live):
        t.emit(ev.FenceStored(fence=fact.fence, voided=fact.voided, live=fact.live))


def resend_fence(t: TransitionBuilder) -> None:
    """Send the fence again where it is due."""
    pending = _pending_fence(t)
    if pending is not None and pending.resend_at <= t.now:
        resend(t, pending)


def _pending_fence(t: TransitionBuilder) -> PendingEffect | None:
    return next((p for p in t.state.pending if p.kind is EffectKind.FENCE), None)


def _pending_calls(t: TransitionBuilder) -> list[PendingEffect]:
    """Return the calls that only the tool-access service can tell of: children tell what became of theirs."""
    under_way = t.state.under_way
    return [p for p in t.state.pending if p.kind is EffectKind.TOOL and p.effect_id not in under_way]
