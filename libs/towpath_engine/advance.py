"""What a fact makes of a run: the deciding half of the machine.

Any fact in any state returns. A duplicate or stale fact yields no event; what is still pending is sent again by
its own `resend_at`, so nothing here depends on the order or number of deliveries.
"""

from datetime import datetime
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.canonical import json_safe
from towpath_contracts.decisions.request import CALL_LOST, CALL_UNASKED, DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_contracts.subjects import DEFAULT_POOL, pool_of
from towpath_engine.evolve import ACTING
from towpath_engine.handlers.calls.internal_tools import insist_on_outcomes, outcome_recorded, tool_permitted
from towpath_engine.handlers.calls.switches import call_paused
from towpath_engine.handlers.calls.tool_calls import expire_gates, gate_resolved, tool_denied, tool_finished
from towpath_engine.handlers.cancel import (
    after_the_end,
    cancel_requested,
    fence_raised,
    finish_if_quiet,
    give_up_late_calls,
)
from towpath_engine.handlers.children import child_told, pending_children
from towpath_engine.handlers.finish import end_with_error, stopped_by_deadline
from towpath_engine.handlers.fork import forked
from towpath_engine.handlers.gates import approval_required, close_all
from towpath_engine.handlers.phases import after_act, assessed, missed
from towpath_engine.handlers.quarantine import quarantine, while_parked
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.steps import after_decision, begin_step, resend_decision
from towpath_engine.handlers.stop_checks.budgets import (
    answer_of,
    budget_applied,
    budget_refused,
    budget_warned,
    late_answer,
    stopped_by_budget,
)
from towpath_engine.handlers.stop_checks.deadline import stopped_by_time
from towpath_engine.handlers.stop_checks.watchdog import watchdog_reported
from towpath_engine.handlers.swarm.delegate import child_of_call_ended
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.iterations import iteration_due
from towpath_engine.requests.effects import Effect, message_of, model_for, store_text
from towpath_engine.state.run import EffectKind, PendingEffect, RunState, Status

OF_DECISIONS = "DECIDE"
"""The stream of requests for decisions, whose reader reports what it can't read."""

MAX_DEAD = 3
"""Messages of one pending effect that nobody can handle before the run is ended."""


def advance(
    state: RunState, fact: facts.AnyFact, now: datetime
) -> tuple[tuple["ev.LogEntry", ...], tuple[Effect, ...], RunState]:
    """Return what *fact* makes of the run: its events in order, the effects to send, and the state they fold to.

    A duplicate or stale fact, and a fact of another run, yields no event and no effect.
    """
    transition = TransitionBuilder(state=state, now=now)
    if fact.run_id == state.run_id:
        _dispatch(transition, fact)
    after = transition.state
    effects = tuple(message_of(after, pending) for pending in after.pending if pending.effect_id in transition.send)
    stored = tuple(store_text(after, digest, text, now) for digest, text in transition.stored.items())
    return tuple(transition.entries), (*stored, *effects) if stored else effects, after


def wake_at(state: RunState) -> datetime | None:
    """When the reconciler must look at the run again: the earliest resend, gate expiry or deadline.

    A `timer.fired` at that time always moves it forward.
    """
    if state.status in (Status.NEW, Status.QUEUED):
        return None
    if state.status is Status.QUARANTINED:
        return min((child.resend_at for child in pending_children(state)), default=None)
    unasked = state.unasked
    times = [pending.resend_at for pending in state.pending if pending.effect_id not in unasked]
    times += [gate.expires_at for gate in state.gates]
    deadline = state.active_deadline()
    asked = any(gate.key == OUT_OF_TIME for gate in state.gates)
    if deadline is not None and state.status is Status.RUNNING and not asked:
        times.append(deadline)
    if state.background is not None and (due := iteration_due(state)) is not None:
        times.append(due)
    return min(times) if times else None


def _dispatch(t: TransitionBuilder, fact: facts.AnyFact) -> None:  # noqa: C901 - one table of facts
    if t.state.is_final:
        if isinstance(fact, facts.FenceRaised | facts.TimerFired | facts.ChildReported):
            after_the_end(t, fact)
        elif isinstance(fact, facts.DecisionMade | facts.DecisionFailed):
            late_answer(t, fact)
        elif isinstance(fact, facts.OutcomeRecorded):
            outcome_recorded(t, fact)
        if isinstance(fact, facts.TimerFired):
            insist_on_outcomes(t)
        return
    if t.state.status is Status.QUARANTINED and not isinstance(fact, facts.CancelRequested):
        while_parked(t, fact)
        return
    match fact:
        case facts.RunAdmitted():
            _admitted(t)
        case facts.RunForked():
            forked(t, fact)
        case facts.DecisionMade():
            _decision_made(t, fact)
        case facts.DecisionFailed():
            _decision_failed(t, fact)
        case facts.ToolFinished():
            tool_finished(t, fact)
        case facts.ToolPermitted():
            tool_permitted(t, fact)
        case facts.OutcomeRecorded():
            outcome_recorded(t, fact)
        case facts.ToolDenied():
            tool_denied(t, fact)
        case facts.ApprovalRequired():
            approval_required(t, fact)
        case facts.CallPaused():
            call_paused(t, fact)
        case facts.GateResolved():
            gate_resolved(t, fact)
        case facts.ExecutionConflict():
            _conflict(t, fact)
        case facts.TimerFired():
            _timer_fired(t)
        case facts.CancelRequested():
            cancel_requested(t, fact)
        case facts.FenceRaised():
            fence_raised(t, fact)
        case facts.ChildReported():
            _child_told(t, fact)
        case facts.WatchdogReported():
            if watchdog_reported(t, fact):
                _timer_fired(t)
        case facts.MessageDead():
            _message_dead(t, fact)
        case facts.BudgetApplied():
            budget_applied(t, fact)
        case facts.BudgetRefused():
            budget_refused(t, fact)
        case facts.BudgetWarned():
            budget_warned(t, fact)


def _admitted(t: TransitionBuilder) -> None:
    if t.state.status is Status.QUEUED:
        t.emit(ev.RunStarted())
        begin_step(t)


def _child_told(t: TransitionBuilder, fact: facts.ChildTold) -> None:
    """When the last child of the step has ended the run goes on, or its cancel is complete."""
    if not child_told(t, fact):
        return
    _child_ended(t, fact.child_id)
    if t.state.status is Status.CANCELLING:
        finish_if_quiet(t)
    elif not t.state.is_final and not pending_children(t.state) and not stopped_by_deadline(t):
        after_act(t)


def _child_ended(t: TransitionBuilder, child_id: UUID) -> None:
    """A child may be a call of the run's, or of a step that has several. Who is cancelled goes on with neither."""
    child = next(c for c in t.state.children if c.child_id == child_id)
    child_of_call_ended(t, child)
    look = strategy_of(t).child_ended
    if look is not None and t.state.status in (Status.RUNNING, Status.WAITING) and not stopped_by_deadline(t):
        look(t, child_id)


def _is_awaited(t: TransitionBuilder, fact: facts.DecisionMade | facts.DecisionFailed) -> bool:
    """Only a request for a decision can be answered by one, and only by whom it was sent to.

    Agents in user code have pools of their own, by project and name: what one says of another's request is nothing.
    """
    pending = t.state.pending_effect(fact.request_id)
    if pending is None or pending.kind is not EffectKind.DECIDE:
        return False
    pool = pool_of(model_for(t.state, DecisionKind(t.state.asked)), t.state.created.project)
    return fact.pool == ("" if pool == DEFAULT_POOL else pool)


def _decision_made(t: TransitionBuilder, fact: facts.DecisionMade) -> None:
    if not _is_awaited(t, fact):
        late_answer(t, fact)
        return
    decision = json_safe(fact.decision)
    t.emit(
        ev.DecisionReceived(
            request_id=fact.request_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            kind=t.state.asked,
            decision=decision,
            model=fact.model,
            usage=fact.usage,
            cost=fact.cost,
            duration_ms=fact.duration_ms,
            prompt_digest=fact.prompt_digest,
            raw_digest=fact.raw_digest,
            script=fact.script,
            answered=answer_of(t.state, fact),
        )
    )
    if stopped_by_deadline(t):
        return
    kind = DecisionKind(t.state.asked)
    if str(kind) not in ACTING:
        assessed(t, kind, decision)
        return
    if decision is not fact.decision:
        said = "The decision holds a number that JSON has no word for (NaN, infinity)."
        walk = resend_decision(t, "decision_invalid", said)
    else:
        walk = after_decision(t, decision)
    if walk:
        after_act(t)


def _decision_failed(t: TransitionBuilder, fact: facts.DecisionFailed) -> None:
    if not _is_awaited(t, fact):
        late_answer(t, fact)
        return
    if fact.code in (CALL_LOST, CALL_UNASKED):
        _ask_anew(t, fact)
        return
    t.emit(
        ev.DecisionMissed(
            request_id=fact.request_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            kind=t.state.asked,
            code=fact.code,
            message=fact.message,
            model=fact.model,
            usage=fact.usage,
            cost=fact.cost,
            duration_ms=fact.duration_ms,
            prompt_digest=fact.prompt_digest,
            raw_digest=fact.raw_digest,
            script=fact.script,
            answered=answer_of(t.state, fact),
        )
    )
    if stopped_by_deadline(t):
        return
    if fact.code == "invalid_output" and t.state.asked not in ACTING:
        missed(t, DecisionKind(t.state.asked))
    elif fact.code == "invalid_output":
        if resend_decision(t, fact.code, f"Your last answer was not a valid decision: {fact.message}"):
            after_act(t)
    else:
        end_with_error(t, fact.code, fact.message)


def _conflict(t: TransitionBuilder, fact: facts.ExecutionConflict) -> None:
    """Park the run: its log and the ledger disagree. A run that is being cancelled ends all the same."""
    if t.state.status is not Status.CANCELLING:
        close_all(t, "the run is quarantined")
        quarantine(t, "execution_conflict", fact.message)


def _timer_fired(t: TransitionBuilder) -> None:
    if t.state.status is Status.CANCELLING:
        give_up_late_calls(t)
    elif stopped_by_deadline(t):
        return
    else:
        stopped_by_time(t)
    expire_gates(t)
    unasked = t.state.unasked
    for pending in t.state.pending:
        if pending.resend_at <= t.now and pending.effect_id not in unasked and not _may_not_ask(t, pending):
            resend(t, pending)


def _message_dead(t: TransitionBuilder, fact: facts.MessageDead) -> None:
    """Say once more what nobody could handle; end a run whose message is dead again and again.

    One copy that was damaged, or made up, so costs a repeat and no run. What names nothing pending, or an attempt
    that was sent again since, leaves the run untouched. A report from the requests for decisions is a word of their
    reader: it counts for a pending decision alone, in its very attempt, and so once for each.
    """
    pending = t.state.pending_effect(fact.effect_id) if fact.effect_id is not None else None
    if t.state.status is Status.CANCELLING or pending is None or fact.attempt not in (0, pending.attempt):
        return
    if fact.stream == OF_DECISIONS and (pending.kind is not EffectKind.DECIDE or fact.attempt < 1):
        return
    if pending.dead + 1 >= MAX_DEAD:
        end_with_error(t, "dead_lettered", f"a message of {fact.stream} can't be handled: {fact.reason}")
    elif not _may_not_ask(t, pending):
        resend(t, pending, dead=f"{fact.stream}: {fact.reason}")


def _may_not_ask(t: TransitionBuilder, pending: PendingEffect) -> bool:
    """End a run that has to ask a model once more and has no budget for it; says whether it did."""
    return pending.kind is EffectKind.DECIDE and stopped_by_budget(t)


def _ask_anew(t: TransitionBuilder, fact: facts.DecisionFailed) -> None:
    """This attempt has no answer; the next one reserves anew. What nobody asked for was not paid either."""
    pending = t.state.pending_effect(fact.request_id)
    if pending is not None and pending.attempt == fact.attempt and not _may_not_ask(t, pending):
        resend(t, pending)
        if fact.code == CALL_UNASKED:
            late_answer(t, fact)
