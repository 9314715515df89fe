"""Takes what says that time has passed or that something is stuck: timers, watchdog reports, undeliverable messages.

Each of them can only send again what is pending, or end the run; none of them carries news about the run itself.
"""

from towpath_contracts import facts
from towpath_engine.handlers.calls.internal_tools import resend_unconfirmed_outcomes
from towpath_engine.handlers.calls.tool_calls import expire_gates
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
"""Messages of one pending effect that nobody can handle before the run is ended."""


def on_timer_fired(t: TransitionBuilder, _fact: facts.TimerFired) -> None:
    _look_at_what_is_due(t)


def on_timer_fired_after_end(t: TransitionBuilder, _fact: facts.TimerFired) -> None:
    _resend_to_children(t)
    resend_fence(t)
    resend_unconfirmed_outcomes(t)


def on_timer_fired_in_quarantine(t: TransitionBuilder, _fact: facts.TimerFired) -> None:
    _resend_to_children(t)


def on_watchdog_reported(t: TransitionBuilder, fact: facts.WatchdogReported) -> None:
    if take_report(t, fact):
        _look_at_what_is_due(t)


def on_message_dead(t: TransitionBuilder, fact: facts.MessageDead) -> None:
    """Send once more what nobody could handle; end a run whose message is undeliverable again and again.

    A single damaged or forged copy so costs one repeat and no run. A report that names nothing pending, or an attempt
    that was sent again since, changes nothing. A report about a request for a decision counts only for a pending
    decision and in its current attempt, so it counts once for each attempt.
    """
    pending = t.state.pending_effect(fact.effect_id) if fact.effect_id is not None else None
    if t.state.status is Status.CANCELLING or pending is None or fact.attempt not in (0, pending.attempt):
        return
    if fact.stream == DECISION_REQUESTS and (pending.kind is not EffectKind.DECIDE or fact.attempt < 1):
        return
    if pending.dead + 1 >= MAX_DEAD:
        end_with_error(t, "dead_lettered", f"a message of {fact.stream} can't be handled: {fact.reason}")
    elif not _stops_before_asking(t, pending):
        resend(t, pending, dead=f"{fact.stream}: {fact.reason}")


def _look_at_what_is_due(t: TransitionBuilder) -> None:
    if t.state.status is Status.CANCELLING:
        give_up_late_calls(t)
    elif stop_at_deadline(t):
        return
    else:
        ask_at_deadline(t)
    expire_gates(t)
    unasked = t.state.unasked
    for pending in t.state.pending:
        if pending.resend_at <= t.now and pending.effect_id not in unasked and not _stops_before_asking(t, pending):
            resend(t, pending)


def _stops_before_asking(t: TransitionBuilder, pending: PendingEffect) -> bool:
    """End a run that would have to ask a model once more and has no budget for it; return whether it ended."""
    return pending.kind is EffectKind.DECIDE and stop_without_budget(t)


def _resend_to_children(t: TransitionBuilder) -> None:
    for child in pending_children(t.state):
        if child.resend_at <= t.now:
            resend(t, child)
