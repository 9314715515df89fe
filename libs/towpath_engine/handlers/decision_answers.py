"""Takes the decider's answers: a decision, or why there is none.

An answer counts only for the request that is pending, and only from the pool that was asked. Agents in user code have
pools of their own, by project and name: none of them can answer for another.

An attempt that failed need not be the end: the next model of the list is asked at once where the one before is out of
service, over its limit or refuses, and where none is left the run waits for the first provider that named a time. Each
attempt is settled by itself, so budgets hold for all of them together.
"""

from datetime import datetime, timedelta
from typing import TypedDict
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.budgets import ChargedAttempt
from towpath_contracts.canonical import json_safe
from towpath_contracts.decisions.request import (
    CALL_LOST,
    CALL_UNASKED,
    INVALID_ANSWER,
    Cost,
    DecisionKind,
    PlayedScriptEntry,
    Usage,
)
from towpath_contracts.events import log as ev
from towpath_contracts.subjects import DEFAULT_POOL, pool_of
from towpath_engine.handlers.finish import end_with_error
from towpath_engine.handlers.phases import after_act, take_assessment, take_unreadable_assessment
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.steps import after_decision, resend_decision
from towpath_engine.handlers.stop_checks.budgets import attempt_of, correct_usage, stop_without_budget
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.effects import asked_model, models_for
from towpath_engine.state.run import ACTION_KINDS, EffectKind, PendingEffect

OUT_OF_SERVICE = frozenset({"model_rate_limited", "model_timeout", "model_unavailable"})
"""Codes of failures that time may mend."""

PASSED_ON = OUT_OF_SERVICE | {"model_refused"}
"""Codes of failures for which the next model is asked. A wrong key or name is not among them: it would stay unseen."""

LONGEST_BACKOFF_S = 60
"""A provider that names a short time again and again is asked once a minute in the end: each attempt is an event."""

__all__ = ["correct_usage", "on_decision_failed", "on_decision_made"]


class ModelAnswerFields(TypedDict):
    """What the event of an answer and that of a failure say alike."""

    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    kind: str
    model: str
    usage: Usage
    cost: Cost
    duration_ms: int
    prompt_digest: str
    raw_digest: str
    script: PlayedScriptEntry | None
    answered: ChargedAttempt | None


def on_decision_made(run: TransitionBuilder, fact: facts.DecisionMadeFact) -> None:
    if not _is_awaited(run, fact):
        correct_usage(run, fact)
        return
    decision = json_safe(fact.decision)
    run.emit(ev.DecisionReceived(**_fields_of_answer(run, fact), decision=decision))
    if stop_at_deadline(run):
        return
    kind = DecisionKind(run.state.asked)
    if str(kind) not in ACTION_KINDS:
        take_assessment(run, kind, decision)
        return
    if decision is not fact.decision:
        feedback = "The decision holds a number that JSON has no word for (NaN, infinity)."
        goes_on = resend_decision(run, "decision_invalid", feedback)
    else:
        goes_on = after_decision(run, decision)
    if goes_on:
        after_act(run)


def on_decision_failed(run: TransitionBuilder, fact: facts.DecisionFailedFact) -> None:
    if not _is_awaited(run, fact):
        correct_usage(run, fact)
        return
    if fact.code in (CALL_LOST, CALL_UNASKED):
        _ask_anew(run, fact)
        return
    if _goes_on_later(run, fact):
        return
    run.emit(ev.DecisionRequestFailed(**_fields_of_answer(run, fact), code=fact.code, message=fact.message))
    if stop_at_deadline(run):
        return
    if fact.code == "invalid_output" and run.state.asked not in ACTION_KINDS:
        take_unreadable_assessment(run, DecisionKind(run.state.asked))
    elif fact.code == "invalid_output":
        if resend_decision(run, fact.code, f"{INVALID_ANSWER}{fact.message}"):
            after_act(run)
    else:
        end_with_error(run, fact.code, fact.message)


def _fields_of_answer(
    run: TransitionBuilder, fact: facts.DecisionMadeFact | facts.DecisionFailedFact
) -> ModelAnswerFields:
    return ModelAnswerFields(
        request_id=fact.request_id,
        step=run.state.step,
        epoch=run.state.epoch,
        agent_key=run.state.agent_key,
        kind=run.state.asked,
        model=fact.model,
        usage=fact.usage,
        cost=fact.cost,
        duration_ms=fact.duration_ms,
        prompt_digest=fact.prompt_digest,
        raw_digest=fact.raw_digest,
        script=fact.script,
        answered=attempt_of(run.state, fact),
    )


def _is_awaited(run: TransitionBuilder, fact: facts.DecisionMadeFact | facts.DecisionFailedFact) -> bool:
    pending = run.state.pending_effect(fact.request_id)
    if pending is None or pending.kind is not EffectKind.DECIDE:
        return False
    pool = pool_of(asked_model(run.state, pending), run.state.created.project)
    return fact.pool == ("" if pool == DEFAULT_POOL else pool)


def _ask_anew(run: TransitionBuilder, fact: facts.DecisionFailedFact) -> None:
    """Send the request again: this attempt has no answer. The next one reserves its budget anew.

    An attempt that never reached a model (`CALL_UNASKED`) was not paid either: what it reserved is given back.
    """
    pending = run.state.pending_effect(fact.request_id)
    if pending is None or pending.attempt != fact.attempt or pending.postponed:
        return  # one that is put off has had its word, and its time is not over
    if not stop_without_budget(run):
        resend(run, pending)
        if fact.code == CALL_UNASKED:
            correct_usage(run, fact)


def _goes_on_later(run: TransitionBuilder, fact: facts.DecisionFailedFact) -> bool:
    """Put the awaited request off, or pass it on to the next model; False where *fact* is its end."""
    pending = run.state.pending_effect(fact.request_id)
    assert pending is not None  # it is awaited
    if fact.attempt <= pending.settled:
        correct_usage(run, fact)  # said before
        return True
    models = models_for(run.state, DecisionKind(run.state.asked))
    if fact.retry_after_s is None and (len(models) == 1 or fact.code not in PASSED_ON):
        return False
    if fact.attempt != pending.attempt:
        correct_usage(run, fact)  # about an attempt that was given up; a newer one is under way
        return True
    again_at = _again_at(run, fact, pending)
    following = _next_model(models, asked_model(run.state, pending)) if fact.code in PASSED_ON else ""
    if following:
        _put_off(run, fact, run.now, following, again_at)
        if not stop_at_deadline(run) and not stop_without_budget(run):
            resend(run, run.state.pending_effect(fact.request_id) or pending)
        return True
    if again_at is None or (fact.retry_after_s is None and fact.code not in OUT_OF_SERVICE):
        return False
    deadline = run.state.active_deadline()
    if deadline is not None and again_at >= deadline:
        return False
    _put_off(run, fact, again_at, models[0] if len(models) > 1 else "", None)
    return True


def _again_at(run: TransitionBuilder, fact: facts.DecisionFailedFact, pending: PendingEffect) -> datetime | None:
    """Return when the first of the providers that asked for time may be asked again; later from attempt to attempt."""
    known = pending.again_at
    if fact.retry_after_s is None:
        return None if known is None else max(known, run.now + timedelta(seconds=1))
    backoff_s = float(min(1 << min(pending.attempt - 1, 6), LONGEST_BACKOFF_S))
    own = run.now + timedelta(seconds=max(fact.retry_after_s, backoff_s))
    return own if known is None else min(known, own)


def _next_model(models: tuple[str, ...], asked: str) -> str:
    """Return the model behind *asked*; empty where that is the last one."""
    place = models.index(asked) + 1 if asked in models else len(models)
    return models[place] if place < len(models) else ""


def _put_off(
    run: TransitionBuilder,
    fact: facts.DecisionFailedFact,
    until: datetime,
    next_model: str,
    again_at: datetime | None,
) -> None:
    run.emit(
        ev.DecisionPostponed(
            request_id=fact.request_id,
            step=run.state.step,
            agent_key=run.state.agent_key,
            kind=run.state.asked,
            attempt=fact.attempt,
            until=until,
            next_model=next_model,
            again_at=again_at,
            code=fact.code,
            message=fact.message,
            model=fact.model,
            usage=fact.usage,
            cost=fact.cost,
            duration_ms=fact.duration_ms,
            answered=attempt_of(run.state, fact),
        )
    )
