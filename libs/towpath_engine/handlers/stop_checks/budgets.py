"""Budgets: what becomes of a run that can't spend what it asks for.

A run that is refused asks for less, and then ends with what it has; it is never stopped between an answer and its
record. What an answer did not say about its cost at once is corrected when it becomes known, once.
"""

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.budgets import ChargedAttempt, format_amount
from towpath_contracts.decisions.request import CALL_LOST
from towpath_contracts.events import log as ev
from towpath_contracts.subjects import DEFAULT_POOL, pool_of
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.budget import SpendingRestriction
from towpath_engine.state.run import RunState, Status

EXCEEDED = "budget_exceeded"
UNPRICED = "price_unknown"
"""Money was limited while a run was asking a model whose price nobody knows; at submit such a task is refused."""


def on_budget_applied(run: TransitionBuilder, fact: facts.BudgetAccountsAppliedFact) -> None:
    """Record the accounts that the run spends from."""
    run.emit(ev.BudgetAccountsApplied(scopes=fact.scopes, prices=fact.prices))


def on_budget_refused(run: TransitionBuilder, fact: facts.BudgetRefusedFact) -> None:
    """Ask for less from now on; where that was refused as well, or has no known price either, for nothing."""
    budget = run.state.budget
    if budget is None:
        return
    means = SpendingRestriction.NOTHING
    if budget.means is SpendingRestriction.ALL:
        lean = SpendingRestriction.NOTHING if fact.refusal.unpriced else SpendingRestriction.LEAN
        means = SpendingRestriction.LAST_ANSWER if run.state.snapshot.force_respond else lean
    run.emit(ev.BudgetRefused(step=run.state.step, refusal=fact.refusal, means=str(means)))


def on_budget_warned(run: TransitionBuilder, fact: facts.BudgetWarnedFact) -> None:
    """Tell the model once that a limit is near, or ask a person whether the run may go on."""
    budget = run.state.budget
    key = f"{fact.scope}:{fact.key}:{fact.unit}"
    if budget is None or key in budget.warned or run.state.status is Status.CANCELLING:
        return  # a run that is being cancelled asks nobody whether it may go on
    run.emit(
        ev.BudgetWarned(
            step=run.state.step,
            scope=fact.scope,
            key=fact.key,
            unit=fact.unit,
            limit=fact.limit,
            spent=fact.spent,
            on_soft=fact.on_soft,
        )
    )
    limit = format_amount(fact.unit, fact.limit)
    said = f"{format_amount(fact.unit, fact.spent)} of the {fact.scope} budget of {limit} are spent"
    if fact.on_soft == "gate":
        detail: JsonObject = {"scope": fact.scope, "budget": fact.key, "unit": fact.unit, "limit": fact.limit}
        open_run_gate(run, "budget", f"budget:{key}", said, {**detail, "spent": fact.spent})
    else:
        run.emit(ev.NoteAdded(step=run.state.step, text=f"{said}. Come to an end soon."))


def stop_without_budget(run: TransitionBuilder) -> bool:
    """End a run that may ask for nothing any more, or had its last answer; return whether it ended."""
    budget = run.state.budget
    if budget is None or budget.means not in (SpendingRestriction.NOTHING, SpendingRestriction.ANSWERING):
        return False
    refusal = budget.refused
    assert refusal is not None
    reason = UNPRICED if refusal.unpriced else EXCEEDED
    error: JsonObject = {"status": "error", "error": reason, "message": refusal.describe()}
    finish(run, Status.FAILED, reason, refusal.describe(), final={**error, **refusal.model_dump(mode="json")})
    return True


def last_answer_only(state: RunState) -> bool:
    """Whether nothing but an answer may be asked of the model, and no tool at all."""
    return state.budget is not None and state.budget.means in (
        SpendingRestriction.LAST_ANSWER,
        SpendingRestriction.ANSWERING,
    )


def attempt_of(state: RunState, fact: facts.DecisionMadeFact | facts.DecisionFailedFact) -> ChargedAttempt | None:
    """Return which attempt *fact* answers; None in a run without a budget, where nobody asks."""
    if state.budget is None:
        return None
    return ChargedAttempt(attempt=fact.attempt, called_in=fact.called_in, uncounted=fact.uncounted)


def correct_usage(run: TransitionBuilder, fact: facts.DecisionMadeFact | facts.DecisionFailedFact) -> None:
    """Replace the estimated cost of an attempt by what its late answer says it used, once."""
    told, budget = attempt_of(run.state, fact), run.state.budget
    if told is None or budget is None or (isinstance(fact, facts.DecisionFailedFact) and fact.code == CALL_LOST):
        return  # a report that a call is lost does not know what it used
    found = [budget.estimated(fact.request_id, attempt) for attempt in (told.attempt, told.called_in)]
    if not any(hold is not None and _asked_of(run.state, hold.model) == fact.pool for hold in found):
        return
    run.emit(
        ev.UsageCorrected(request_id=fact.request_id, model=fact.model, usage=fact.usage, cost=fact.cost, answered=told)
    )


def _asked_of(state: RunState, model: str) -> str:
    """Return the pool of agents that was asked, as it stands in its facts: empty for the deciders'."""
    pool = pool_of(model, state.created.project)
    return "" if pool == DEFAULT_POOL else pool
