"""What the providers' prompt caches had is counted and priced; Claude is told what to keep."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.decider.asked_models import GOOD, ProviderApi, RecordingListener, made, serve
from tests.support.decider.decisions import USE_TOOL, context
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS, INPUT_TOKENS

from towpath_contracts.decisions.epoch_turns import EpochTurn, EpochTurns
from towpath_decider.core.prompt import render

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ, STORED = 700, 200
COUNTED: dict[str, tuple[str, dict[str, Any]]] = {
    "gemini": ("usageMetadata", {"cachedContentTokenCount": READ}),
    "openai": ("usage", {"prompt_tokens_details": {"cached_tokens": READ}}),
    "local": ("usage", {"prompt_tokens_details": {"cached_tokens": READ}}),
    "anthropic": (
        "usage",
        {
            "input_tokens": INPUT_TOKENS - READ - STORED,
            "cache_read_input_tokens": READ,
            "cache_creation_input_tokens": STORED,
        },
    ),
}
"""How each API says it."""


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=sorted(DIALECTS))
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ProviderApi]:
    """Every provider in turn."""
    async with serve(DIALECTS[request.param]) as served:
        yield served


def with_cache(api: ProviderApi) -> Answer:
    name, counts = COUNTED[api.name]
    answer = api.dialect.says(GOOD)
    return Answer(body={**answer.body, name: {**answer.body[name], **counts}})


async def test_b18_what_a_cache_had_is_part_of_the_input_and_costs_less(api: ProviderApi) -> None:
    plain, cached = made(await api.ask(api.dialect.says(GOOD))), made(await api.ask(with_cache(api)))
    assert (cached.usage.input_tokens, cached.usage.cached_tokens) == (INPUT_TOKENS, READ)
    assert cached.usage.total_tokens == plain.usage.total_tokens
    assert cached.usage.cache_write_tokens == (STORED if api.name == "anthropic" else 0)
    assert (plain.usage.cached_tokens, plain.usage.cache_write_tokens) == (0, 0)
    assert cached.cost.usd is not None and plain.cost.usd is not None
    assert cached.cost.usd < plain.cost.usd or api.name == "local"


async def test_answers_that_are_streamed_are_counted_alike(api: ProviderApi) -> None:
    told = made(await api.ask(api.dialect.streamed(with_cache(api)), listener=RecordingListener()))
    assert (told.usage.input_tokens, told.usage.cached_tokens) == (INPUT_TOKENS, READ)


def marks(body: dict[str, Any]) -> list[tuple[str, int]]:
    """Return which blocks the API is asked to keep everything up to: role, and place of the message."""
    said = [("system", body["system"]), *((one["role"], one["content"]) for one in body["messages"])]
    return [
        (role, place) for place, (role, blocks) in enumerate(said) for block in blocks if block.get("cache_control")
    ]


async def test_claude_keeps_the_system_part_and_everything_before_the_tail() -> None:
    turns = tuple(EpochTurn(step=step, steps_left=9, decision=USE_TOOL) for step in (1, 2))
    run = {"goal": "Ship", "progress": 0.5}
    asked = context(epoch_turns=EpochTurns(turns=turns), run_kind="goal", run=run)
    async with serve(DIALECTS["anthropic"]) as api:
        made(await api.ask(api.dialect.says(GOOD), context=asked))
        body = api.seen[0].body
        assert marks(body) == [("system", 0), ("user", 5)]
        *_, kept, tail = body["messages"][-1]["content"]
        assert kept["cache_control"] == {"type": "ephemeral"} and "cache_control" not in tail
        assert tail["text"] == render(asked).turns[-1].tail and "Progress so far" in tail["text"]


async def test_claude_is_told_of_the_turn_before_where_many_blocks_follow_it() -> None:
    calls = [{"tool_name": "crm.lookup", "tool_params": {"customer": str(number)}} for number in range(10)]
    turn = EpochTurn(step=1, steps_left=9, decision={**USE_TOOL, "action_details": {"calls": calls}})
    asked = context(epoch_turns=EpochTurns(turns=(turn,)))
    async with serve(DIALECTS["anthropic"], tool_switches={"anthropic": True}) as api:
        made(await api.ask(api.dialect.says(GOOD), context=asked))
        assert marks(api.seen[0].body) == [("system", 0), ("user", 1), ("user", 3)]
        assert [len(one["content"]) for one in api.seen[0].body["messages"]] == [1, 11, 11]


async def test_a_server_that_knows_no_marks_is_asked_without_them() -> None:
    async with serve(DIALECTS["anthropic"]) as api:
        refusal = api.dialect.fails(400, "system.0.cache_control: Extra inputs are not permitted")
        made(await api.ask(refusal, api.dialect.says(GOOD)))
        assert marks(api.seen[1].body) == []
        made(await api.ask(api.dialect.says(GOOD)))
        assert marks(api.seen[0].body) == [], "it is not told again"


async def test_claude_thinks_only_where_its_earlier_calls_are_told_in_words() -> None:
    asked = context(epoch_turns=EpochTurns(turns=(EpochTurn(step=1, steps_left=9, decision=USE_TOOL),)))
    async with serve(DIALECTS["anthropic"], tool_switches={"anthropic": True}) as api:
        for effort, kinds in ((None, {"text", "tool_use"}), ("low", {"text"})):
            settings = {} if effort is None else {"settings": {"reasoning_effort": effort}}
            made(await api.ask(api.dialect.says(GOOD), context=asked, **settings))
            assert {block["type"] for block in api.seen[0].body["messages"][1]["content"]} == kinds
