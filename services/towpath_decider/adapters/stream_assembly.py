"""Answers that come in pieces over HTTP: read along, and put together as the API would have given them whole.

What is put together is read by the same code as an answer that came whole. A server that does not stream, though
it was asked to, has answered all the same; one that refuses to is asked again without it.
"""

import json
import re
from collections.abc import AsyncIterable
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_decider.adapters.model_options import DroppableOption
from towpath_decider.adapters.provider import OnText

STREAM, STREAM_OPTIONS = "stream", "stream_options"
STREAMING = DroppableOption(name=STREAM, named=re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE))

CUT_SHORT = "its stream ended in the middle of the message"

MAX_STREAMED_CHARS = 1024 * 1024
"""Of what a model writes in pieces: each is passed on to who watches, and no answer is taken that is half as long."""

MAX_PARTS = 10_000
"""Of one answer: its texts and calls become objects of the SDK all at once, some 50 microseconds each, and pieces of
one of Gemini's are joined one by one."""

ERRORS = 400
"""Statuses from here on are errors; below, an error arrived within a stream that had begun well."""

_STATUS_OF = {
    "authentication_error": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "permission_error": 403,
    "rate_limit_error": 429,
    "request_too_large": 413,
}


def status_of(status: int, body: Any) -> int:
    """Return the status of an error, also where it arrived in the middle of an answer: by its type, else 500."""
    if status >= ERRORS:
        return status
    inner = body.get("error", body) if isinstance(body, dict) else {}
    return _STATUS_OF.get(str(inner.get("type", "")) if isinstance(inner, dict) else "", 500)


async def read_unstreamed(response: Any, kind: Any) -> Any:
    """Return the answer that a server gave whole, as the SDK's *kind*; None where it streams.

    Raises ValueError for a page of something else.
    """
    if "event-stream" in response.headers.get("content-type", ""):
        return None
    return kind.construct(**json.loads(await response.aread()))


async def assemble_stream(stream: AsyncIterable[Any], on_text: OnText, kind: Any) -> Any:
    """Put the chunks of a chat completion together as one of *kind*: its first choice, deltas of calls assembled."""
    text: list[str] = []
    refusal: list[str] = []
    calls: dict[int, _CallPieces] = {}
    about: JsonObject = {"usage": None, "finish_reason": None, "choices": False, "id": None, "model": None}
    length = StreamedLength()
    async for chunk in stream:
        about["usage"] = chunk.usage or about["usage"]
        about |= {name: getattr(chunk, name, None) or about[name] for name in ("id", "model")}
        for choice in chunk.choices or ():
            if choice.index:
                continue
            about |= {"choices": True, "finish_reason": choice.finish_reason or about["finish_reason"]}
            if choice.delta is None:
                continue
            text.append(choice.delta.content or "")
            refusal.append(choice.delta.refusal or "")
            length.add(text[-1], refusal[-1])
            on_text(text[-1])
            _assemble(calls, choice.delta.tool_calls or (), length)
    if calls and about["finish_reason"] is None:  # of calls nobody could see that the last ones are missing
        raise ValueError(CUT_SHORT)
    message = {
        "role": "assistant",
        "content": "".join(text) or None,
        "refusal": "".join(refusal) or None,
        "tool_calls": [{"type": "function", "function": calls[index].whole()} for index in sorted(calls)] or None,
    }
    choices = [{"index": 0, "finish_reason": about["finish_reason"], "message": message}]
    usage = about["usage"]
    counted = None if usage is None else usage.model_dump()
    named = {name: about[name] for name in ("id", "model")}
    return kind.construct(choices=choices if about["choices"] else [], usage=counted, **named)


async def assemble_message(stream: AsyncIterable[Any], on_text: OnText, kind: Any) -> Any:
    """Put the events of a message of Anthropic's together as one of *kind*.

    The arguments of a call stay the text that came: the SDK would complete what has no end. Raises ValueError where the
    stream ends before the message does.
    """
    message: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    ended = False
    length = StreamedLength()
    async for event in stream:
        match event.type:
            case "message_start":
                message = event.message.to_dict()
            case "content_block_start":
                length.add_parts()
                blocks[event.index] = event.content_block.to_dict()
            case "content_block_delta" if event.delta.type == "text_delta":
                pieces.setdefault((event.index, "text"), []).append(event.delta.text)
                length.add(event.delta.text)
                on_text(event.delta.text)
            case "content_block_delta" if event.delta.type == "input_json_delta":
                pieces.setdefault((event.index, "input"), []).append(event.delta.partial_json)
                length.add(event.delta.partial_json)
            case "message_delta":
                counted = {name: value for name, value in event.usage.to_dict().items() if value is not None}
                message |= event.delta.to_dict() | {"usage": message["usage"] | counted}
            case "message_stop":
                ended = True
            case _:  # the ends of blocks, and what models think
                pass
    if not ended:
        raise ValueError(CUT_SHORT)
    for (index, name), written in pieces.items():
        begun = blocks[index][name]
        blocks[index][name] = (begun if isinstance(begun, str) else "") + "".join(written)
    return kind.construct(**{**message, "content": [blocks[index] for index in sorted(blocks)]})


class StreamedLength:
    """Counts what has come of an answer, and raises ValueError where it does not end."""

    def __init__(self) -> None:
        self._chars = 0
        self._parts = 0

    def add(self, *texts: str) -> None:
        self._chars += sum(map(len, texts))
        if self._chars > MAX_STREAMED_CHARS:
            raise ValueError(f"more than {MAX_STREAMED_CHARS} characters came, and no end")

    def add_parts(self, count: int = 1) -> None:
        """Count so many more parts."""
        self._parts += count
        if self._parts > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} parts came, and no end")


class _CallPieces:
    """The pieces of one native call; they are joined once, as each time takes as long as what is there already."""

    def __init__(self) -> None:
        self.name: list[str] = []
        self.arguments: list[str] = []

    def whole(self) -> JsonObject:
        """Return the call as the API would have given it whole."""
        return {"name": "".join(self.name), "arguments": "".join(self.arguments)}


def _assemble(calls: dict[int, _CallPieces], deltas: Any, length: StreamedLength) -> None:
    """Add pieces of native calls to those that they belong to."""
    for place, delta in enumerate(deltas):
        index = delta.index if delta.index is not None else place
        if index not in calls:
            length.add_parts()
        call = calls.setdefault(index, _CallPieces())
        if delta.function is not None:
            length.add(delta.function.name or "", delta.function.arguments or "")
            call.name.append(delta.function.name or "")
            call.arguments.append(delta.function.arguments or "")
