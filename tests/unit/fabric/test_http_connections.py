"""Connections that send nothing useful are closed, and strangers crowd out only themselves: on a real server.

These tests fail where uvicorn begins or ends a request in another way than `BoundedHttpProtocol` expects.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from towpath_fabric.http.connections import ConnectionLimits, bounded_protocol, vouch_for_connection

NEVER_S = 3_600.0
LONG_S = 20.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GET_WITH_KEY = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"


async def application(scope: Any, _receive: Any, send: Any) -> None:
    """Answer at once, and know whoever sends a header Authorization."""
    if any(name == b"authorization" for name, _ in scope["headers"]):
        vouch_for_connection(scope)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(
    *,
    header_s: float = NEVER_S,
    strangers: int = 100,
    idle: int = 100,
    taken_s: float = NEVER_S,
    app: Any = application,
) -> AsyncIterator[int]:
    """Give the port of a server with these limits."""
    limits = ConnectionLimits(header_s=header_s, strangers=strangers, idle=idle, taken_s=taken_s)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, http=bounded_protocol(limits), ws="none", lifespan="off", log_config=None
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer_to(self, request: bytes) -> bytes:
        """Send *request* and return the body of its answer."""
        self.writer.write(request)
        await self.reader.readuntil(b"\r\n\r\n")
        return await self.reader.readexactly(2)

    async def is_closed(self) -> bool:
        """Wait until the server closes; False where it does not."""
        try:
            async with asyncio.timeout(LONG_S):
                with suppress(ConnectionError):
                    assert await self.reader.read() == b""
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def connected(port: int, count: int = 1) -> AsyncIterator[list[Client]]:
    """Give *count* connections, made one after the other."""
    clients = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.writer.close()


async def test_who_sends_no_whole_headers_is_cut_off() -> None:
    async with serving(header_s=0.2) as port, connected(port, 5) as (silent, begun, slow, second, body):
        begun.writer.write(GET[:20])
        assert await second.answer_to(GET_WITH_KEY) == b"ok"
        second.writer.write(GET[:20])
        assert await body.answer_to(HALF_BODY) == b"ok"

        async def drip() -> None:
            with suppress(ConnectionError):
                while True:
                    for client in (slow, body):
                        client.writer.write(b"x")
                        await client.writer.drain()
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        for client in (silent, begun, slow, second, body):
            assert await client.is_closed()
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)


async def test_a_stranger_has_less_time_for_the_next_request_than_who_has_a_key() -> None:
    async with serving(header_s=0.2) as port, connected(port, 2) as (stranger, known):
        assert await known.answer_to(GET_WITH_KEY) == b"ok"
        assert await stranger.answer_to(GET) == b"ok"
        assert await stranger.is_closed()
        assert await known.answer_to(GET) == b"ok"


async def test_who_has_a_key_keeps_a_connection_on_which_a_body_was_refused() -> None:
    """The answer goes out before the body is in; its rest comes in time, and then nothing is waited for."""
    post = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nContent-Length: 100\r\n\r\n{"
    async with serving(header_s=0.2) as port, connected(port, 2) as (whole, half):
        assert await whole.answer_to(post) == b"ok"
        assert await half.answer_to(post) == b"ok"
        whole.writer.write(b"x" * 99)
        assert await half.is_closed()
        await asyncio.sleep(0.2)
        assert await whole.answer_to(GET) == b"ok"


async def test_a_flood_of_strangers_closes_the_oldest_of_them_and_nobody_else() -> None:
    async with serving(strangers=3) as port, connected(port, 2) as (known, pipelined):
        assert await known.answer_to(GET_WITH_KEY) == b"ok"
        assert await pipelined.answer_to(GET_WITH_KEY) == b"ok"
        async with connected(port, 5) as strangers:
            for client in strangers[:2]:
                assert await client.is_closed()
            assert await strangers[2].answer_to(GET) == b"ok"
            assert await known.answer_to(GET) == b"ok"
            pipelined.writer.write(GET + GET)
            assert await pipelined.answer_to(b"") == b"ok"
            assert await pipelined.answer_to(b"") == b"ok"


async def test_connections_without_a_request_are_bounded() -> None:
    async with serving(idle=2) as port, connected(port, 3) as clients:
        for client in clients:
            assert await client.answer_to(GET_WITH_KEY) == b"ok"
        assert await clients[0].is_closed()
        assert await clients[1].answer_to(GET) == b"ok"


LARGE = b"x" * 16_000_000


async def large(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"16000000")]})
    await send({"type": "http.response.body", "body": LARGE})


async def test_who_takes_nothing_of_its_answer_is_cut_off() -> None:
    async with serving(app=large, taken_s=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        writer.write(GET)
        await asyncio.sleep(1.0)
        with suppress(ConnectionError):
            async with asyncio.timeout(LONG_S):
                got = 0
                while piece := await reader.read(65_536):
                    got += len(piece)
        assert got < len(LARGE)
        writer.close()


async def test_who_takes_its_answer_slowly_gets_all_of_it() -> None:
    async with serving(app=large, taken_s=1.0) as port:  # a third of what it takes, and a busy machine may stand still
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        writer.write(GET)
        got = 0
        async with asyncio.timeout(LONG_S):
            while got < len(LARGE):
                piece = await reader.read(400_000)
                assert piece, f"cut off after {got} bytes"
                got += len(piece)
                await asyncio.sleep(0.001 if got % 7 else 0.05)
        writer.close()


async def test_a_request_with_two_ends_is_the_last_of_its_connection() -> None:
    """Without the close the bytes behind the one end may be another request that somebody put in (RFC 9112 6.1)."""
    both = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(both + GET)
        async with asyncio.timeout(LONG_S):
            answered = await reader.read()
        assert answered.count(b"HTTP/1.1 200") == 1
        assert b"connection: close" in answered.lower()
        writer.close()
