"""Answers that come in pieces: putting them together takes time in proportion to their length."""

from collections.abc import AsyncIterator
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_decider.adapters.stream_assembly import assemble_message, assemble_stream

PIECES = 120_000
KIND = SimpleNamespace(construct=lambda **fields: fields)


def part(fields: dict[str, Any]) -> Any:
    return SimpleNamespace(to_dict=lambda: dict(fields))


async def message(kind: str, begun: dict[str, Any], delta: Any) -> AsyncIterator[Any]:
    yield SimpleNamespace(type="message_start", message=part({"usage": {}}))
    yield SimpleNamespace(type="content_block_start", index=0, content_block=part({"type": kind, **begun}))
    for _ in range(PIECES):
        yield SimpleNamespace(type="content_block_delta", index=0, delta=delta)
    yield SimpleNamespace(type="message_stop")


@pytest.mark.parametrize(
    ("kind", "begun", "delta", "field"),
    [
        ("text", {"text": ""}, {"type": "text_delta", "text": "1234"}, "text"),
        ("tool_use", {"input": {}}, {"type": "input_json_delta", "partial_json": "1234"}, "input"),
    ],
)
async def test_a_long_message_of_claude_is_put_together_in_short_time(
    kind: str, begun: dict[str, Any], delta: dict[str, Any], field: str
) -> None:
    began = process_time()
    whole = await assemble_message(message(kind, begun, SimpleNamespace(**delta)), lambda _: None, KIND)
    assert whole["content"] == [{"type": kind, field: "1234" * PIECES}]
    assert process_time() - began < 2


async def test_a_native_call_in_many_pieces_is_put_together_in_short_time() -> None:
    call = SimpleNamespace(index=0, function=SimpleNamespace(name=None, arguments="12345678"))
    delta = SimpleNamespace(content=None, refusal=None, tool_calls=[call] * PIECES)
    choice = SimpleNamespace(index=0, finish_reason="tool_calls", delta=delta)

    async def chunks() -> AsyncIterator[Any]:
        yield SimpleNamespace(usage=None, choices=[choice])

    began = process_time()
    whole = await assemble_stream(chunks(), lambda _: None, KIND)
    made = whole["choices"][0]["message"]["tool_calls"]
    assert made == [{"type": "function", "function": {"name": "", "arguments": "12345678" * PIECES}}]
    assert process_time() - began < 2
