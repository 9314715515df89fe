"""Answers that are streamed, for every provider alike: the real SDKs over real HTTP, against local servers."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, RecordingListener, failed, made, serve
from tests.support.decider.decisions import RESPOND
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS, INPUT_TOKENS, OUTPUT_TOKENS, Claude, OpenAi

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=sorted(DIALECTS))
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ProviderApi]:
    """Every provider in turn."""
    async with serve(DIALECTS[request.param]) as served:
        yield served


async def test_b12_an_answer_arrives_while_it_is_written_and_counts_as_if_it_came_whole(api: ProviderApi) -> None:
    """Row B12: text as it comes, through each SDK's own streaming; same retries and repair as without."""
    says, streamed, listener = api.dialect.says, api.dialect.streamed, RecordingListener()
    answers = (streamed(says(GOOD), without_end=True), streamed(says("I would.", cut_off=True)), streamed(says(GOOD)))
    outcome = await api.ask(*(answers if api.name == "anthropic" else answers[1:]), listener=listener)
    fact = made(outcome)
    assert fact.decision == RESPOND
    assert (
        listener.texts[-2:] == ["I would.", GOOD]
        and len(listener.calls[-1]) > 3
        and listener.ended == len(listener.calls)
    )
    assert (fact.usage.input_tokens, fact.usage.output_tokens) == (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS)
    assert fact.cost.usd == pytest.approx(2 * api.dialect.usd)
    assert "limit of output tokens" in api.sent_turns(-1)[-1][1]
    assert (
        "SAFETY" in failed(await api.ask(streamed(api.dialect.refuses()), listener=listener), "model_refused").message
    )
    failed(await api.ask(api.dialect.fails(401), listener=listener), "model_unauthorized")


async def test_b12_a_server_that_does_not_stream_answers_all_the_same(api: ProviderApi) -> None:
    whole, listener = api.dialect.says(GOOD), RecordingListener()
    assert made(await api.ask(whole, listener=listener)).decision == RESPOND
    no_page, lost = Answer(body=b"<html>oops</html>"), Answer(body=api.dialect.streamed(whole).body, cut=True)
    outcome = await api.ask(no_page, lost, api.dialect.streamed(whole), listener=listener)
    assert made(outcome).decision == RESPOND and len(api.seen) == 3
    async with serve(api.dialect) as served:
        refusal = api.dialect.fails(400, "Streaming is not supported with this model.")
        assert made(await served.ask(refusal, whole, listener=listener)).decision == RESPOND
        made(await served.ask(whole, listener=listener))
        assert len(served.seen) == 1, "it is asked to stream no more"


async def test_b12_a_failure_in_the_middle_of_a_stream_is_tried_again() -> None:
    dialect, clock = DIALECTS["anthropic"], Clock()
    assert isinstance(dialect, Claude)
    begun = dialect.streamed(dialect.says(GOOD), without_end=True)
    sent_turns = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    broken = Answer(body=begun.body + f"event: error\ndata: {sent_turns}\n\n".encode(), headers=begun.headers)
    async with serve(dialect) as api:
        outcome = await api.ask(broken, dialect.streamed(dialect.says(GOOD)), clock=clock, listener=RecordingListener())
    assert made(outcome).decision == RESPOND and clock.waited == [1.0]


@pytest.mark.parametrize("name", ["openai", "local"])
async def test_b12_native_calls_that_come_in_pieces_are_assembled(name: str) -> None:
    """Row B12: deltas assembled."""
    dialect = DIALECTS[name]
    assert isinstance(dialect, OpenAi)
    called = dialect.calls_tools(("echo", '{"text":"a long one"}'), ("pay", '{"amount":5}'))
    async with serve(dialect) as api:
        decision = made(await api.ask(dialect.streamed(called), listener=RecordingListener())).decision
    assert decision["action_details"]["calls"] == [
        {"tool_name": "echo", "tool_params": '{"text":"a long one"}'},
        {"tool_name": "pay", "tool_params": '{"amount":5}'},
    ]
