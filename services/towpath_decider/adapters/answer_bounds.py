"""How much of a provider's answer is read: its server may send without end, and all projects share the decider.

The bound is of what was unpacked, and holds while the answer comes: nothing beyond it is kept, or read.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Of an answer that comes whole: the longest that is taken, of half a megabyte, with six bytes for each character."""

MAX_STREAM_BYTES = 32 * 1024 * 1024
"""Of one that comes in pieces, each of which some servers wrap into half a kilobyte."""


class _BoundedBody(httpx2.AsyncByteStream):
    """The unpacked body of *response*; raises ReadError beyond *most* bytes."""

    def __init__(self, response: httpx2.Response, most: int) -> None:
        self._response = response
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._response.aiter_bytes():
            size += len(piece)
            if size > self._most:
                raise httpx2.ReadError(f"the answer is longer than {self._most} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


async def bound_body(response: httpx2.Response) -> None:
    """Let at most so much of *response* be read; a hook of the HTTP client, called before anything was."""
    kind = response.headers.get("content-type", "").lower()
    most = MAX_STREAM_BYTES if kind.startswith("text/event-stream") else MAX_BODY_BYTES
    packed = httpx2.Response(
        response.status_code, headers=response.headers, stream=response.stream, request=response.request
    )
    response.stream = _BoundedBody(packed, most)
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)


def client_options() -> dict[str, Any]:
    """Return how a provider's HTTP client is made: it follows no redirect, since the key would go along."""
    return {"follow_redirects": False, "event_hooks": {"response": [bound_body]}}
