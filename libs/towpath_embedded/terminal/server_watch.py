"""Tells in the terminal of `towpath up` that Postgres or NATS answers no more, why, and when it does again.

A server that ends is started again, and told by its supervisor. One that is stopped, or waits for its disk, is there
and answers nothing; then everything waits, and nothing else would say so.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from towpath.stopped_processes import is_stopped
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

POLL_S = 1.0
SILENT_AFTER_S = 2.0

_SAFE = "Accepted runs are safe, and go on by themselves"

ShowLine = Callable[[str, str], None]
"""Gets a line and its style."""


class ServerWatch:
    """Asks both servers of *platform* again and again, and shows what is to be told of them."""

    def __init__(self, platform: Platform, show: ShowLine, *, poll_s: float = POLL_S) -> None:
        self._platform = platform
        self._show = show
        self._poll_s = poll_s
        self._connection: Any = None

    async def follow(self) -> None:
        """Watch until cancelled."""
        try:
            await asyncio.gather(self._watch("postgres", self._ask_postgres), self._watch("nats", self._ask_nats))
        finally:
            self._hang_up()

    async def _watch(self, name: str, ask: Callable[[], Awaitable[None]]) -> None:
        silent_since: float | None = None
        while True:
            began = monotonic()
            try:
                async with asyncio.timeout(SILENT_AFTER_S):
                    await ask()
            except TimeoutError:
                if silent_since is None:
                    silent_since = began
                    self._show(self._silence(name), "bold red")
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pass  # it is down, or just starting: its supervisor tells that
            else:
                if silent_since is not None:
                    self._show(f"{name} answers again after {monotonic() - silent_since:.1f} s", "green")
                silent_since = None
            await asyncio.sleep(self._poll_s)

    def _silence(self, name: str) -> str:
        pid = self._platform.processes[name].pid
        if pid is not None and is_stopped(pid):
            return (
                f"{name} does not answer: its process is stopped (pid {pid}). Let it go on: kill -CONT {pid}. {_SAFE}."
            )
        log = self._platform.log(name)
        return f"{name} does not answer: look at its disk, at what else this machine does, and at {log}. {_SAFE}."

    async def _ask_postgres(self) -> None:
        try:
            if self._connection is None:
                self._connection = await asyncpg.connect(self._platform.dsn())
            await self._connection.fetchval("SELECT 1")
        except BaseException:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError, asyncpg.InterfaceError):
                self._connection.terminate()
            self._connection = None

    async def _ask_nats(self) -> None:
        address = urlsplit(self._platform.nats_url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            await reader.readline()  # what a broker says first, to anybody
        finally:
            writer.close()
