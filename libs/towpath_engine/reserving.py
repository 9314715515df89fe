"""What asking a model can cost at most (design §5, budgets).

Law: stated before anything is asked; the shell reserves it with the transition, or the transition does not happen. It
is an upper bound whatever the model does, as long as the decider keeps to the request's own limits.
"""

from towpath_contracts import events as ev
from towpath_contracts.budgets import Amounts
from towpath_contracts.deciding import DecisionRequest
from towpath_engine.effects import CALLS, message_of
from towpath_engine.state import EffectKind, PendingEffect, RunState

PLATFORM_TOKENS = 8_192
"""What the decider adds to a context: the constraints, the shapes of answers, fences. Its words have half of that."""

REPAIR_TOKENS = 2_048
"""A question for repair, beside the answer that it is about."""


def worst_case(state: RunState, pending: PendingEffect) -> Amounts:
    """Return the most that asking *pending* now can cost.

    A token has at least one byte, and whatever a prompt shows stands in the request: its bytes, once more for every
    place where the agent's own prompt repeats something, bound the tokens of a question. Each of the calls may write
    all that it is allowed to; after an unreadable answer the question holds that answer too.
    """
    message = message_of(state, pending).message
    if not isinstance(message, DecisionRequest):
        return Amounts()
    calls = message.max_calls or CALLS
    repeats = message.context.base_prompt.count("{{")
    asked = len(message.context.model_dump_json().encode()) * (1 + repeats) + PLATFORM_TOKENS
    repaired = max(0, calls - 1) * (message.max_output_tokens + REPAIR_TOKENS)
    told, said = calls * asked + repaired, calls * message.max_output_tokens
    price = state.budget.prices.get(message.model) if state.budget is not None else None
    usd = price.of(told, said) if price is not None else 0
    return Amounts(usd_micros=usd, tokens=told + said, model_calls=calls)


def priced(state: RunState, event: "ev.AnyEvent") -> "ev.AnyEvent | None":
    """Return *event*, which has made *state*, with what it reserves; None where it asks no model."""
    if isinstance(event, ev.DecisionRequested):
        effect_id = event.request_id
    elif isinstance(event, ev.EffectResent):
        effect_id = event.effect_id
    else:
        return None
    pending = state.pending_effect(effect_id)
    if pending is None or pending.kind is not EffectKind.DECIDE or pending.attempt < 1:
        return None
    return event.model_copy(update={"reserved": worst_case(state, pending)})
