"""Decides what one fact changes in a run: the events to append, the effects to send, the state that they fold to.

Theory of operation
-------------------

A fact is something that happened outside and was reported to the run: a decision, the outcome of a tool call, a
person's answer to a gate, a timer. Facts come from a queue that delivers at least once and in any order, and the run
may have changed since the fact was made. Therefore every fact is accepted in every state, and each of them does
something only where the run still waits for it. What a fact may do depends on the stage of the run:

                                    RunFinished
        LIVE ───────────────────────────────────────────────────▶ ENDED
         │ ▲
         │ └───────────────────────── CancelRequestedFact ──┐
         │                                              │
         └── ExecutionConflictFact, or a fact that ─────▶ QUARANTINED
             a handler can't apply, or no table store

    LIVE          queued, running, waiting or cancelling: every fact is looked at.
    QUARANTINED   the log and the ledger disagree, or a fact can't be applied or stored: the run does nothing more.
                  It only makes its children stop, and takes a cancel, which accounts for its calls and ends it.
    ENDED         one of the final statuses: nothing is decided any more. The fence is repeated until it is stored,
                  children are asked to stop until they have ended, outcomes are reported to the ledger until it
                  confirms them,
                  and a late answer still corrects what it cost.

Why a repeated fact changes nothing: each handler compares the fact with what is pending in the state. A decision must
answer the pending request, an outcome must be of an open call, a resolution must name an open gate, a child's report
must be newer than the last one. Once the fact is taken, its event has removed that pending effect, so the repeated fact
finds nothing to answer and yields no event. No list of seen facts is needed, and none is kept.

Why a lost fact does not stop a run: whatever is pending has a time at which it is sent again (`resend_at`). `wake_at`
gives the earliest of these times; the orchestrator then sends `TimerFiredFact`, and the effect goes out with its next
attempt number. So nothing here depends on how often, or in which order, facts are delivered.

`HANDLERS` below is the whole machine: which function takes a fact in which stage. A fact that is missing there is a
defect: the lookup raises `KeyError`, and the orchestrator quarantines the run.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_engine.handlers.calls.internal_tools import on_outcome_recorded, on_tool_permitted
from towpath_engine.handlers.calls.switches import on_call_paused
from towpath_engine.handlers.calls.tool_calls import (
    on_call_postponed,
    on_gate_resolved,
    on_quota_changed,
    on_tool_denied,
    on_tool_finished,
)
from towpath_engine.handlers.cancel import on_cancel_requested, on_fence_raised, on_fence_raised_after_end
from towpath_engine.handlers.child_reports import (
    on_child_reported,
    on_child_reported_after_end,
    on_child_reported_in_quarantine,
)
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.decision_answers import correct_usage, on_decision_failed, on_decision_made
from towpath_engine.handlers.fork import on_run_forked
from towpath_engine.handlers.gates import on_approval_required
from towpath_engine.handlers.operator.acts import on_run_steered
from towpath_engine.handlers.quarantine import on_execution_conflict, on_transition_refused
from towpath_engine.handlers.steps import on_run_admitted
from towpath_engine.handlers.stop_checks.budgets import on_budget_applied, on_budget_refused, on_budget_warned
from towpath_engine.handlers.timers import (
    on_message_dead,
    on_timer_fired,
    on_timer_fired_after_end,
    on_timer_fired_in_quarantine,
    on_watchdog_reported,
)
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.iterations import iteration_due
from towpath_engine.requests.effects import OutgoingEffect, message_of, store_text
from towpath_engine.state.run import RunState, Status

Handler = Callable[[TransitionBuilder, Any], None]


class StageHandlers(NamedTuple):
    """Which handler takes a fact in each stage of a run; None where the fact means nothing in that stage."""

    live: Handler
    ended: Handler | None = None
    quarantined: Handler | None = None


HANDLERS: dict[type, StageHandlers] = {
    # the run itself
    facts.RunAdmittedFact: StageHandlers(on_run_admitted),
    facts.RunForkedFact: StageHandlers(on_run_forked),
    facts.CancelRequestedFact: StageHandlers(on_cancel_requested, quarantined=on_cancel_requested),
    facts.FenceRaisedFact: StageHandlers(on_fence_raised, ended=on_fence_raised_after_end),
    facts.ExecutionConflictFact: StageHandlers(on_execution_conflict),
    facts.TransitionRefusedFact: StageHandlers(on_transition_refused),
    # answers of the decider
    facts.DecisionMadeFact: StageHandlers(on_decision_made, ended=correct_usage),
    facts.DecisionFailedFact: StageHandlers(on_decision_failed, ended=correct_usage),
    # tool calls
    facts.InternalToolPermittedFact: StageHandlers(on_tool_permitted),
    facts.ToolFinishedFact: StageHandlers(on_tool_finished),
    facts.ToolDeniedFact: StageHandlers(on_tool_denied),
    facts.InternalOutcomeRecordedFact: StageHandlers(on_outcome_recorded, ended=on_outcome_recorded),
    facts.CallPausedFact: StageHandlers(on_call_paused),
    facts.CallPostponedFact: StageHandlers(on_call_postponed),
    facts.QuotaChangedFact: StageHandlers(on_quota_changed),
    # people
    facts.ApprovalRequiredFact: StageHandlers(on_approval_required),
    facts.GateResolvedFact: StageHandlers(on_gate_resolved),
    facts.RunSteeredFact: StageHandlers(on_run_steered),
    # child runs
    facts.ChildReportedFact: StageHandlers(
        on_child_reported, ended=on_child_reported_after_end, quarantined=on_child_reported_in_quarantine
    ),
    # time, the watchdog, messages that could not be handled
    facts.TimerFiredFact: StageHandlers(
        on_timer_fired, ended=on_timer_fired_after_end, quarantined=on_timer_fired_in_quarantine
    ),
    facts.WatchdogReportedFact: StageHandlers(on_watchdog_reported),
    facts.MessageDeadFact: StageHandlers(on_message_dead),
    # budgets
    facts.BudgetAccountsAppliedFact: StageHandlers(on_budget_applied),
    facts.BudgetRefusedFact: StageHandlers(on_budget_refused),
    facts.BudgetWarnedFact: StageHandlers(on_budget_warned),
}


def advance(
    state: RunState, fact: facts.AnyFact, now: datetime
) -> tuple[tuple[ev.LogEntry, ...], tuple[OutgoingEffect, ...], RunState]:
    """Return what *fact* makes of the run: its events in order, the effects to send, and the state they fold to.

    A duplicate or stale fact, and a fact of another run, yields no event and no effect.
    """
    transition = TransitionBuilder(state=state, now=now)
    if fact.run_id == state.run_id:
        handler = _handler(state, fact)
        if handler is not None:
            handler(transition, fact)
    after = transition.state
    effects = tuple(
        message_of(after, pending) for pending in after.pending if pending.effect_id in transition.effect_ids
    )
    stored = tuple(store_text(after, digest, text, now) for digest, text in transition.stored.items())
    return tuple(transition.entries), (*stored, *effects) if stored else effects, after


def _handler(state: RunState, fact: facts.AnyFact) -> Handler | None:
    on = HANDLERS[type(fact)]
    if state.is_final:
        return on.ended
    return on.quarantined if state.status is Status.QUARANTINED else on.live


def wake_at(state: RunState) -> datetime | None:
    """Return when the run needs its next `TimerFiredFact`: the earliest resend, gate expiry or deadline.

    A timer at that time always changes the run, so the orchestrator never wakes it in vain.
    """
    if state.status in (Status.NEW, Status.QUEUED):
        return None
    if state.status is Status.QUARANTINED:
        return min((child.resend_at for child in pending_children(state)), default=None)
    unasked = state.unasked
    times = [pending.resend_at for pending in state.pending if pending.effect_id not in unasked]
    times += [gate.expires_at for gate in state.gates]
    deadline = state.active_deadline()
    asks_about_time = any(gate.key == OUT_OF_TIME for gate in state.gates)
    if deadline is not None and state.status is Status.RUNNING and not asks_about_time:
        times.append(deadline)
    if state.background is not None and (due := iteration_due(state)) is not None:
        times.append(due)
    return min(times) if times else None
