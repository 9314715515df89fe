"""Computes the most that asking a model can cost, and adds it to the event that asks.

The amount is stated before anything is asked; the orchestrator reserves it in the transaction of the transition, or the
transition does not happen. It is an upper bound whatever the model does, as long as the decider keeps the limits of the
request.
"""

from towpath_contracts.budgets import Amounts
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.attachments import attachment_tokens
from towpath_contracts.decisions.model_strings import WITH_NATIVE_TOOLS
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry
from towpath_engine.evolve import evolve
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.effects import CALLS, message_of
from towpath_engine.state.run import EffectKind, PendingEffect, RunState

PLATFORM_TOKENS = 8_192
"""What the decider adds to a context: the constraints, the shapes of answers, fences. Its own text is half."""

OFFER_TOKENS = 64
"""What a provider's API has around a tool that is offered natively."""

TURN_TOKENS = 128
"""What stands around an earlier decision, and around each of its results, in a conversation."""

REPAIR_TOKENS = 2_048
"""A question for repair, beside the answer that it is about."""


def worst_case(state: RunState, pending: PendingEffect) -> Amounts:
    """Return the most that asking *pending* now can cost.

    A token has at least one byte, and whatever a prompt shows stands in the request: its bytes, once more for every
    place where the agent's own prompt repeats something, bound the tokens of a question. Tools that may be offered
    natively stand in it once more. Each of the calls may write all that it is allowed to; after an unreadable answer
    the question holds that answer too.
    """
    message = message_of(state, pending).message
    if not isinstance(message, DecisionRequest):
        return Amounts()
    calls = message.max_calls or CALLS
    repeats = message.context.base_prompt.count("{{")
    asked = len(message.context.model_dump_json().encode()) * (1 + repeats) + PLATFORM_TOKENS
    asked += attachment_tokens(message.context.all_attachments)
    if message.context.epoch_turns is not None:
        asked += sum(TURN_TOKENS * (1 + len(turn.calls)) for turn in message.context.epoch_turns.turns)
    if message.response_schema is not None:
        asked += len(canonical_json(message.response_schema).encode())
    if message.model.partition(":")[0] in WITH_NATIVE_TOOLS:
        asked += sum(len(tool.model_dump_json().encode()) + OFFER_TOKENS for tool in message.context.tools)
    repaired = max(0, calls - 1) * (message.max_output_tokens + REPAIR_TOKENS)
    input_tokens, output_tokens = calls * asked + repaired, calls * message.max_output_tokens
    price = state.budget.prices.get(message.model) if state.budget is not None else None
    usd = price.of(input_tokens, output_tokens) if price is not None else 0
    return Amounts(usd_micros=usd, tokens=input_tokens + output_tokens, model_calls=calls)


def emit_request(run: TransitionBuilder, event: ev.DecisionRequested | ev.EffectResent) -> None:
    """Emit what asks the outside for something; where the run has a budget, with what it reserves for a model."""
    if run.state.budget is not None:
        after = evolve(run.state, LogEntry.model_construct(seq=run.state.seq + 1, at=run.now, event=event))
        wanted = event.request_id if isinstance(event, ev.DecisionRequested) else event.effect_id
        pending = after.pending_effect(wanted)
        if pending is not None and pending.kind is EffectKind.DECIDE and pending.attempt > 0:
            event = event.model_copy(update={"reserved": worst_case(after, pending)})
    run.emit(event)
