"""Takes the decider's answers: a decision, or why there is none.

An answer counts only for the request that is pending, and only from the pool that was asked. Agents in user code have
pools of their own, by project and name: none of them can answer for another.
"""

from towpath_contracts import facts
from towpath_contracts.canonical import json_safe
from towpath_contracts.decisions.request import CALL_LOST, CALL_UNASKED, DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.subjects import DEFAULT_POOL, pool_of
from towpath_engine.handlers.finish import end_with_error
from towpath_engine.handlers.phases import after_act, take_assessment, take_unreadable_assessment
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.steps import after_decision, resend_decision
from towpath_engine.handlers.stop_checks.budgets import attempt_of, correct_usage, stop_without_budget
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.effects import model_for
from towpath_engine.state.run import ACTION_KINDS, EffectKind

__all__ = ["correct_usage", "on_decision_failed", "on_decision_made"]


def on_decision_made(t: TransitionBuilder, fact: facts.DecisionMade) -> None:
    if not _is_awaited(t, fact):
        correct_usage(t, fact)
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
            answered=attempt_of(t.state, fact),
        )
    )
    if stop_at_deadline(t):
        return
    kind = DecisionKind(t.state.asked)
    if str(kind) not in ACTION_KINDS:
        take_assessment(t, kind, decision)
        return
    if decision is not fact.decision:
        feedback = "The decision holds a number that JSON has no word for (NaN, infinity)."
        goes_on = resend_decision(t, "decision_invalid", feedback)
    else:
        goes_on = after_decision(t, decision)
    if goes_on:
        after_act(t)


def on_decision_failed(t: TransitionBuilder, fact: facts.DecisionFailed) -> None:
    if not _is_awaited(t, fact):
        correct_usage(t, fact)
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
            answered=attempt_of(t.state, fact),
        )
    )
    if stop_at_deadline(t):
        return
    if fact.code == "invalid_output" and t.state.asked not in ACTION_KINDS:
        take_unreadable_assessment(t, DecisionKind(t.state.asked))
    elif fact.code == "invalid_output":
        if resend_decision(t, fact.code, f"Your last answer was not a valid decision: {fact.message}"):
            after_act(t)
    else:
        end_with_error(t, fact.code, fact.message)


def _is_awaited(t: TransitionBuilder, fact: facts.DecisionMade | facts.DecisionFailed) -> bool:
    pending = t.state.pending_effect(fact.request_id)
    if pending is None or pending.kind is not EffectKind.DECIDE:
        return False
    pool = pool_of(model_for(t.state, DecisionKind(t.state.asked)), t.state.created.project)
    return fact.pool == ("" if pool == DEFAULT_POOL else pool)


def _ask_anew(t: TransitionBuilder, fact: facts.DecisionFailed) -> None:
    """Send the request again: this attempt has no answer. The next one reserves its budget anew.

    An attempt that never reached a model (`CALL_UNASKED`) was not paid either: what it reserved is given back.
    """
    pending = t.state.pending_effect(fact.request_id)
    if pending is not None and pending.attempt == fact.attempt and not stop_without_budget(t):
        resend(t, pending)
        if fact.code == CALL_UNASKED:
            correct_usage(t, fact)
