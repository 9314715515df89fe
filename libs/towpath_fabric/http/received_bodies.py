"""Bodies of HTTP answers as the servers of others send them: what is taken from the wire, and how fast.

A limit of what was unpacked does not bound the work of unpacking: two kilobytes that were packed four times can stand
for gigabytes that hold nothing, and the loop of the process does nothing else meanwhile. So an answer is packed once at
most, and the bytes on the wire count too. Pieces that come without a pause, of one byte each for example, are read on
that loop as well: after every hundred a body rests for a moment, the longer the more bodies do.
"""

import asyncio
from collections.abc import AsyncIterator

import httpx2

PIECES_AT_ONCE = 100
"""Pieces that are read without a rest: some milliseconds of work."""

REST_S = 0.005
"""For each body that rests: together they leave the loop half of the time."""


class BodyTooLongError(httpx2.ReadError):
    """More came than is taken."""


class _ReceivedBody(httpx2.AsyncByteStream):
    """A body as it is on the wire; raises ReadError where it is *packed* more than once, or too long."""

    resting = 0

    def __init__(self, stream: httpx2.AsyncByteStream, packed: int, most: int | None) -> None:
        self._stream = stream
        self._packed = packed
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed > 1:
            raise httpx2.ReadError("the answer is packed more than once")
        size, pieces = 0, 0
        async for piece in self._stream:
            size += len(piece)
            if self._most is not None and size > self._most:
                raise BodyTooLongError(f"the answer is longer than {self._most} bytes")
            yield piece
            pieces += 1
            if pieces % PIECES_AT_ONCE == 0:
                await self._rest()

    async def _rest(self) -> None:
        _ReceivedBody.resting += 1
        try:
            await asyncio.sleep(REST_S * _ReceivedBody.resting)
        finally:
            _ReceivedBody.resting -= 1

    async def aclose(self) -> None:
        await self._stream.aclose()


def as_received(response: httpx2.Response, request: httpx2.Request, most: int | None) -> httpx2.Response:
    """Return *response* to *request*, of whose body at most *most* bytes are taken from the wire."""
    named = response.headers.get_list("content-encoding", split_commas=True)
    packed = sum(coding.strip().lower() not in ("", "identity") for coding in named)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    body = _ReceivedBody(response.stream, packed, most)
    return httpx2.Response(response.status_code, headers=response.headers, stream=body, request=request)
