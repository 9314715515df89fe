"""Settings of models, as each provider's API takes them: through the real SDKs, to servers that speak their APIs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.decider.asked_models import GOOD, ProviderApi, made, serve
from tests.support.decider.model_servers import DIALECTS

from towpath_contracts.networks.model_settings import ModelSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL = ModelSettings(temperature=0.3, top_p=0.9, seed=7, stop=("END",), reasoning_effort="low")

SENT: dict[str, dict[str, Any]] = {
    "gemini": {
        "temperature": 0.3,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["END"],
        "thinkingConfig": {"thinkingBudget": 1_024},
    },
    "openai": {"temperature": 0.3, "top_p": 0.9, "seed": 7, "stop": ["END"], "reasoning_effort": "low"},
    "local": {
        "temperature": 0.3,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": True},
    },
    "anthropic": {"stop_sequences": ["END"], "thinking": {"type": "enabled", "budget_tokens": 1_024}},
}
"""Claude has no seed, and takes neither temperature nor top_p beside thinking."""

NAMES = ("temperature", "topP", "top_p", "seed", "stop", "stopSequences", "stop_sequences")


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=sorted(DIALECTS))
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ProviderApi]:
    """Every provider in turn."""
    async with serve(DIALECTS[request.param]) as served:
        yield served


def sent(api: ProviderApi, place: int = 0) -> dict[str, Any]:
    body = api.seen[place].body
    found: dict[str, Any] = body.get("generationConfig", body)
    return found


async def test_b15_settings_are_sent_as_the_api_names_them(api: ProviderApi) -> None:
    """Row B15: settings of models."""
    made(await api.ask(api.dialect.says(GOOD), settings=ALL))
    body = sent(api)
    body = {**body, "thinkingConfig": {"thinkingBudget": 1_024}} if "thinkingConfig" in body else body
    assert {name: value for name, value in body.items() if name in {*NAMES, *SENT[api.name]}} == SENT[api.name]


async def test_nothing_is_sent_that_nobody_chose(api: ProviderApi) -> None:
    made(await api.ask(api.dialect.says(GOOD)))
    assert not set(NAMES) & sent(api).keys()
    assert not api.dialect.thinks(api.seen[0])


async def test_without_thinking_every_provider_takes_a_temperature(api: ProviderApi) -> None:
    made(await api.ask(api.dialect.says(GOOD), settings=ModelSettings(temperature=0.0)))
    assert sent(api)["temperature"] == 0.0
    assert not api.dialect.thinks(api.seen[0])


async def test_a_setting_that_a_model_does_not_take_is_left_out_from_then_on(api: ProviderApi) -> None:
    refusal = api.dialect.fails(400, "Unsupported parameter: 'temperature' is not supported with this model.")
    cool = ModelSettings(temperature=0.1, top_p=0.5)
    model = f"{api.name}:of-one-temperature"
    made(await api.ask(refusal, api.dialect.says(GOOD), settings=cool, model=model))
    first = [sent(api, place).get("temperature") for place in range(2)]
    made(await api.ask(api.dialect.says(GOOD), settings=cool, model=model))
    assert [*first, sent(api).get("temperature")] == [0.1, None, None]
    assert 0.5 in (sent(api).get("topP"), sent(api).get("top_p"))


async def test_a_value_that_is_refused_is_left_out_for_that_request_alone(api: ProviderApi) -> None:
    refusal = api.dialect.fails(400, "temperature: must be at most 1")
    model = f"{api.name}:of-little-heat"
    made(await api.ask(refusal, api.dialect.says(GOOD), settings=ModelSettings(temperature=2.0), model=model))
    made(await api.ask(api.dialect.says(GOOD), settings=ModelSettings(temperature=1.0), model=model))
    assert sent(api)["temperature"] == 1.0
