"""Stops the database of a running platform for a moment, and shows what a request and `towpath up` say meanwhile."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tests.chaos.load.findings import signal_tree

from towpath_embedded.console import UpConsole
from towpath_embedded.platform import Platform
from towpath_embedded.processes.supervisor import ProcessInfo
from towpath_embedded.terminal.server_watch import ServerWatch

_LIMIT_S = 15.0


class RunningServers:
    """The servers of a platform of another process, as its folder tells of them."""

    def __init__(self, data: Path) -> None:
        state: Any = json.loads((data / "state.json").read_text("utf-8"))
        found = {name: state["processes"][name] for name in ("postgres", "nats")}
        self.processes = {name: ProcessInfo(pid=one["pid"], restarts=0) for name, one in found.items()}
        self.nats_url = state["nats_url"]
        self._dsn = state["database_url"]

    def dsn(self) -> str:
        return str(self._dsn)


def freeze_database(data: Path, ask: Callable[[], object]) -> None:
    """*ask* something of the platform on *data* while its database is stopped; what `up` shows is printed after it."""
    asyncio.run(_freeze_database(RunningServers(data), ask))


async def _freeze_database(servers: RunningServers, ask: Callable[[], object]) -> None:
    told: list[str] = []
    watch = ServerWatch(cast("Platform", cast("Any", servers)), lambda line, _style: told.append(line))
    watching = asyncio.create_task(watch.follow())
    pid = servers.processes["postgres"].pid
    assert pid is not None
    signal_tree(pid, signal.SIGSTOP)
    try:
        await asyncio.to_thread(ask)
        await _until(lambda: len(told) == 1)
    finally:
        signal_tree(pid, signal.SIGCONT)
    await _until(lambda: len(told) == 2)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    screen = UpConsole(as_json=False)
    for line in told:
        screen.notice(line)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while not true():  # noqa: ASYNC110 - nothing says that a line was shown
            await asyncio.sleep(0.05)
