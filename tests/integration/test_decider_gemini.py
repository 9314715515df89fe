"""The Gemini provider against a local server that speaks its API: the real google-genai over real HTTP (design §8)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr
from tests.support.decisions import RESPOND, as_text, context, request
from tests.support.gemini_server import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    THOUGHT_TOKENS,
    TOO_LONG,
    Answer,
    GeminiServer,
    fails,
    gemini,
    says,
)

from towpath_contracts.canonical import digest_text
from towpath_contracts.deciding import DecisionKind, DecisionRequest
from towpath_contracts.facts import DecisionFailed, DecisionMade
from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.asking import Asker, Outcome, log_calls
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
async def asker(server: GeminiServer, clock: Clock | None = None) -> AsyncIterator[Asker]:
    provider = GeminiProvider(api_key=SecretStr(KEY), base_url=server.url)
    asking = Asker({"gemini": provider}, sleep=(clock or Clock()).sleep)
    try:
        yield asking
    finally:
        await asking.close()


def to_gemini(**changes: Any) -> DecisionRequest:
    return request(**{"model": "gemini:gemini-2.5-flash", **changes})


async def ask(*answers: Answer, clock: Clock | None = None, **changes: Any) -> tuple[Outcome, GeminiServer]:
    with gemini(*answers) as server:
        async with asker(server, clock) as asking:
            return await asking.answer(to_gemini(**changes)), server


async def test_a_decision_is_had_in_json_mode_with_schema_and_without_thinking() -> None:
    outcome, server = await ask(GOOD)
    fact = outcome.fact
    assert isinstance(fact, DecisionMade)
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


async def test_an_unknown_price_is_none_and_not_zero() -> None:
    outcome, _ = await ask(GOOD, model="gemini:gemini-of-tomorrow")
    assert isinstance(outcome.fact, DecisionMade)
    assert outcome.fact.cost.usd is None
    assert not outcome.fact.cost.price_known


async def test_fences_are_stripped() -> None:
    outcome, server = await ask(says(f"```json\n{as_text(RESPOND)}\n```"))
    assert isinstance(outcome.fact, DecisionMade)
    assert len(server.seen) == 1


async def test_malformed_once_is_repaired_and_both_calls_are_counted() -> None:
    outcome, server = await ask(says("I would respond."), GOOD)
    assert isinstance(outcome.fact, DecisionMade)
    assert outcome.fact.usage.model_calls == 2
    assert outcome.fact.usage.input_tokens == 2 * INPUT_TOKENS
    roles = [turn["role"] for turn in server.seen[1].body["contents"]]
    assert roles == ["user", "model", "user"]
    assert "only the raw JSON object" in server.seen[1].body["contents"][2]["parts"][0]["text"]


async def test_malformed_twice_is_invalid_output() -> None:
    outcome, server = await ask(says("I would respond."), says("Really."))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "invalid_output"
    assert outcome.fact.usage.model_calls == 2
    assert outcome.fact.raw_digest == digest_text("Really.")
    assert len(server.seen) == 2


async def test_rate_limit_then_success_waits_as_the_api_asks() -> None:
    clock = Clock()
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
    outcome, server = await ask(fails(429, details=[info]), fails(429, headers={"retry-after": "5"}), GOOD, clock=clock)
    assert isinstance(outcome.fact, DecisionMade)
    assert clock.waited == [3.0, 5.0]
    assert len(server.seen) == 3


async def test_unavailable_three_times_is_the_end_with_all_causes() -> None:
    clock = Clock()
    outcome, server = await ask(fails(503, "overloaded"), clock=clock)
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_unavailable"
    assert outcome.fact.message.count("Gemini answered 503: overloaded") == 3
    assert clock.waited == [1.0, 2.0]
    assert len(server.seen) == 3


async def test_a_context_that_is_too_long_is_not_tried_again() -> None:
    outcome, server = await ask(fails(400, TOO_LONG))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "context_too_long"
    assert len(server.seen) == 1


async def test_a_wrong_key_is_not_tried_again_and_not_repeated() -> None:
    outcome, server = await ask(fails(403, f"key {KEY} is not valid"))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_unauthorized"
    assert KEY not in outcome.fact.model_dump_json()
    assert len(server.seen) == 1


async def test_without_a_key_nothing_is_asked() -> None:
    asking = Asker({"gemini": GeminiProvider(api_key=None)})
    outcome = await asking.answer(to_gemini())
    await asking.close()
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_unauthorized"
    assert "GEMINI_API_KEY" in outcome.fact.message


async def test_a_slow_model_ends_at_the_timeout() -> None:
    slow = Answer(body=GOOD.body, delay_s=30)
    with gemini(GOOD, slow) as server:
        async with asker(server) as asking:
            await asking.answer(to_gemini())  # loads the library, which is not what is timed here
            outcome = await asking.answer(to_gemini(timeout_ms=300))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_timeout"
    assert outcome.fact.message == "no decision within 300 ms"
    assert 300 <= outcome.fact.duration_ms < 5_000


async def test_a_connection_that_is_cut_off_is_tried_again() -> None:
    outcome, server = await ask(Answer(body=GOOD.body, cut=True), GOOD)
    assert isinstance(outcome.fact, DecisionMade)
    assert len(server.seen) == 2


async def test_nobody_listening_is_unavailable() -> None:
    with gemini(GOOD) as server:
        url = server.url
    clock = Clock()
    asking = Asker({"gemini": GeminiProvider(api_key=SecretStr(KEY), base_url=url)}, sleep=clock.sleep)
    outcome = await asking.answer(to_gemini())
    await asking.close()
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_unavailable"
    assert clock.waited == [1.0, 2.0]


@pytest.mark.parametrize("body", [b"<html>oops</html>", b"", b'{"candidates": 7}'])
async def test_an_answer_that_is_none_is_tried_again(body: bytes) -> None:
    outcome, server = await ask(Answer(body=body), GOOD)
    assert isinstance(outcome.fact, DecisionMade)
    assert len(server.seen) == 2


async def test_a_blocked_answer_is_refused_with_the_reason() -> None:
    outcome, server = await ask(says("", finish="SAFETY"))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_refused"
    assert "SAFETY" in outcome.fact.message
    assert outcome.fact.usage.input_tokens == INPUT_TOKENS
    assert len(server.seen) == 1


async def test_an_answer_cut_at_its_token_limit_is_repaired() -> None:
    outcome, server = await ask(says('{"action": "RESP', finish="MAX_TOKENS"), GOOD)
    assert isinstance(outcome.fact, DecisionMade)
    assert "limit of output tokens" in server.seen[1].body["contents"][2]["parts"][0]["text"]


async def test_a_model_that_always_thinks_is_asked_without_the_option_and_remembered() -> None:
    refusal = fails(400, "Budget 0 is invalid. This model only works in thinking mode.")
    with gemini(refusal, GOOD) as server:
        async with asker(server) as asking:
            first = await asking.answer(to_gemini())
            second = await asking.answer(to_gemini())
    assert isinstance(first.fact, DecisionMade)
    assert isinstance(second.fact, DecisionMade)
    assert ["thinkingConfig" in seen.body["generationConfig"] for seen in server.seen] == [True, False, False]


async def test_a_schema_that_the_api_refuses_is_left_out() -> None:
    outcome, server = await ask(fails(400, "The specified schema produces a constraint that has too many states"), GOOD)
    assert isinstance(outcome.fact, DecisionMade)
    assert ["responseJsonSchema" in seen.body["generationConfig"] for seen in server.seen] == [True, False]


async def test_any_other_bad_request_is_not_tried_again() -> None:
    outcome, server = await ask(fails(400, "Invalid value at contents"))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "model_refused_request"
    assert len(server.seen) == 1


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


async def test_other_kinds_are_asked_with_their_own_schema() -> None:
    schema = {"type": "object", "properties": {"confidence": {"type": "number"}}, "required": ["confidence"]}
    outcome, server = await ask(
        says('{"confidence": "high"}'),
        says('{"confidence": 0.7}'),
        kind=DecisionKind.CONFIDENCE,
        response_schema=schema,
    )
    assert isinstance(outcome.fact, DecisionMade)
    assert outcome.fact.decision == {"confidence": 0.7}
    assert server.seen[0].body["generationConfig"]["responseJsonSchema"] == schema


async def test_a_kind_without_its_schema_and_an_unknown_provider_are_refused() -> None:
    asking = Asker({})
    unknown = await asking.answer(request(model="nobody:x"))
    assert isinstance(unknown.fact, DecisionFailed)
    assert unknown.fact.code == "model_unknown"
    asking = Asker({"gemini": GeminiProvider(api_key=None)})
    bare = await asking.answer(to_gemini(kind=DecisionKind.REFLECT))
    assert isinstance(bare.fact, DecisionFailed)
    assert bare.fact.code == "request_invalid"


async def test_a_template_that_can_not_be_rendered_fails_the_decision() -> None:
    asking = Asker({"gemini": GeminiProvider(api_key=None)})
    outcome = await asking.answer(to_gemini(context=context(base_prompt="{{ secret }}")))
    assert isinstance(outcome.fact, DecisionFailed)
    assert outcome.fact.code == "prompt_invalid"
    assert outcome.fact.cost.usd == 0.0
