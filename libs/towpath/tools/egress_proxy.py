"""The only way out of a sandbox that was granted addresses: an HTTP proxy of the worker, for one program.

It accepts from a socket that listens in the sandbox's network. A connection goes to the address that the rules checked,
and nowhere else; what a program may hold is bounded in number, bytes and time, and of each connection host and port
are logged: no path, no header, nothing of what is sent.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Final, NamedTuple

import h11

from towpath.errors import ToolError
from towpath.tools.egress_rules import EgressLimits, EgressRules
from towpath.tools.proxy_request import INVALID, ProxyRequest, proxy_request
from towpath.tools.write_log import WriteLog

MAX_HEAD_BYTES: Final = 16 * 1024
CLOSE_S: Final = 2.0
"""For the last bytes of a connection that has ended."""

PACE_S: Final = 0.05
"""Between two connections of one program, so that it can't flood the log."""

LOOKUPS: Final = 2
"""Names of one program that are looked up at once: slow ones must not take all threads that the process has for it."""

MANY_CHUNKS: Final = 1_000
MEAN_CHUNK: Final = 64
"""Bytes that chunks of a body must have on average, if there are many: one of a byte costs as much as one of many."""

RETRY_S: Final = 1.0
"""After the process ran out of descriptors or memory."""

_PIECE: Final = 64 * 1024
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_ANSWERS: Final = {
    INVALID: "400 Bad Request",
    "http_host_unknown": "502 Bad Gateway",
    "http_failed": "502 Bad Gateway",
    "http_timeout": "504 Gateway Timeout",
    "http_too_many_connections": "503 Service Unavailable",
}
_FORBIDDEN: Final = "403 Forbidden"
_FAILED: Final = frozenset({"http_host_unknown", "http_failed", "http_timeout"})


class EgressProxy:
    """Serves the program of one sandbox until it is closed."""

    def __init__(self, listener: socket.socket, rules: EgressRules, limits: EgressLimits, write_log: WriteLog) -> None:
        self._listener = listener
        self._rules = rules
        self._limits = limits
        self._write_log = write_log
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._under_way: set[asyncio.Task[str]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="egress proxy")
        self._accepting.add_done_callback(self._end)

    def close(self) -> None:
        """End every connection, and take no more."""
        self._accepting.cancel()

    def _end(self, _accepting: "asyncio.Task[None]") -> None:
        self._listener.close()
        for connection in self._connections:
            connection.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            crowded = len(self._connections) >= self._limits.max_connections
            connection = asyncio.create_task(self._serve(client, crowded=crowded), name="egress connection")
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)
            await asyncio.sleep(PACE_S)

    async def _serve(self, accepted: socket.socket, *, crowded: bool) -> None:
        with accepted, contextlib.suppress(OSError):  # whoever goes away
            client = _Peer(*await asyncio.open_connection(sock=accepted))
            asked: ProxyRequest | None = None
            try:
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
                head = await self._head(connection, client.reader)
                if head is None:
                    return
                asked = proxy_request(head)
                async with self._connected(asked, crowded=crowded) as server:
                    await self._relay(asked, connection, client, server)
            except ToolError as error:
                self._log("failed" if error.code in _FAILED else "refused", asked, code=error.code)
                client.writer.write(_answer(error))
            finally:
                await client.close()

    async def _head(self, connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        """Read one request up to its body; None where nothing was asked."""
        try:
            async with asyncio.timeout(self._limits.start_s):
                while (event := connection.next_event()) is h11.NEED_DATA:
                    connection.receive_data(await reader.read(_PIECE))
        except h11.RemoteProtocolError as error:
            raise ToolError(INVALID, str(error)) from error
        except TimeoutError as error:
            raise ToolError("http_timeout", "no whole request came in time") from error
        return event if isinstance(event, h11.Request) else None

    @contextlib.asynccontextmanager
    async def _connected(self, asked: ProxyRequest, *, crowded: bool) -> "AsyncGenerator[_Peer, None]":
        """Connect to the one address that was checked."""
        if crowded:  # said now, so that the log knows of whom; by the pace those who wait to hear it are few
            message = f"more than {self._limits.max_connections} connections at once"
            raise ToolError("http_too_many_connections", message)
        try:
            async with asyncio.timeout(self._limits.start_s):
                address = await self._address_of(asked)
                self._log("allowed", asked)
                server = _Peer(*await asyncio.open_connection(address, asked.port))
        except TimeoutError as error:
            raise ToolError("http_timeout", f"{asked.host} did not answer in time") from error
        except OSError as error:
            raise ToolError("http_failed", f"{asked.host} can't be reached: {error.strerror or error}") from error
        try:
            yield server
        finally:
            await server.close()

    async def _address_of(self, asked: ProxyRequest) -> str:
        """Look the address up; its place is free again when it has ended, not when nobody waits any more.

        The thread that resolves a name can't be stopped: it goes on beyond the time of its connection.
        """
        await self._lookups.acquire()
        lookup = asyncio.create_task(self._rules.address_of(asked.host, asked.port), name="egress lookup")
        self._under_way.add(lookup)
        lookup.add_done_callback(self._end_lookup)
        return await asyncio.shield(lookup)

    def _end_lookup(self, lookup: "asyncio.Task[str]") -> None:
        self._under_way.discard(lookup)
        self._lookups.release()
        if not lookup.cancelled():
            lookup.exception()  # read, since perhaps nobody else does

    async def _relay(self, asked: ProxyRequest, connection: h11.Connection, client: "_Peer", server: "_Peer") -> None:
        exchange = _Exchange(self._limits)
        if asked.head is None:
            early, _ = connection.trailing_data
            client.writer.write(_ESTABLISHED)
            sending = exchange.copy(client.reader, server.writer, early)
        else:
            sending = exchange.send_request(asked.head, connection, client.reader, server.writer)
        cut = await exchange.run(sending, exchange.copy(server.reader, client.writer))
        if cut:
            self._log("cut", asked, code=cut)
            client.abort()
            server.abort()

    def _log(self, what: str, asked: ProxyRequest | None, **fields: str) -> None:
        place: dict[str, Any] = {} if asked is None else {"host": asked.host, "port": asked.port}
        self._write_log("info" if what == "allowed" else "warning", f"egress {what}", {**place, **fields})


class _Peer(NamedTuple):
    """One end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        """Send what is left, for a moment: who does not read holds up nothing."""
        try:
            self.writer.close()
            async with asyncio.timeout(CLOSE_S):
                await self.writer.wait_closed()
        except (TimeoutError, OSError):
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()


class _Exchange:
    """What goes both ways over one connection, within its bytes and its time."""

    def __init__(self, limits: EgressLimits) -> None:
        self._limits = limits
        self._left = limits.max_bytes
        self._idle = asyncio.timeout(limits.idle_s)

    async def run(self, sending: Coroutine[Any, Any, None], receiving: Coroutine[Any, Any, None]) -> str:
        """Run both until the server has answered or one breaks off; return the code of the limit that ended it."""
        tasks = [asyncio.create_task(one) for one in (receiving, sending)]
        tasks[0].add_done_callback(lambda _: tasks[1].cancel())
        try:
            async with asyncio.timeout(self._limits.max_s), self._idle:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        except TimeoutError:
            return "http_timeout"
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        return next((error.code for error in ended if isinstance(error, ToolError)), "")

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b"") -> None:
        """Copy *first* and what comes, up to the end."""
        piece = first or await reader.read(_PIECE)
        while piece:
            await self._write(writer, piece)
            piece = await reader.read(_PIECE)
        with contextlib.suppress(OSError, RuntimeError):  # the other end is gone already
            writer.write_eof()

    async def send_request(
        self, head: h11.Request, asked: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send one request with its body, and nothing that comes behind it."""
        sent = h11.Connection(h11.CLIENT)
        await self._write(writer, sent.send(head) or b"")
        pieces = sent_bytes = 0
        try:
            while not isinstance(event := asked.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    await asyncio.sleep(0)  # reading what is there already lets nobody else run
                    asked.receive_data(await reader.read(_PIECE))
                elif isinstance(event, h11.Data):
                    pieces, sent_bytes = pieces + 1, sent_bytes + len(event.data)
                    if pieces > MANY_CHUNKS and sent_bytes < pieces * MEAN_CHUNK:
                        raise ToolError(INVALID, f"{pieces} chunks of a body have {sent_bytes} bytes: send larger ones")
                    await self._write(writer, sent.send(event) or b"")
        except h11.RemoteProtocolError as error:
            raise ToolError(INVALID, str(error)) from error
        await self._write(writer, sent.send(h11.EndOfMessage()) or b"")

    async def _write(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise ToolError("http_too_large", f"more than {self._limits.max_bytes} bytes in one connection")
        writer.write(piece)
        await writer.drain()
        self._idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)


def _answer(error: ToolError) -> bytes:
    body = f"{error}\n{error.hint}\n".encode()
    head = f"HTTP/1.1 {_ANSWERS.get(error.code, _FORBIDDEN)}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
