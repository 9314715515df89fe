"""How many interim answers (HTTP 1xx) of a provider's server are read before its answer.

The HTTP client reads them all, without a pause as long as some have arrived: each takes the loop of all decisions some
50 microseconds, and a server can send thousands in one piece. So they are counted in what arrives, before the client
sees it. What comes behind the head of an answer is not looked at: a body may hold anything.

The client tells of its connections by the `trace` extension of a request; it has no other place for this.
"""

import re
from collections.abc import Mapping
from typing import Any

import httpx2

MAX_INTERIM = 100
"""For one request. Servers send one or two, or one every few seconds while they work."""

MAX_INTERIM_BYTES = 64 * 1024

_STATUS = re.compile(rb"HTTP/[0-9]\.[0-9] 1")
_STATUS_LENGTH = len("HTTP/1.1 1")
_HEAD_END = re.compile(rb"\n\r?\n")
_CONNECTED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")


class InterimAnswerCounter:
    """Counts the interim answers to the newest request of one connection."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Expect interim answers: something was asked."""
        self._expects = True
        self._count = 0
        self._size = 0
        self._held = b""

    def take(self, data: bytes) -> None:
        """Look at what has arrived; raises ReadError where there are too many, or they are too long."""
        if not self._expects:
            return
        held, place = self._held + data, 0
        while len(held) - place >= _STATUS_LENGTH:
            if _STATUS.match(held, place) is None:  # the answer itself, or nothing that the client reads
                self._expects, self._held = False, b""
                return
            head = _HEAD_END.search(held, place)
            if head is None:
                break
            self._count += 1
            self._size += head.end() - place
            self._check(self._size)
            place = head.end()
        self._held = held[place:]
        self._check(self._size + len(self._held))

    def _check(self, size: int) -> None:
        if self._count > MAX_INTERIM:
            raise httpx2.ReadError(f"the server sends more than {MAX_INTERIM} interim answers")
        if size > MAX_INTERIM_BYTES:
            raise httpx2.ReadError(f"the server sends more than {MAX_INTERIM_BYTES} bytes of interim answers")


async def bound_interim_answers(request: httpx2.Request) -> None:
    """Have interim answers counted; a hook of the HTTP client, called before *request* is sent."""
    request.extensions["trace"] = _on_event


async def _on_event(name: str, info: Mapping[str, Any]) -> None:
    if name.endswith(_CONNECTED):
        _count_on(info["return_value"])


def _count_on(stream: Any) -> None:
    """Count on what *stream* reads, anew after each time that it has written."""
    counter, read, write = InterimAnswerCounter(), stream.read, stream.write

    async def counted_read(max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = await read(max_bytes, timeout)
        counter.take(data)
        return data

    async def noted_write(buffer: bytes, timeout: float | None = None) -> None:
        counter.begin()
        await write(buffer, timeout)

    stream.read, stream.write = counted_read, noted_write
