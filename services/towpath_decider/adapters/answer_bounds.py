"""How much of a provider's answer is read: its server may send without end, and all projects share the decider.

The bounds are of what was unpacked, and of what is on the wire; they hold while the answer comes: nothing beyond them
is kept, or read. What is read becomes objects of Python on the loop of all decisions, so values are counted before
that, and lines, which some SDK puts together one by one.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from towpath_contracts.strict_json import has_more_values
from towpath_decider.adapters.interim_answers import bound_interim_answers
from towpath_fabric.http.received_bodies import as_received

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Of an answer that comes whole: the longest that is taken, of half a megabyte, with six bytes for each character."""

MAX_STREAM_BYTES = 32 * 1024 * 1024
"""Of one that comes in pieces, each of which some servers wrap into half a kilobyte."""


MAX_VALUES = 10_000
"""Of an answer that comes whole, or of one event: each costs the SDK some 50 microseconds."""

MAX_EVENT_LINES = 100
"""Of one event, which has two or three."""

_EVENT_END = re.compile(rb"\n\n|\r\r|\r\n\r\n")
_LONGEST_END = 4


class _BoundedBody(httpx2.AsyncByteStream):
    """The unpacked body of *response*, whole or in whole *events*; raises ReadError beyond *most* bytes."""

    def __init__(self, response: httpx2.Response, most: int, *, events: bool) -> None:
        self._response = response
        self._most = most
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, held = 0, bytearray()
        async for piece in self._response.aiter_bytes():
            looked_at = max(0, len(held) - _LONGEST_END)
            size += len(piece)
            held += piece
            if size > self._most:
                raise httpx2.ReadError(f"the answer is longer than {self._most} bytes")
            if len(held) > MAX_BODY_BYTES:
                raise httpx2.ReadError(f"an event is longer than {MAX_BODY_BYTES} bytes")
            ends = _EVENT_END.finditer(held, looked_at) if self._events else ()
            end = max((found.end() for found in ends), default=0)
            if end:
                yield _checked(bytes(held[:end]))
                del held[:end]
        if held:
            yield _checked(bytes(held), lines=self._events)

    async def aclose(self) -> None:
        await self._response.aclose()


def _checked(data: bytes, *, lines: bool = True) -> bytes:
    """Return *data*, one event or several; raises ReadError where one has too many values or lines."""
    if has_more_values(data, MAX_VALUES) or (lines and _lines(data) > MAX_EVENT_LINES):
        for event in _EVENT_END.split(data) if lines else (data,):
            if has_more_values(event, MAX_VALUES):
                raise httpx2.ReadError(f"the answer has more than {MAX_VALUES} values at once")
            if lines and _lines(event) > MAX_EVENT_LINES:
                raise httpx2.ReadError(f"an event has more than {MAX_EVENT_LINES} lines")
    return data


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r")


async def bound_body(response: httpx2.Response) -> None:
    """Let at most so much of *response* be read; a hook of the HTTP client, called before anything was."""
    kind = response.headers.get("content-type", "").lower()
    events = kind.startswith("text/event-stream")
    most = MAX_STREAM_BYTES if events else MAX_BODY_BYTES
    packed = as_received(response, response.request, most)
    response.stream = _BoundedBody(packed, most, events=events)
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)


def client_options() -> dict[str, Any]:
    """Return how a provider's HTTP client is made: it follows no redirect, since the key would go along."""
    hooks = {"request": [bound_interim_answers], "response": [bound_body]}
    return {"follow_redirects": False, "event_hooks": hooks}
