"""Interim answers (HTTP 1xx) of a provider's server are read up to a bound, and its answer as it is."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from towpath_decider.adapters.answer_bounds import client_options
from towpath_decider.adapters.interim_answers import MAX_INTERIM_BYTES

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BODY = CONTINUE * 5_000
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY


@contextlib.asynccontextmanager
async def server(*pieces: bytes, endless: bytes = b"") -> AsyncIterator[str]:
    """A server that sends *pieces* to each request, and then *endless* for as long as it is read."""
    ended: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.Event())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                while endless:
                    writer.write(endless)
                    await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        ended[-1].set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    finally:  # the client has closed its connection
        listening.close()
        await asyncio.gather(*(one.wait() for one in ended))


def client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(trust_env=False, **client_options())


@pytest.mark.parametrize(
    "sent",
    [CONTINUE * 2_000, b"HTTP/1.1 102 X\n\n" * 2_000, b"HTTP/1.1 103 E\r\nlink: " + b"x" * 65_536],
    ids=["many", "bare", "long"],
)
async def test_interim_answers_without_end_are_left_at_once(sent: bytes) -> None:
    async with server(endless=sent) as url, client() as http:
        worked = time.thread_time()
        async with asyncio.timeout(60):
            with pytest.raises(httpx2.ReadError, match="interim answers"):
                await http.get(url)
        assert time.thread_time() - worked < 0.5, "thousands take longer"


@pytest.mark.parametrize("count", [0, 1, 100])
@pytest.mark.parametrize("cut", [1, 7, 10_000_000])
async def test_an_answer_behind_a_few_of_them_is_read_whole_on_the_same_connection_too(count: int, cut: int) -> None:
    head, rest = (CONTINUE * count + ANSWER)[:3_000], (CONTINUE * count + ANSWER)[3_000:]
    pieces = [head[place : place + cut] for place in range(0, len(head), cut)]
    async with server(*pieces, rest) as url, client() as http:
        for _ in range(3):
            assert (await http.get(url)).content == BODY


async def test_the_bound_is_for_one_request_and_one_more_is_too_many() -> None:
    async with server(CONTINUE * 101 + ANSWER) as url, client() as http:
        with pytest.raises(httpx2.ReadError, match="interim answers"):
            await http.get(url)
    large = b"HTTP/1.1 103 E\r\nlink: " + b"x" * (MAX_INTERIM_BYTES // 2) + b"\r\n\r\n"
    async with server(large * 2 + ANSWER) as url, client() as http:
        with pytest.raises(httpx2.ReadError, match="bytes of interim answers"):
            await http.get(url)
