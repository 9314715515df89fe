"""What errors of the APIs mean: each recorded shape, through the real SDK, to a code, a retry and a wait."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
import structlog
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, failed, made, serve
from tests.support.decider.decisions import context
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS, INPUT_TOKENS, KEY, OUTPUT_TOKENS
from tests.support.decider.recorded_errors import ERRORS, MINUTE, RecordedError, exhausted, key_fault, quota

from towpath_contracts.decisions.model_checks import CheckModel, ModelChecked
from towpath_contracts.problems.registry import ProblemError
from towpath_decider.app.model_checker import ModelChecker
from towpath_decider.app.model_readiness import ModelReadiness
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


def checker(apis: dict[str, ProviderApi], *, limit_s: float = 180.0) -> ModelChecker:
    """Return what tries the models of the real providers."""
    providers = {name: api.provider for name, api in apis.items()}
    return ModelChecker(providers, ModelReadiness(None, {}), structlog.stdlib.get_logger(), limit_s=limit_s)  # type: ignore[arg-type]


async def test_a_model_is_tried_with_one_small_call(apis: dict[str, ProviderApi]) -> None:
    for name, api in apis.items():
        for answer in (api.dialect.says('{"ok": true}'), api.dialect.says('{"o', cut_off=True)):
            api.server.play(answer)
            model = f"{name}:{api.dialect.model}"
            found = await checker(apis).check_model(CheckModel(project="default", model=model))
            assert (found.model, found.works, found.code, found.remedy) == (model, True, "", "")
            assert (found.usage.model_calls, found.usage.input_tokens, found.usage.output_tokens) == (
                *(1, INPUT_TOKENS),
                OUTPUT_TOKENS,
            )
            (seen,) = api.seen
            assert api.dialect.limit(seen) == 64 and len(json.dumps(seen.body)) < 900, "it costs next to nothing"
            assert api.dialect.key(seen) == KEY


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (401, "model_unauthorized", "Give the deciders a key"),
        (404, "model_not_found", "Look at the name"),
        (429, "model_rate_limited", "have the provider raise the limit"),
        (500, "model_unavailable", "reach the provider's address"),
        (400, "model_refused_request", "runs would be refused alike"),
    ],
)
async def test_what_a_tried_model_lacks_comes_with_a_remedy_and_without_the_key(
    apis: dict[str, ProviderApi], status: int, code: str, remedy: str
) -> None:
    for name, api in apis.items():
        api.server.play(api.dialect.fails(status, f"no, not with {KEY}"))
        found = await checker(apis).check_model(CheckModel(project="default", model=f"{name}:some-model"))
        assert (found.works, found.code) == (False, code) and remedy in found.remedy
        assert "no, not with ***" in found.detail and KEY not in found.model_dump_json()
        assert len(api.seen) == 1, "it is asked once"


async def test_a_model_that_says_nothing_in_time_is_told_from_one_that_answers(apis: dict[str, ProviderApi]) -> None:
    api = apis["gemini"]
    api.server.play(replace(api.dialect.says("{}"), delay_s=2.0))
    found = await checker(apis, limit_s=0.2).check_model(CheckModel(project="default", model="gemini:slow"))
    assert (found.works, found.code, found.detail) == (False, "model_timeout", "no answer within 0.2 s")
    assert 200 <= found.duration_ms < 2_000


async def test_few_models_are_tried_at_once(apis: dict[str, ProviderApi]) -> None:
    api = apis["gemini"]
    api.server.play(replace(api.dialect.says("{}"), delay_s=0.5))
    tries = checker(apis)
    asked = CheckModel(project="default", model="gemini:slow")
    found = await asyncio.gather(*(tries.check_model(asked) for _ in range(5)), return_exceptions=True)
    (refused,) = [one for one in found if isinstance(one, ProblemError)]
    assert refused.problem.code == "overloaded" and sum(isinstance(one, ModelChecked) for one in found) == 4
    assert (await tries.check_model(asked)).works, "those that have ended leave room"
