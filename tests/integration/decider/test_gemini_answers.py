"""Native calls and finish reasons of Gemini, whole and in pieces, through the real SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, RecordingListener, failed, made, serve
from tests.support.decider.decisions import RESPOND
from tests.support.decider.gemini_server import INPUT_TOKENS, Answer, says
from tests.support.decider.model_servers import DIALECTS

from towpath_contracts.decisions.decision import UseTool, decision_adapter

pytestmark = pytest.mark.asyncio(loop_scope="module")

USED = {"promptTokenCount": INPUT_TOKENS, "totalTokenCount": INPUT_TOKENS}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def api() -> AsyncIterator[ProviderApi]:
    async with serve(DIALECTS["gemini"]) as served:
        yield served


def frame(*parts: dict[str, Any], finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "usageMetadata": USED}


def whole(*parts: dict[str, Any], finish: str = "STOP") -> Answer:
    return Answer(body=frame(*parts, finish=finish))


def streamed(*frames: dict[str, Any]) -> Answer:
    body = "".join(f"data: {json.dumps(one)}\n\n" for one in frames)
    return Answer(body=body.encode(), headers={"content-type": "text/event-stream"})


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}}


def piece(path: str, *, name: str = "", goes_on: bool = True, **value: Any) -> dict[str, Any]:
    part = {"partialArgs": [{"jsonPath": path, **value}], "willContinue": goes_on}
    return {"functionCall": {**part, **({"name": name} if name else {})}}


async def proposals(api: ProviderApi, answer: Answer, listener: RecordingListener | None = None) -> list[Any]:
    decision = decision_adapter.validate_python(made(await api.ask(answer, listener=listener)).decision)
    assert isinstance(decision, UseTool)
    return [(one.tool_name, one.tool_params) for one in decision.action_details.proposals()]


async def test_b5_native_calls_of_gemini_are_read_as_the_decision_they_mean(api: ProviderApi) -> None:
    """Row B5: tool arguments decoded (empty → {}), also where a model makes calls of the answer by itself."""
    one, two = call("crm.lookup", customer="ada"), {"functionCall": {"name": "crm.list"}}
    expected = [("crm.lookup", {"customer": "ada"}), ("crm.list", {})]
    assert await proposals(api, whole(one, two)) == expected
    chunks = streamed(frame(one), frame(two), frame(finish="STOP"))
    assert await proposals(api, chunks, RecordingListener()) == expected


async def test_arguments_that_come_in_pieces_are_put_together(api: ProviderApi) -> None:
    chunks = streamed(
        frame({"functionCall": {"name": "crm.note", "willContinue": True}}),
        frame(piece("$.text", stringValue="hello ")),
        frame(piece("$.text", stringValue="Ada"), piece("$.to[0].id", numberValue=7)),
        frame(piece("$.to[1].id", numberValue=8), piece("$['is urgent']", boolValue=True, goes_on=False)),
        frame(call("crm.list", all=True), finish="STOP"),
    )
    note = {"text": "hello Ada", "to": [{"id": 7}, {"id": 8}], "is urgent": True}
    assert await proposals(api, chunks, RecordingListener()) == [("crm.note", note), ("crm.list", {"all": True})]


async def test_a_piece_without_a_place_changes_nothing(api: ProviderApi) -> None:
    hostile = [piece(path, stringValue="x") for path in ("", "$", "$[0]", "$.a[999999999]", "$.b.c[0]..d")]
    chunks = streamed(frame(piece("$.b", name="crm.note", stringValue="y"), *hostile), frame(finish="STOP"))
    ((name, arguments),) = await proposals(api, chunks, RecordingListener())
    assert (name, arguments["b"]) == ("crm.note", "y")


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_arguments_that_are_no_object_are_sent_back_for_repair(api: ProviderApi, in_pieces: bool) -> None:
    bad = frame({"functionCall": {"name": "crm.lookup", "args": '{"customer": '}}, finish="STOP")
    listener = RecordingListener() if in_pieces else None
    good = streamed(frame({"text": GOOD}, finish="STOP")) if in_pieces else says(GOOD)
    fact = made(await api.ask(streamed(bad) if in_pieces else Answer(body=bad), good, listener=listener))
    assert fact.decision == RESPOND
    turns = api.sent_turns(1)
    assert turns[-2:][0] == ("assistant", '{"customer": ')
    assert "not JSON" in turns[-1][1]


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "RECITATION", "OTHER"])
async def test_what_went_wrong_by_chance_gets_another_try(api: ProviderApi, reason: str) -> None:
    clock = Clock()
    outcome = await api.ask(whole(finish=reason), says(GOOD), clock=clock)
    assert made(outcome).decision == RESPOND
    assert (clock.waited, made(outcome).usage.model_calls) == ([1.0], 2)


async def test_a_call_that_gemini_calls_malformed_is_never_made(api: ProviderApi) -> None:
    wrong = whole(call("crm.delete", customer="ada"), finish="MALFORMED_FUNCTION_CALL")
    fact = failed(await api.ask(wrong), "invalid_output")  # the run tells the model, and goes on
    assert "MALFORMED_FUNCTION_CALL" in fact.message
    assert len(api.seen) == 3


async def test_a_recitation_that_lasts_is_a_refusal(api: ProviderApi) -> None:
    fact = failed(await api.ask(whole({"text": "Once upon"}, finish="RECITATION")), "model_refused")
    assert ("RECITATION" in fact.message, len(api.seen)) == (True, 3)


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"])
async def test_a_filter_is_final_also_in_the_middle_of_a_text(api: ProviderApi, reason: str) -> None:
    for parts in ((), ({"text": GOOD[:20]},)):
        fact = failed(await api.ask(whole(*parts, finish=reason)), "model_refused")
        assert (reason in fact.message, len(api.seen)) == (True, 1)


async def test_a_prompt_that_is_blocked_is_final(api: ProviderApi) -> None:
    blocked = Answer(body={"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USED})
    fact = failed(await api.ask(blocked), "model_refused")
    assert ("SAFETY" in fact.message, len(api.seen)) == (True, 1)
