"""Cancels a run, and keeps its fence pending until it is stored.

A run is `cancelled` only when none of its calls can still happen unnoticed: each was voided, has its outcome, or is
listed as unknown because its own time is over. A call that the tool-access service neither voided nor sees running has
an outcome that is on its way here, or was never asked for: the service is asked again under the old fence, and
answers which.
"""

from datetime import timedelta
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.gates import close_all_gates
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.lifecycle import FENCE_RESEND_S
from towpath_engine.state.run import EffectKind, PendingEffect, Status

ANSWER_WAIT = timedelta(seconds=FENCE_RESEND_S)
"""How long the answer about a call that is neither voided nor live may take; then it is listed as unknown."""


def on_cancel_requested(run: TransitionBuilder, fact: facts.CancelRequestedFact) -> None:
    """Raise the fence and wait until nothing of the run can happen any more."""
    if run.state.status is Status.CANCELLING:
        return
    close_all_gates(run, "the run is cancelled")
    fence_after = run.state.fence + 1
    run.emit(ev.CancelAccepted(by=fact.by, reason=fact.reason, in_answer=fact.in_answer, fence=fence_after))
    fence = _pending_fence(run)
    for child in pending_children(run.state):
        run.send_effect(child.effect_id)
    if fence is None:
        finish_if_quiet(run)
    else:
        run.send_effect(fence.effect_id)


def on_fence_raised(run: TransitionBuilder, fact: facts.FenceRaisedFact) -> None:
    """Take the answer to the raised fence: what was voided, what still runs."""
    if run.state.status is not Status.CANCELLING or fact.fence != run.state.fence:
        return
    unfinished = {c.call.execution_id for c in run.state.calls if not c.status} - run.state.under_way
    voided = tuple(e for e in fact.voided if e in unfinished)
    live = tuple(e for e in fact.live if e in unfinished and e not in voided)
    if run.state.fence_stored < fact.fence or voided or set(live) != unfinished & set(run.state.fence_live):
        run.emit(ev.FenceStored(fence=fact.fence, voided=voided, live=live))
        for pending in _neither_voided_nor_live(run, live):
            resend(run, pending)
    elif run.state.fence_stored_at is not None and run.state.fence_stored_at + ANSWER_WAIT <= run.now:
        for pending in _neither_voided_nor_live(run, live):
            _list_as_unknown(run, pending.effect_id)
    finish_if_quiet(run)


def _neither_voided_nor_live(run: TransitionBuilder, live: tuple[UUID, ...]) -> list[PendingEffect]:
    return [pending for pending in _pending_calls(run) if pending.effect_id not in live]


def give_up_late_calls(run: TransitionBuilder) -> None:
    """End the wait for calls that still live although their own time is long over."""
    late = [p for p in _pending_calls(run) if p.deadline is not None and p.deadline <= run.now]
    for pending in late:
        _list_as_unknown(run, pending.effect_id)
    if late:
        finish_if_quiet(run)


def _list_as_unknown(run: TransitionBuilder, execution_id: UUID) -> None:
    open_call = run.state.open_call(execution_id)
    if open_call is None:
        return
    run.emit(ev.ToolCallFinished(**run.fields_of(open_call), status="unknown"))


def finish_if_quiet(run: TransitionBuilder) -> None:
    """End a cancelling run once no call and no child of it is pending."""
    if not _pending_calls(run) and not pending_children(run.state):
        why = f": {run.state.cancel_reason}" if run.state.cancel_reason else ""
        finish(run, Status.CANCELLED, "cancelled", f"cancelled by {run.state.cancelled_by}{why}")


def on_fence_raised_after_end(run: TransitionBuilder, fact: facts.FenceRaisedFact) -> None:
    """Take the answer to the fence of a run that has ended; it is pending until no call of the run is live."""
    if _pending_fence(run) is None or fact.fence != run.state.fence:
        return
    if run.state.fence_stored < fact.fence or set(fact.live) != set(run.state.fence_live):
        run.emit(ev.FenceStored(fence=fact.fence, voided=fact.voided, live=fact.live))


def resend_fence(run: TransitionBuilder) -> None:
    """Send the fence again where it is due."""
    pending = _pending_fence(run)
    if pending is not None and pending.resend_at <= run.now:
        resend(run, pending)


def _pending_fence(run: TransitionBuilder) -> PendingEffect | None:
    return next((p for p in run.state.pending if p.kind is EffectKind.FENCE), None)


def _pending_calls(run: TransitionBuilder) -> list[PendingEffect]:
    """Return the calls of which only the tool-access service knows the outcome; children report that of theirs."""
    under_way = run.state.under_way
    return [p for p in run.state.pending if p.kind is EffectKind.TOOL and p.effect_id not in under_way]
