"""A NATS connection by hand, for what no client library would send.

Nothing is checked before it is sent; answers are kept by the inbox on which they arrived.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote, urlsplit

PATIENCE_S = 60.0


class RawNats:
    """One connection. `answers` are bodies by the subject on which they came, `refusals` the broker's errors."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pongs: asyncio.Queue[None] = asyncio.Queue()
        self._listening = 0
        self.answers: dict[str, list[bytes]] = defaultdict(list)
        self.refusals: list[str] = []

    async def send(
        self, subject: bytes, body: bytes, *, reply: bytes = b"", headers: bytes | None = None, size: int | None = None
    ) -> None:
        """Publish. *headers* are sent as they are; *size* lies about the length of the body."""
        place = subject + (b" " + reply if reply else b"")
        length = len(body) if size is None else size
        if headers is None:
            self._writer.write(b"PUB %b %d\r\n%b\r\n" % (place, length, body))
        else:
            total = len(headers) + length
            self._writer.write(b"HPUB %b %d %d\r\n%b%b\r\n" % (place, len(headers), total, headers, body))
        await self._writer.drain()

    async def listen(self, subject: bytes) -> None:
        """Keep what arrives on *subject*."""
        self._listening += 1
        self._writer.write(b"SUB %b %d\r\n" % (subject, self._listening))
        await self.settle()

    async def settle(self) -> None:
        """Return when the broker has read all that was sent; ConnectionError when it hung up."""
        self._writer.write(b"PING\r\n")
        await self._writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            await self._pongs.get()

    async def read(self) -> None:
        """Read until the broker hangs up."""
        while line := await self._reader.readline():
            word = line.split(b" ", 1)[0].strip().upper()
            if word == b"PING":
                self._writer.write(b"PONG\r\n")
            elif word == b"PONG":
                self._pongs.put_nowait(None)
            elif word == b"-ERR":
                self.refusals.append(line.decode(errors="replace").strip())
            elif word in (b"MSG", b"HMSG"):
                await self._keep(line.split(), with_headers=word == b"HMSG")

    async def _keep(self, parts: list[bytes], *, with_headers: bool) -> None:
        data = await self._reader.readexactly(int(parts[-1]) + 2)
        start = int(parts[-2]) if with_headers else 0
        self.answers[parts[1].decode(errors="replace")].append(data[start:-2])


@asynccontextmanager
async def raw_nats(url: str) -> AsyncIterator[RawNats]:
    """Connect to *url* with its user and password, if any; the connection ends with the block."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    connection = RawNats(reader, writer)
    reading = asyncio.create_task(connection.read())
    try:
        words: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        if parts.username:
            words |= {"user": unquote(parts.username), "pass": unquote(parts.password or "")}
        writer.write(b"CONNECT " + json.dumps(words).encode() + b"\r\n")
        await connection.settle()
        yield connection
    finally:
        reading.cancel()
        writer.transport.abort()
        await asyncio.gather(reading, return_exceptions=True)
