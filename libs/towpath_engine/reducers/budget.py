"""Applies events to a run's accounts: reserved when something is asked, settled when it is answered.

A request that is no longer waited for and was not answered is lost: its worst case stays spent, marked `estimated`. A
reservation is never released only because no answer came.
"""

from uuid import UUID

from towpath_contracts.budgets import MICROS, NOTHING, UNITS, Amounts, ChargedAttempt
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_engine.state.budget import (
    BudgetState,
    Reservation,
    SpendingRestriction,
    apply_scopes,
    charge,
    correct,
    reserve,
    settle,
    settle_as_lost,
)
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState

PaidEvent = ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed | ev.UsageCorrected
"""What says how much an attempt used."""


def add_usage(usage: Usage, cost: Cost, event: PaidEvent) -> tuple[Usage, Cost]:
    """Return usage and cost of a run with those of one answer; one unknown price makes the sum unknown."""
    known = cost.price_known and event.cost.price_known
    usd = (cost.usd or 0.0) + (event.cost.usd or 0.0) if known else None
    total = sum_usages(usage, event.usage)
    return total, Cost(usd=usd, price_known=known, price_source=event.cost.price_source)


def sum_usages(*usages: Usage | None) -> Usage:
    """Add up *usages*."""
    counted = [usage for usage in usages if usage is not None]
    return Usage(
        input_tokens=sum(usage.input_tokens for usage in counted),
        output_tokens=sum(usage.output_tokens for usage in counted),
        total_tokens=sum(usage.total_tokens for usage in counted),
        model_calls=sum(usage.model_calls for usage in counted),
        cached_tokens=sum(usage.cached_tokens for usage in counted),
        cache_write_tokens=sum(usage.cache_write_tokens for usage in counted),
    )


def total_cost(state: RunState) -> Cost:
    """Return what the run and its ended children have cost, with what runs above it had when it was born.

    Unknown where a price is.
    """
    return sum_costs(state.created.spent, state.below, state.cost)


def sum_costs(*costs: Cost | None) -> Cost:
    """Add up *costs*; one that is unknown makes the sum unknown. The source is that of the last one that has any."""
    known_costs = [cost for cost in costs if cost is not None]
    known = all(cost.price_known for cost in known_costs)
    source = next((cost.price_source for cost in reversed(known_costs) if cost.price_source), "")
    return Cost(
        usd=sum(cost.usd or 0.0 for cost in known_costs) if known else None, price_known=known, price_source=source
    )


def update_budget(before: RunState, after: RunState, event: ev.AnyEvent) -> BudgetState | None:
    """Return the accounts after *event*, which has made *after* of *before*."""
    budget = after.budget
    if isinstance(event, ev.BudgetAccountsApplied):
        return apply_scopes(budget, event.scopes, event.prices)
    if budget is None:
        return None
    return _swept(_updated(budget, before, after, event), after)


def _updated(budget: BudgetState, before: RunState, after: RunState, event: ev.AnyEvent) -> BudgetState:
    match event:
        case ev.DecisionRequested():
            asked = _reserved(budget, after, event.request_id, 1, event.reserved, event.model)
            return asked if event.reserved is None else _answering(asked)  # one that backs off is asked by its timer
        case ev.EffectResent():
            asked = _resent(budget, after, event)
            return _answering(asked) if event.attempt == 1 else asked
        case ev.InstructionIssued():
            return (
                _called(budget, after, event.instruction)
                if isinstance(event.instruction, CallToolsInstruction)
                else budget
            )
        case ev.DecisionReceived() | ev.DecisionRequestFailed() | ev.DecisionPostponed() | ev.UsageCorrected():
            return _answered(budget, before, event)
        case ev.ToolCallFinished() | ev.ToolCallDenied():
            return _call_over(budget, event)
        case ev.FenceStored():
            return _voided(budget, event.voided)
        case ev.BudgetRefused():
            return replace(budget, means=SpendingRestriction(event.means), refused=event.refusal)
        case ev.BudgetWarned():
            return replace(budget, warned=(*budget.warned, f"{event.scope}:{event.key}:{event.unit}"))
        case _:
            return budget


def _answering(budget: BudgetState) -> BudgetState:
    return (
        replace(budget, means=SpendingRestriction.ANSWERING)
        if budget.means is SpendingRestriction.LAST_ANSWER
        else budget
    )


def _reserved(
    budget: BudgetState, state: RunState, effect_id: UUID, attempt: int, amounts: Amounts | None, model: str
) -> BudgetState:
    if amounts is None:
        return budget
    accounts = budget.charged(state.agent_key)
    return reserve(
        budget, Reservation(effect_id=effect_id, attempt=attempt, accounts=accounts, amounts=amounts, model=model)
    )


def _resent(budget: BudgetState, state: RunState, event: ev.EffectResent) -> BudgetState:
    """Another attempt reserves anew; whether the one before was paid is unknown."""
    if event.reserved is None:
        return budget
    pending = state.pending_effect(event.effect_id)
    model = "" if pending is None else pending.model
    for hold in budget.holds:
        if hold.effect_id == event.effect_id:
            budget, model = settle_as_lost(budget, hold), model or hold.model
    return _reserved(budget, state, event.effect_id, event.attempt, event.reserved, model)


def _called(budget: BudgetState, state: RunState, instruction: CallToolsInstruction) -> BudgetState:
    for call in instruction.calls:
        amounts = tool_amounts(state.snapshot, call.tool)
        budget = _reserved(budget, state, call.execution_id, 1, amounts, "")
    return budget


def tool_amounts(snapshot: NetworkSnapshot, tool: str) -> Amounts:
    """Return what one call of *tool* costs; its price is rounded up."""
    spec = snapshot.all_tools.get(tool)
    usd = 0 if spec is None else -int(-spec.cost_usd * MICROS // 1)
    return Amounts(usd_micros=usd, tool_calls=1)


def _answered(budget: BudgetState, state: RunState, event: PaidEvent) -> BudgetState:
    """Settle the attempt that was paid at what it used; one that only repeats its answer was not paid itself."""
    answered = event.answered or ChargedAttempt(attempt=1)
    if answered.called_in and answered.called_in != answered.attempt:
        repeated = budget.held(event.request_id, answered.attempt)
        if repeated is not None:
            budget = settle(budget, repeated, NOTHING)
        repeated = budget.estimated(event.request_id, answered.attempt)
        if repeated is not None:
            budget = correct(budget, repeated, NOTHING)
    attempt = answered.called_in or answered.attempt
    hold = budget.held(event.request_id, attempt)
    late = budget.estimated(event.request_id, attempt)
    if hold is not None:
        return settle(budget, hold, *_used(budget, hold, event, answered.uncounted))
    if late is not None:
        return correct(budget, late, *_used(budget, late, event, answered.uncounted))
    if isinstance(event, ev.UsageCorrected) or answered.called_in:
        return budget
    free = Reservation(effect_id=event.request_id, attempt=attempt, accounts=(), amounts=NOTHING, model=event.model)
    actual, _ = _used(budget, free, event, 0)
    return charge(budget, budget.charged(state.agent_key), actual)


def _used(
    budget: BudgetState,
    hold: Reservation,
    event: PaidEvent,
    uncounted: int,
) -> tuple[Amounts, Amounts]:
    """Return the usage that an answer reports, and the part that is estimated, for calls without an answer."""
    usage, cost = event.usage, event.cost
    tokens = max(usage.total_tokens, usage.input_tokens + usage.output_tokens)
    estimated = _of_calls(hold.amounts, uncounted)
    if cost.usd is not None and cost.price_known:
        usd = -int(-cost.usd * MICROS // 1)
    else:
        price = budget.prices.get(hold.model or event.model)
        # Without a price the cost is unknown: all that was reserved is taken for spent.
        if price is None:
            usd, estimated = 0, estimated.model_copy(update={"usd_micros": hold.amounts.usd_micros})
        else:
            usd = price.of(usage.input_tokens, max(usage.output_tokens, tokens - usage.input_tokens))
    counted = Amounts(usd_micros=usd, tokens=tokens, model_calls=max(0, usage.model_calls - uncounted))
    return counted.plus(estimated), estimated


def _of_calls(amounts: Amounts, calls: int) -> Amounts:
    """Return the part of an attempt's worst case that so many of its calls are."""
    if calls <= 0 or amounts.model_calls <= 0:
        return NOTHING
    part = min(calls, amounts.model_calls)
    shares = {unit: -(-getattr(amounts, unit) * part // amounts.model_calls) for unit in UNITS}
    return Amounts(**{**shares, "tool_calls": 0})


def _call_over(budget: BudgetState, event: ev.ToolCallFinished | ev.ToolCallDenied) -> BudgetState:
    """A call that certainly did not begin gives back what it had reserved; a doubt stays spent."""
    hold = budget.held(event.execution_id, 1)
    late = budget.estimated(event.execution_id, 1)
    if hold is None and late is None:
        return budget
    if isinstance(event, ev.ToolCallFinished) and event.status == "unknown":
        return budget if hold is None else settle_as_lost(budget, hold)
    denied = isinstance(event, ev.ToolCallDenied) or event.status == "void"
    unbegun = isinstance(event, ev.ToolCallFinished) and event.failure is not None and event.failure.began is False
    if hold is not None:
        return settle(budget, hold, NOTHING if denied or unbegun else hold.amounts)
    assert late is not None
    return correct(budget, late, NOTHING if denied or unbegun else late.amounts)


def _voided(budget: BudgetState, voided: tuple[UUID, ...]) -> BudgetState:
    """Calls that never started, and never will, cost nothing."""
    for execution_id in voided:
        hold, late = budget.held(execution_id, 1), budget.estimated(execution_id, 1)
        if hold is not None:
            budget = settle(budget, hold, NOTHING)
        elif late is not None:
            budget = correct(budget, late, NOTHING)
    return budget


def _swept(budget: BudgetState, state: RunState) -> BudgetState:
    """Whatever is still held for what is not waited for any more is lost."""
    if not budget.holds:
        return budget
    pending = {effect.effect_id for effect in state.pending}
    for hold in budget.holds:
        if hold.effect_id not in pending:
            budget = settle_as_lost(budget, hold)
    return budget
