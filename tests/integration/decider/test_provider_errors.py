"""What errors of the APIs mean: each recorded shape, through the real SDK, to a code, a retry and a wait."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, failed, made, serve
from tests.support.decider.decisions import context
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS
from tests.support.decider.recorded_errors import ERRORS, MINUTE, RecordedError, exhausted, key_fault, quota

from towpath_decider.core.conversation import ModelCallFailure, converse
from towpath_decider.core.prompt import render

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def apis() -> AsyncIterator[dict[str, ProviderApi]]:
    """Every provider; SDKs are slow to start, so they are shared."""
    async with (
        serve(DIALECTS["gemini"]) as one,
        serve(DIALECTS["openai"]) as two,
        serve(DIALECTS["anthropic"]) as three,
        serve(DIALECTS["local"]) as four,
    ):
        yield {api.name: api for api in (one, two, three, four)}


@pytest.mark.parametrize("error", ERRORS, ids=[error.name for error in ERRORS])
async def test_an_error_means_a_code_a_retry_and_a_wait(apis: dict[str, ProviderApi], error: RecordedError) -> None:
    api = apis[error.provider]
    api.server.play(error.answer)
    question = next(converse(render(context()), lambda _: "")).question  # type: ignore[union-attr]
    found = await api.provider.complete(api.request(), question)
    assert isinstance(found, ModelCallFailure)
    assert (found.code, found.retryable, found.retry_after_s) == (error.code, error.again, error.wait)
    assert len(api.seen) == 1


async def test_the_same_errors_mean_the_same_where_answers_are_streamed(apis: dict[str, ProviderApi]) -> None:
    api, heard = apis["gemini"], list[str]()
    api.server.play(Answer(status=429, body=exhausted(*quota(MINUTE, retry="34s"))))
    question = next(converse(render(context()), lambda _: "")).question  # type: ignore[union-attr]
    found = await api.provider.complete(api.request(), question, heard.append)
    assert isinstance(found, ModelCallFailure)
    assert (found.code, found.retry_after_s, heard) == ("model_rate_limited", 34.0, [])


async def test_a_quota_of_a_minute_is_left_to_the_run_with_the_time_that_the_api_names(
    apis: dict[str, ProviderApi],
) -> None:
    clock, api = Clock(), apis["gemini"]
    fact = failed(
        await api.ask(Answer(status=429, body=exhausted(*quota(MINUTE, retry="34s"))), clock=clock),
        "model_rate_limited",
    )
    assert (fact.retry_after_s, clock.waited, len(api.seen)) == (34.0, [], 1)
    short = Answer(status=429, body=exhausted(*quota(MINUTE, retry="3s")))
    made(await api.ask(short, api.dialect.says(GOOD), clock=clock))
    assert clock.waited == [3.0]


async def test_a_few_interim_answers_are_passed_over_and_thousands_are_not_read(apis: dict[str, ProviderApi]) -> None:
    """The client reads as many as come without a pause, in which no decision of anybody goes on."""
    question = next(converse(render(context()), lambda _: "")).question  # type: ignore[union-attr]
    for api in apis.values():
        answer = api.dialect.says(GOOD)
        api.server.play(replace(answer, interim=3))
        assert not isinstance(await api.provider.complete(api.request(), question), ModelCallFailure), api.name
        api.server.play(replace(answer, interim=3_000))
        found = await api.provider.complete(api.request(), question)
        assert isinstance(found, ModelCallFailure), api.name
        assert (found.code, found.retryable) == ("model_unavailable", True)


async def test_a_wrong_key_of_gemini_says_what_to_do(apis: dict[str, ProviderApi]) -> None:
    wrong = Answer(status=400, body=key_fault("API key not valid. Please pass a valid API key."))
    fact = failed(await apis["gemini"].ask(wrong), "model_unauthorized")
    assert "GEMINI_API_KEY" in fact.message
