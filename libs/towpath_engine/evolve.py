"""What one event makes of the state: the remembering half of the machine.

Total and blind. Every event is applied as it stands, whether or not `advance` would emit it now; decisions are
made elsewhere. One `match` says all there is.
"""

from datetime import datetime, timedelta
from typing import Any

from towpath_contracts.decisions.decision import CallTools
from towpath_contracts.events import log as ev
from towpath_contracts.ids import effect_id
from towpath_contracts.text import as_text, truncate
from towpath_engine.reducers.background import background_after
from towpath_engine.reducers.budget import accounted, added_up
from towpath_engine.reducers.calls import close_call, edit_call, open_calls
from towpath_engine.reducers.children import child_remembers, told_again
from towpath_engine.reducers.conversation import conversed
from towpath_engine.reducers.fork import taken_over
from towpath_engine.reducers.gates import gate_closed, gate_opened
from towpath_engine.reducers.goal import goal_after
from towpath_engine.reducers.loop_counters import acted_on, after_handoff, after_refusal, after_validation
from towpath_engine.reducers.loop_inheritance import begun_with
from towpath_engine.reducers.plan import begun, composition_remembers
from towpath_engine.reducers.watchdog import report_taken, told
from towpath_engine.reducers.workspace import desk_remembers, mounted, outcome_confirmed, outcome_owed, owed_outcomes
from towpath_engine.state.background import BackgroundState
from towpath_engine.state.goal import GoalState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import LOG_TAIL, EffectKind, OpenCall, PendingEffect, RunState, Status
from towpath_readings.execution_log import REASONING_CHARS, agent_entry

FENCE_RESEND_S = 2
"""Resend of a fence until no claim lives any more."""

ACTING = frozenset({"decide", "replan"})
"""Kinds of requests that are answered by a decision; every other kind judges the last one."""

COMMON_QUEUE = "*"
NEVER = 2**31 - 1
"""A child plays only what a script says for its own agent: the common queue is its root's."""

DECIDE_GRACE_S = 15
"""Added to the step's model timeout to give the decider's lease."""


def evolve(state: RunState, entry: "ev.LogEntry") -> RunState:
    """Return the state after *entry*, with its seq and its active time brought up to date."""
    changed = _apply(state, entry.event, entry.at)
    if changed.budget is not None or isinstance(entry.event, ev.BudgetApplied):
        changed = replace(changed, budget=accounted(state, changed, entry.event))
    if changed.background is not None:
        changed = replace(
            changed, background=background_after(state, changed, changed.background, entry.event, entry.at)
        )
    if changed.goal is not None:
        changed = replace(changed, goal=goal_after(state, changed, changed.goal, entry.event))
    if changed.swarm is not None:
        changed = replace(changed, swarm=conversed(state, changed, changed.swarm, entry.event))
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
            return begun(_created(state, event, at), event)
        case ev.RunForked():
            return taken_over(state, event)
        case ev.RunStarted():
            return replace(state, status=Status.RUNNING, started_at=at)
        case ev.DecisionRequested():
            return _decision_requested(state, event, at)
        case ev.BackedOff():
            return replace(state, backoff_until=event.until)
        case ev.DecisionReceived():
            return _decision_received(state, event)
        case ev.DecisionMissed():
            return _decision_missed(state, event)
        case ev.DecisionRefused():
            return _decision_refused(state, event)
        case ev.InstructionIssued():
            return open_calls(state, event.instruction, at) if isinstance(event.instruction, CallTools) else state
        case ev.ToolCallEdited():
            return edit_call(state, event)
        case ev.ToolCallFinished():
            return outcome_owed(close_call(state, event, at), event, at)
        case ev.ToolCallDenied():
            return close_call(state, event, at)
        case ev.PlanChanged() | ev.WorkspaceChanged():
            return desk_remembers(state, event, at)
        case ev.OutcomeRecorded():
            return outcome_confirmed(state, event)
        case ev.AgentTransferred():
            return _transferred(state, event)
        case ev.GateOpened():
            return gate_opened(state, event, at)
        case ev.GateClosed():
            return gate_closed(state, event, at)
        case ev.LoopDetected():
            return replace(state, detectors=acted_on(state.detectors, event.detector, event.signature, event.action))
        case ev.WatchdogReported():
            return report_taken(state, event)
        case ev.NoteAdded():
            noted = replace(_tail(state, _system(event.step, event.text)), notes=(*state.notes, event.text))
            return told(noted, event.text)
        case ev.StepValidated():
            return replace(state, detectors=after_validation(state.detectors, event))
        case ev.HelpSought() | ev.ProgressMeasured() | ev.ConfidenceMeasured():
            return state  # what becomes of the goal is told in `goal_remember`
        case ev.Reflected() | ev.Summarized() | ev.RunConcluding() | ev.DeliverableRefused():
            return state  # what becomes of the objective is told in `background_remember`
        case ev.IterationStarted() | ev.IterationCompleted() | ev.Terminated():
            return state
        case ev.UsageCorrected():
            return _counted(state, event)
        case ev.BudgetApplied() | ev.BudgetRefused() | ev.BudgetWarned():
            return state  # what becomes of the accounts is told in `accounting`
        case ev.ChildStarted() | ev.ChildWaits() | ev.ChildEnded() | ev.ChildStopped():
            return child_remembers(state, event, at)
        case ev.PlanMoved() | ev.PlanAccepted() | ev.PlanStepStarted() | ev.PlanStepEnded() | ev.HandedOff():
            return composition_remembers(state, event, at)
        case ev.EffectResent():
            return _resent(state, event)
        case ev.CancelAccepted():
            return _cancel_accepted(state, event, at)
        case ev.FenceStored():
            return _fence_stored(state, event, at)
        case ev.RunQuarantined():
            return _quarantined(state, event, at)
        case ev.RunFinished():
            return _finished(state, event, at)


def _created(state: RunState, event: "ev.RunCreated", at: datetime) -> RunState:
    return replace(
        state,
        task=event,
        status=Status.QUEUED,
        agent_key=event.agent_key,
        created_at=at,
        goal=None if event.goal is None else GoalState(),
        background=None if event.background is None else BackgroundState(),
        desk=mounted(event.workspace, at),
        detectors=begun_with(event.detectors),
        cursors=event.cursors if event.parent is None else {**event.cursors, COMMON_QUEUE: NEVER},
    )


def _system(step: int, text: str) -> dict[str, Any]:
    return {"type": "system", "step": step, "text": truncate(text, REASONING_CHARS)}


def _tail(state: RunState, entry: dict[str, Any]) -> RunState:
    return replace(state, log_tail=(*state.log_tail, entry)[-LOG_TAIL:])


def _without(state: RunState, kind: EffectKind) -> tuple[PendingEffect, ...]:
    return tuple(effect for effect in state.pending if effect.kind is not kind)


def _decision_requested(state: RunState, event: "ev.DecisionRequested", at: datetime) -> RunState:
    lease = timedelta(milliseconds=state.created.step_timeout_ms, seconds=DECIDE_GRACE_S)
    acts = event.kind in ACTING
    until = state.backoff_until
    pending = PendingEffect(
        effect_id=event.request_id,
        kind=EffectKind.DECIDE,
        attempt=1 if until is None else 0,  # the timer's resend is its first attempt
        resend_at=at + lease if until is None else until,
        fence=state.fence,
    )
    asked = replace(
        state,
        step=event.step,
        requests=state.requests + 1,
        pending=(*state.pending, pending),
        input_preview=event.input_preview,
        asked=event.kind,
        unanswered=False,
        backoff_until=None,
        detectors=replace(state.detectors, replan=False) if state.detectors.replan and acts else state.detectors,
    )
    if acts:
        return replace(asked, calls=(), assessed=(), children=state.children if event.step == state.step else ())
    return replace(asked, assessed=(*state.assessed, event.kind))


def _answered(state: RunState, event: "ev.DecisionReceived | ev.DecisionMissed") -> RunState:
    """Nothing is asked any more; what the answer cost, and the script entry it played, are counted."""
    played = {} if event.script is None else {event.script.queue: event.script.index + 1}
    return replace(
        _counted(state, event),
        pending=_without(state, EffectKind.DECIDE),
        cursors={**state.cursors, **played},
    )


def _counted(state: RunState, event: "ev.DecisionReceived | ev.DecisionMissed | ev.UsageCorrected") -> RunState:
    usage, cost = added_up(state.usage, state.cost, event)
    return replace(state, usage=usage, cost=cost)


def _decision_received(state: RunState, event: "ev.DecisionReceived") -> RunState:
    if state.asked not in ACTING:
        return _answered(state, event)
    state = _tail(_answered(state, event), agent_entry(event, state.input_preview))
    return replace(state, feedback=(), notes=(), handoff=None, handoff_from=None)


def _decision_missed(state: RunState, event: "ev.DecisionMissed") -> RunState:
    return _tail(_answered(state, event), _system(event.step, f"{event.code}: {event.message}"))


def _decision_refused(state: RunState, event: "ev.DecisionRefused") -> RunState:
    state = _tail(state, _system(event.step, event.feedback))
    counted = after_refusal(state.detectors, event.code, event.feedback, event.step)
    return replace(state, feedback=(*state.feedback, event.feedback), detectors=counted)


def _transferred(state: RunState, event: "ev.AgentTransferred") -> RunState:
    context = None if event.context is None else as_text(event.context)
    state = replace(state, detectors=after_handoff(state.detectors, event))
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


def _resent(state: RunState, event: "ev.EffectResent") -> RunState:
    pending = tuple(
        replace(p, attempt=event.attempt, resend_at=event.resend_at, dead=p.dead + bool(event.dead))
        if p.effect_id == event.effect_id
        else p
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
    pending = tuple(told_again(p, at) for p in _without(state, EffectKind.DECIDE))
    if pending:
        pending = (*pending, fence_effect(state, at, event.fence))
    return replace(state, status=Status.CANCELLING, fence=event.fence, pending=pending, gates=(), cancelled_by=event.by)


AWAITED = frozenset({EffectKind.TOOL, EffectKind.CHILD})
"""What a cancelled run waits for."""


KEPT = frozenset({EffectKind.TOOL, EffectKind.OUTCOME, EffectKind.CHILD})
"""What a parked run still owes the ledger, or has to hear from it and from its children."""


def _quarantined(state: RunState, event: "ev.RunQuarantined", at: datetime) -> RunState:
    """A cancel must account for what is kept. A run that is parked anew can't hear its children: they are left."""
    anew = state.status is Status.QUARANTINED
    kept = [p for p in state.pending if p.kind in KEPT and not (anew and p.kind is EffectKind.CHILD)]
    pending = tuple(told_again(p, at) for p in kept)
    return replace(state, status=Status.QUARANTINED, reason=event.code, pending=pending, gates=())


def _unfinished(state: RunState) -> bool:
    return any(not call.status for call in state.calls)


def _void(call: OpenCall) -> OpenCall:
    return call if call.status else replace(call, status="void", outcome="did_not_happen")


def _fence_stored(state: RunState, event: "ev.FenceStored", at: datetime) -> RunState:
    """What was voided is settled; the fence stays pending while calls are, to hear when they stop living.

    After the end nobody but the fence asks about a call that lives: its answer is what settles a worker that died.
    """
    voided = set(event.voided)
    calls = tuple(_void(c) if c.call.execution_id in voided else c for c in state.calls)
    kept = tuple(p for p in state.pending if p.effect_id not in voided)
    children = tuple(p for p in kept if p.kind is EffectKind.CHILD)
    waits = bool(event.live) if state.is_final else any(p.kind in AWAITED for p in kept)
    return replace(
        state,
        calls=calls,
        pending=kept if waits else (*children, *owed_outcomes(state)),
        fence_stored=event.fence,
        fence_stored_at=at,
        fence_live=event.live,
    )


def _may_live(state: RunState) -> bool:
    unsettled = {c.call.execution_id for c in state.calls if c.status in ("", "unknown")}
    return not unsettled.isdisjoint(state.fence_live)


def _finished(state: RunState, event: "ev.RunFinished", at: datetime) -> RunState:
    """Nothing is pending any more but the fence: where it is not stored yet, or calls were left open or may live."""
    insists = state.fence_stored < event.fence or _may_live(state)
    pending = tuple(p for p in state.pending if p.kind is EffectKind.FENCE and insists)
    if _unfinished(state) and event.fence > state.fence:
        pending = (fence_effect(state, at, event.fence),)
    children = [p for p in state.pending if p.kind is EffectKind.CHILD]
    pending += tuple(told_again(p, at) for p in children)  # told to stop until they have ended
    pending += owed_outcomes(state)
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
