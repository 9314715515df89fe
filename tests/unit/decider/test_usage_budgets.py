"""What the decider does where a run has a budget: no more calls than allowed, and no call that nobody counts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.decider.decisions import RESPOND, as_text, check_decision, context, request

from towpath_contracts.decisions.request import Usage
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_decider.app.decision_service import DecisionMaker, log_calls
from towpath_decider.core.conversation import AskModel, GaveUp, ModelCallFailure, ModelQuestion, ModelReply, converse
from towpath_decider.core.prompt import render
from towpath_decider.core.usage import MAX_TOKENS, NOTHING, reported_usage
from towpath_engine.requests.effects import CALLS
from towpath_fabric.prices.model_price_list import SOURCE, ModelPriceList

ONE = Usage(input_tokens=3, output_tokens=2, total_tokens=5, model_calls=1)
GOOD = ModelReply(text=as_text(RESPOND), usage=ONE, cost=NOTHING)
BAD = ModelReply(text="no idea", usage=ONE, cost=NOTHING)
LATER = ModelCallFailure(code="model_unavailable", message="503", retryable=True, usage=Usage(model_calls=1))


def calls(most: int, *replies: ModelReply | ModelCallFailure) -> tuple[int, Any]:
    """Return how often the model is asked when it answers like this, the last answer for ever, and what comes of it."""
    dialogue, asked, answers = converse(render(context()), check_decision, most), 0, list(replies)
    step = next(dialogue)
    while True:
        try:
            if isinstance(step, AskModel):
                asked += 1
                step = dialogue.send(answers[min(asked, len(answers)) - 1])
            else:
                step = dialogue.send(None)
        except StopIteration as over:
            return asked, over.value


@pytest.mark.parametrize("replies", [(BAD,), (LATER,), (LATER, LATER, BAD, BAD), (BAD, LATER, LATER, LATER)])
def test_budget_no_attempt_takes_more_calls_than_are_reserved(replies: tuple[Any, ...]) -> None:
    """Four calls at most by the decider's own rule, as the run machine reserves; one where one is allowed."""
    asked, result = calls(0, *replies)
    assert asked <= CALLS
    assert isinstance(result, GaveUp)
    assert calls(1, *replies)[0] == 1


def test_budget_no_count_of_a_provider_gives_back_what_was_spent_or_overflows() -> None:
    assert reported_usage(3, 2, 5) == ONE
    assert reported_usage(-(10**30), -1, -5) == Usage(model_calls=1)
    huge = reported_usage(10**30, 9 * 10**18, 10**30)
    assert huge.input_tokens == huge.output_tokens == huge.total_tokens == 10**12
    assert reported_usage(10**12 - 1, 0, 0).input_tokens == 10**12 - 1
    assert MAX_TOKENS * 1_000_000 < 2**63


class FixedReplies:
    """A provider that gives the answers of a list, and hangs when none is left."""

    def __init__(self, *replies: ModelReply | ModelCallFailure) -> None:
        self.replies = list(replies)

    def offers_tools(self, _request: Any) -> bool:
        return False

    async def complete(self, _request: Any, _question: ModelQuestion, _hear: Any) -> ModelReply | ModelCallFailure:
        if not self.replies:
            await asyncio.sleep(60)
        return self.replies.pop(0)

    async def close(self) -> None:
        """Nothing is open."""


async def answered(max_calls: int, *replies: ModelReply | ModelCallFailure) -> DecisionMadeFact | DecisionFailedFact:
    service = DecisionMaker({"scripted": FixedReplies(*replies)}, sleep=lambda _seconds: asyncio.sleep(0))
    asked = request(model="scripted:task", timeout_ms=200, max_calls=max_calls)
    return (await service.answer(asked)).fact


async def test_budget_calls_that_end_without_an_answer_are_reported() -> None:
    fact = await answered(4, LATER)
    assert isinstance(fact, DecisionFailedFact)
    assert (fact.code, fact.uncounted, fact.usage.model_calls) == ("model_timeout", 2, 2)
    fact = await answered(4, LATER, GOOD)
    assert isinstance(fact, DecisionMadeFact)
    assert (fact.uncounted, fact.usage.model_calls, fact.usage.total_tokens) == (1, 2, 5)
    assert (await answered(0, LATER, GOOD)).uncounted == 0


async def test_the_operators_price_of_a_model_stands_in_each_call_and_in_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text('"scripted:*": {input_usd: 10, output_usd: 20}\n')
    silent = ModelCallFailure(code="model_unavailable", message="503", retryable=True)
    provider = FixedReplies(BAD, silent, GOOD)
    service = DecisionMaker({"scripted": provider}, sleep=lambda _s: asyncio.sleep(0), prices=ModelPriceList(file))
    outcome = await service.answer(request(model="scripted:task", timeout_ms=5_000))
    one = (3 * 10 + 2 * 20) / 10**6
    assert [call.cost.usd for call in log_calls(outcome)] == pytest.approx([one, 0.0, one]), (
        "nothing came, none is paid"
    )
    assert outcome.fact.cost.usd == pytest.approx(2 * one)
    assert (outcome.fact.cost.price_known, outcome.fact.cost.price_source) == (True, SOURCE)


async def test_an_error_with_half_of_a_surrogate_pair_is_told_as_any_other() -> None:
    """A server writes what it likes; the run would have ended as by a fault of the decider."""
    refused = ModelCallFailure(code="model_refused_request", message="no: \ud800", usage=Usage(model_calls=1))
    service = DecisionMaker({"scripted": FixedReplies(refused)})
    outcome = await service.answer(request(model="scripted:task", timeout_ms=200))
    assert isinstance(outcome.fact, DecisionFailedFact)
    assert (outcome.fact.code, outcome.fact.message) == ("model_refused_request", "no: ?")
    assert [call.error for call in log_calls(outcome)] == ["model_refused_request: no: ?"]
