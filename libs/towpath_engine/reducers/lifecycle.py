"""Applies the events that begin, cancel, quarantine and end a run, and those about its fence and its resends.

The fence is a number at the tool-access service below which no call of the run may start any more. A run that is
cancelled or ends raises it, and keeps it pending until the service has stored it: only then is it certain that nothing
of the run happens later.
"""

from datetime import datetime, timedelta

from towpath_contracts.events import log as ev
from towpath_contracts.ids import effect_id
from towpath_engine.reducers.calls import call_deadline
from towpath_engine.reducers.children import resend_stop_soon
from towpath_engine.reducers.loops.inheritance import inherited_detectors
from towpath_engine.reducers.plan import with_plan_or_swarm
from towpath_engine.reducers.workspace import initial_workspace, unconfirmed_outcomes
from towpath_engine.state.background import BackgroundRunState
from towpath_engine.state.epoch_turns import KeptEpochTurns
from towpath_engine.state.goal import GoalState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import EffectKind, PendingEffect, RunState, Status, StepCall

FENCE_RESEND_S = 2
"""First resend of a fence that is not confirmed, or below which calls are still running."""

ROOT_ONLY_QUEUE = "*"
"""The queue of a script that every agent may play from. A child run plays only its own agent's queue."""

NO_ENTRY_LEFT = 2**31 - 1
"""Position in a script queue that is behind its last entry."""

AWAITED_KINDS = frozenset({EffectKind.TOOL, EffectKind.CHILD})
"""What a cancelled run waits for."""

KINDS_KEPT_IN_QUARANTINE = frozenset({EffectKind.TOOL, EffectKind.OUTCOME, EffectKind.CHILD})
"""What a quarantined run still owes the ledger, or must still learn from it and from its children."""


def apply_run_created(state: RunState, event: ev.RunCreated, at: datetime) -> RunState:
    created = replace(
        state,
        task=event,
        status=Status.QUEUED,
        agent_key=event.agent_key,
        created_at=at,
        goal=None if event.goal is None else GoalState(),
        background=None if event.background is None else BackgroundRunState(),
        desk=initial_workspace(event.workspace, at),
        detectors=inherited_detectors(event.detectors),
        epoch_turns=KeptEpochTurns() if event.epoch_turns else None,
        cursors=event.cursors if event.parent is None else {**event.cursors, ROOT_ONLY_QUEUE: NO_ENTRY_LEFT},
    )
    return with_plan_or_swarm(created, event)


def apply_run_started(state: RunState, _event: ev.RunStarted, at: datetime) -> RunState:
    return replace(state, status=Status.RUNNING, started_at=at)


def apply_effect_resent(state: RunState, event: ev.EffectResent, at: datetime) -> RunState:
    """Return the state with one more attempt; a call that was postponed has its whole time from here on."""
    pending = tuple(
        replace(
            p,
            attempt=event.attempt,
            resend_at=event.resend_at,
            deadline=_postponed_deadline(state, p, at) if p.postponed else p.deadline,
            dead=p.dead + bool(event.dead),
            postponed=False,
            withheld=False,
        )
        if p.effect_id == event.effect_id
        else p
        for p in state.pending
    )
    return replace(state, pending=pending)


def apply_cancel_accepted(state: RunState, event: ev.CancelAccepted, at: datetime) -> RunState:
    kept = (effect for effect in state.pending if effect.kind is not EffectKind.DECIDE)
    pending = tuple(resend_stop_soon(p, at) for p in kept)
    if pending:
        pending = (*pending, _fence_effect(state, at, event.fence))
    return replace(
        state,
        status=Status.CANCELLING,
        fence=event.fence,
        pending=pending,
        gates=(),
        cancelled_by=event.by,
        cancel_reason=event.reason if event.in_answer else "",
    )


def apply_run_quarantined(state: RunState, event: ev.RunQuarantined, at: datetime) -> RunState:
    """Keep what a later cancel must account for; children are dropped when the run is quarantined a second time.

    The second quarantine means that the run can't apply what its children report, so it can't wait for them either.
    """
    second = state.status is Status.QUARANTINED
    kept = [
        p for p in state.pending if p.kind in KINDS_KEPT_IN_QUARANTINE and not (second and p.kind is EffectKind.CHILD)
    ]
    pending = tuple(resend_stop_soon(p, at) for p in kept)
    return replace(state, status=Status.QUARANTINED, reason=event.code, pending=pending, gates=())


def apply_fence_stored(state: RunState, event: ev.FenceStored, at: datetime) -> RunState:
    """Settle the calls that were voided. While others are open the fence stays pending, and asks again about them.

    After the end of the run nothing but the fence asks about a call that still runs: its answer settles the call of a
    worker that died.
    """
    voided = set(event.voided)
    calls = tuple(_void(c) if c.call.execution_id in voided else c for c in state.calls)
    kept = tuple(p for p in state.pending if p.effect_id not in voided)
    children = tuple(p for p in kept if p.kind is EffectKind.CHILD)
    waits = bool(event.live) if state.is_final else any(p.kind in AWAITED_KINDS for p in kept)
    return replace(
        state,
        calls=calls,
        pending=kept if waits else (*children, *unconfirmed_outcomes(state)),
        fence_stored=event.fence,
        fence_stored_at=at,
        fence_live=event.live,
    )


def apply_run_finished(state: RunState, event: ev.RunFinished, at: datetime) -> RunState:
    """Keep pending only what must still be delivered: the fence, children that must stop, outcomes for the ledger.

    The fence stays where it is not stored yet, or where calls are open or may still be running.
    """
    keeps_fence = state.fence_stored < event.fence or _may_have_live_calls(state)
    pending = tuple(p for p in state.pending if p.kind is EffectKind.FENCE and keeps_fence)
    if any(not call.status for call in state.calls) and event.fence > state.fence:
        pending = (_fence_effect(state, at, event.fence),)
    children = [p for p in state.pending if p.kind is EffectKind.CHILD]
    pending += tuple(resend_stop_soon(p, at) for p in children)
    pending += unconfirmed_outcomes(state)
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


def _postponed_deadline(state: RunState, pending: PendingEffect, at: datetime) -> datetime | None:
    call = state.open_call(pending.effect_id)
    return pending.deadline if call is None else call_deadline(state, call.call.tool, at)


def _fence_effect(state: RunState, at: datetime, fence: int) -> PendingEffect:
    return PendingEffect(
        effect_id=effect_id(state.run_id, f"fence:{fence}"),
        kind=EffectKind.FENCE,
        attempt=1,
        resend_at=at + timedelta(seconds=FENCE_RESEND_S),
    )


def _void(call: StepCall) -> StepCall:
    return call if call.status else replace(call, status="void", outcome="did_not_happen")


def _may_have_live_calls(state: RunState) -> bool:
    unsettled = {c.call.execution_id for c in state.calls if c.status in ("", "unknown")}
    return not unsettled.isdisjoint(state.fence_live)
