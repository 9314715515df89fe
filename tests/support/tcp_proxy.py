"""A TCP proxy that can cut every connection, so that a client's way of coming back is seen."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


class TcpProxy:
    """Forwards to a port, or a socket, of this machine; `cut` breaks what is open, `open`: new ones are taken.

    With `tls` it ends TLS, asked for as a client of Postgres does.
    While it is `silent` it takes connections, as a frozen server does, and nothing passes in either direction.
    The first connection on which `mutes_at` is sent hears nothing from then on, though it is heard; `muted` tells.
    """

    def __init__(self, target: int | Path) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.open = True
        self.tls: ssl.SSLContext | None = None
        self.silent = False
        self.mutes_at: bytes | None = None
        self.muted = asyncio.Event()
        self.connections = 0
        self.refused = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            self.refused += 1
            writer.transport.abort()
            return
        self.connections += 1
        if self.tls is not None and not await self._agree_on_tls(reader, writer, self.tls):
            return
        far_reader, far_writer = await self._connect()
        self._writers |= {writer, far_writer}
        try:
            is_muted = asyncio.Event()
            await asyncio.gather(
                self._pipe(reader, far_writer, mutes=is_muted), self._pipe(far_reader, writer, muted=is_muted)
            )
        finally:
            for one in (writer, far_writer):
                self._writers.discard(one)
                one.close()

    @staticmethod
    async def _agree_on_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> bool:
        """Answer a client of Postgres that asks for TLS; False where it breaks off."""
        try:
            await reader.readexactly(8)
            writer.write(b"S")
            await writer.start_tls(tls)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return False
        return True

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _pipe(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        mutes: asyncio.Event | None = None,
        muted: asyncio.Event | None = None,
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if mutes is not None and self.mutes_at is not None and self.mutes_at in data:
                    self.mutes_at = None
                    mutes.set()
                    self.muted.set()
                if not self.silent and not (muted is not None and muted.is_set()):
                    writer.write(data)
                    await writer.drain()
        writer.close()

    def cut(self) -> None:
        """Break every connection at once."""
        for writer in tuple(self._writers):
            writer.transport.abort()


@asynccontextmanager
async def tcp_proxy(target: int | Path) -> AsyncIterator[TcpProxy]:
    """Forward to *target*, a port or a socket, until the block ends."""
    proxy = TcpProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await server.wait_closed()
