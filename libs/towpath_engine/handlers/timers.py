"""Takes the facts that time has passed or that something is stuck: timers, watchdog reports, undeliverable messages.

Each of them can only send again what is pending, or end the run; none of them carries news about the run itself.
"""

from towpath_contracts import facts
from towpath_engine.handlers.calls.gate_expiry import expire_gates
from towpath_engine.handlers.calls.internal_tools import resend_unconfirmed_outcomes
from towpath_engine.handlers.cancel import give_up_late_calls, resend_fence
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.finish import end_with_error
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.stop_checks.budgets import stop_without_budget
from towpath_engine.handlers.stop_checks.deadline import ask_at_deadline, stop_at_deadline
from towpath_engine.handlers.stop_checks.watchdog import take_report
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import EffectKind, PendingEffect, Status

DECISION_REQUESTS = "DECIDE"
"""The stream of requests for decisions, whose reader reports what it can't read."""

MAX_DEAD = 3
"""Messages of one pending effect that can't be handled before the run is ended."""


def on_timer_fired(run: TransitionBuilder, _fact: facts.TimerFiredFact) -> None:
    _look_at_what_is_due(run)


def on_timer_fired_after_end(run: TransitionBuilder, _fact: facts.TimerFiredFact) -> None:
    _resend_to_children(run)
    resend_fence(run)
    resend_unconfirmed_outcomes(run)


def on_timer_fired_in_quarantine(run: TransitionBuilder, _fact: facts.TimerFiredFact) -> None:
    _resend_to_children(run)


def on_watchdog_reported(run: TransitionBuilder, fact: facts.WatchdogReportedFact) -> None:
    if take_report(run, fact):
        _look_at_what_is_due(run)


def on_message_dead(run: TransitionBuilder, fact: facts.MessageDeadFact) -> None:
    """Send once more what could not be handled; end a run whose message is undeliverable again and again.

    A single damaged or forged copy so costs one repeat and no run. A report that names nothing pending, or an attempt
    that was sent again since, changes nothing. A report about a request for a decision counts only for a pending
    decision and in its current attempt, so it counts once for each attempt.
    """
    pending = run.state.pending_effect(fact.effect_id) if fact.effect_id is not None else None
    if run.state.status is Status.CANCELLING or pending is None or fact.attempt not in (0, pending.attempt):
        return
    if pending.postponed:
        return  # nothing of it is on its way
    if fact.stream == DECISION_REQUESTS and (pending.kind is not EffectKind.DECIDE or fact.attempt < 1):
        return
    if pending.dead + 1 >= MAX_DEAD:
        end_with_error(run, "dead_lettered", f"a message of {fact.stream} can't be handled: {fact.reason}")
    elif not _stops_before_asking(run, pending):
        resend(run, pending, dead=f"{fact.stream}: {fact.reason}")


def _look_at_what_is_due(run: TransitionBuilder) -> None:
    if run.state.status is Status.CANCELLING:
        give_up_late_calls(run)
    elif stop_at_deadline(run):
        return
    else:
        ask_at_deadline(run)
    expire_gates(run)
    unasked = run.state.unasked
    for pending in run.state.pending:
        if pending.resend_at <= run.now and pending.effect_id not in unasked and not _stops_before_asking(run, pending):
            resend(run, pending)


def _stops_before_asking(run: TransitionBuilder, pending: PendingEffect) -> bool:
    """End a run that would have to ask a model once more and has no budget for it; return whether it ended."""
    return pending.kind is EffectKind.DECIDE and stop_without_budget(run)


def _resend_to_children(run: TransitionBuilder) -> None:
    for child in pending_children(run.state):
        if child.resend_at <= run.now:
            resend(run, child)
