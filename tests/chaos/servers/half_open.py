"""A TCP proxy whose connections can be left half open: they stay up, and nothing passes any more.

New connections always pass, so a client that notices can reconnect.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from towpath_embedded.processes.ports import LOOPBACK

CHUNK: Final = 65_536


class HalfOpenProxy:
    """Forwards to *target*, a port of this machine; `freeze` silences what is connected now, for good."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._age = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.connections = 0

    def freeze(self) -> None:
        """Let nothing pass any more on the connections that there are, and close none."""
        self._age += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side hangs up."""
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target)
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pipe(reader, far_writer), self._pipe(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        age = self._age
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if age == self._age:
                    writer.write(data)
                    await writer.drain()
        if age == self._age:
            writer.close()

    def hang_up(self) -> None:
        """Break every connection."""
        for writer in tuple(self._writers):
            writer.transport.abort()


@asynccontextmanager
async def half_open_proxy(target: int) -> AsyncIterator[HalfOpenProxy]:
    """Forward to *target* from a free port until the block ends."""
    proxy = HalfOpenProxy(target)
    server = await asyncio.start_server(proxy.serve, LOOPBACK, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.hang_up()
        await server.wait_closed()
