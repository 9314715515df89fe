"""What is Gemini's own, over real HTTP; what all providers do alike is in test_decider_providers.py."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr
from tests.support.decider.decisions import RESPOND, as_text, context, request
from tests.support.decider.gemini_server import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    THOUGHT_TOKENS,
    Answer,
    GeminiServer,
    fails,
    gemini,
    says,
)

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.app.decision_service import DecisionMaker, FinishedDecision, log_calls
from towpath_decider.core.prompt import render

KEY = "test-key-1234567890"
GOOD = says(as_text(RESPOND))


class Clock:
    """Waits without waiting, and remembers how long."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


@asynccontextmanager
async def service(server: GeminiServer, clock: Clock | None = None) -> AsyncIterator[DecisionMaker]:
    provider = GeminiProvider(api_key=SecretStr(KEY), base_url=server.url)
    orchestrator = DecisionMaker({"gemini": provider}, sleep=(clock or Clock()).sleep)
    try:
        yield orchestrator
    finally:
        await orchestrator.close()


def to_gemini(**changes: Any) -> DecisionRequest:
    return request(**{"model": "gemini:gemini-2.5-flash", "timeout_ms": 180_000, **changes})


async def ask(*answers: Answer, clock: Clock | None = None, **changes: Any) -> tuple[FinishedDecision, GeminiServer]:
    with gemini(*answers) as server:
        async with service(server, clock) as orchestrator:
            return await orchestrator.answer(to_gemini(**changes)), server


async def test_a_decision_is_had_in_json_mode_with_schema_and_without_thinking() -> None:
    outcome, server = await ask(GOOD)
    fact = outcome.fact
    assert isinstance(fact, DecisionMadeFact)
    assert fact.decision == RESPOND
    (seen,) = server.seen
    assert seen.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert seen.headers["x-goog-api-key"] == KEY
    config = seen.body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"]["action"]["enum"] == ["USE_TOOL", "ROUTE_TO_AGENT", "RESPOND"]
    assert config["thinkingConfig"] == {"thinking_budget": 0} or config["thinkingConfig"] == {"thinkingBudget": 0}
    assert config["maxOutputTokens"] == 8_192
    prompt = render(context())
    assert seen.body["systemInstruction"]["parts"][0]["text"] == prompt.instructions
    assert seen.body["contents"] == [{"role": "user", "parts": [{"text": prompt.context}]}]


async def test_usage_cost_and_digests_are_in_the_fact() -> None:
    outcome, _ = await ask(GOOD)
    fact = outcome.fact
    assert fact.usage.input_tokens == INPUT_TOKENS
    assert fact.usage.output_tokens == OUTPUT_TOKENS + THOUGHT_TOKENS
    assert fact.usage.total_tokens == INPUT_TOKENS + OUTPUT_TOKENS + THOUGHT_TOKENS
    assert fact.usage.model_calls == 1
    assert fact.cost.usd == pytest.approx(INPUT_TOKENS * 0.3e-6 + (OUTPUT_TOKENS + THOUGHT_TOKENS) * 2.5e-6)
    assert fact.cost.price_known
    assert fact.prompt_digest == render(context()).digest
    assert fact.raw_digest == digest_text(as_text(RESPOND))


async def test_malformed_twice_is_invalid_output() -> None:
    outcome, server = await ask(says("I would respond."), says("Really."))
    assert isinstance(outcome.fact, DecisionFailedFact)
    assert outcome.fact.code == "invalid_output"
    assert outcome.fact.usage.model_calls == 2
    assert outcome.fact.raw_digest == digest_text("Really.")
    assert len(server.seen) == 2


async def test_rate_limit_then_success_waits_as_the_api_asks() -> None:
    clock = Clock()
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
    outcome, server = await ask(fails(429, details=[info]), fails(429, headers={"retry-after": "5"}), GOOD, clock=clock)
    assert isinstance(outcome.fact, DecisionMadeFact)
    assert clock.waited == [3.0, 5.0]
    assert len(server.seen) == 3


async def test_a_slow_model_ends_at_the_timeout() -> None:
    slow = Answer(body=GOOD.body, delay_s=30)
    with gemini(GOOD, slow) as server:
        async with service(server) as orchestrator:
            await orchestrator.answer(to_gemini())  # loads the library, which is not what is timed here
            outcome = await orchestrator.answer(to_gemini(timeout_ms=300))
    assert isinstance(outcome.fact, DecisionFailedFact)
    assert outcome.fact.code == "model_timeout"
    assert outcome.fact.message == "no decision within 300 ms"
    assert 300 <= outcome.fact.duration_ms < 5_000


async def test_nobody_listening_is_unavailable() -> None:
    with gemini(GOOD) as server:
        url = server.url
    clock = Clock()
    orchestrator = DecisionMaker({"gemini": GeminiProvider(api_key=SecretStr(KEY), base_url=url)}, sleep=clock.sleep)
    outcome = await orchestrator.answer(to_gemini())
    await orchestrator.close()
    assert isinstance(outcome.fact, DecisionFailedFact)
    assert outcome.fact.code == "model_unavailable"
    assert clock.waited == [1.0, 2.0]


async def test_calls_are_logged_with_bodies_only_under_debug() -> None:
    quiet, _ = await ask(says("no"), GOOD)
    plain = log_calls(quiet)
    assert [call.call for call in plain] == [1, 2]
    assert all(call.prompt is None and call.raw_text is None for call in plain)
    assert plain[0].usage.input_tokens == INPUT_TOKENS
    assert plain[1].raw_digest == digest_text(as_text(RESPOND))
    debugged, _ = await ask(fails(503), GOOD, debug=True)
    first, second = log_calls(debugged)
    assert first.error == "model_unavailable: Gemini answered 503: no"
    assert second.prompt == render(context()).text
    assert second.raw_text == as_text(RESPOND)


async def test_a_schema_that_is_none_and_an_unknown_provider_are_refused() -> None:
    orchestrator = DecisionMaker({})
    unknown = await orchestrator.answer(request(model="nobody:x"))
    assert isinstance(unknown.fact, DecisionFailedFact)
    assert unknown.fact.code == "model_unknown"
    orchestrator = DecisionMaker({"gemini": GeminiProvider(api_key=None)})
    bare = await orchestrator.answer(to_gemini(kind=DecisionKind.VALIDATE, response_schema={"type": 7}))
    assert isinstance(bare.fact, DecisionFailedFact)
    assert bare.fact.code == "request_invalid"


async def test_a_template_that_can_not_be_rendered_fails_the_decision() -> None:
    orchestrator = DecisionMaker({"gemini": GeminiProvider(api_key=None)})
    outcome = await orchestrator.answer(to_gemini(context=context(base_prompt="{{ secret }}")))
    assert isinstance(outcome.fact, DecisionFailedFact)
    assert outcome.fact.code == "prompt_invalid"
    assert outcome.fact.cost.usd == 0.0
