"""A server of `towpath up` that answers no more is told once, and so is its return."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from towpath_embedded.platform import Platform
from towpath_embedded.processes.supervisor import ProcessInfo
from towpath_embedded.terminal import server_watch
from towpath_embedded.terminal.server_watch import ServerWatch


class Servers:
    """A platform whose database refuses connections and whose broker says its first line only when it may."""

    def __init__(self) -> None:
        self.processes = {name: ProcessInfo(pid=None, restarts=0) for name in ("postgres", "nats")}
        self.speaking = asyncio.Event()
        self.nats_url = ""

    def dsn(self) -> str:
        return "postgresql://nobody@127.0.0.1:9/none"

    def log(self, name: str) -> Path:
        return Path(f"logs/{name}.log")

    async def greet(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.speaking.wait()
        writer.write(b"INFO {}\r\n")
        writer.close()


async def test_a_server_that_answers_no_more_is_told_once_and_again_when_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that refuses connections is being started again: that is told elsewhere."""
    monkeypatch.setattr(server_watch, "SILENT_AFTER_S", 0.05)
    servers, told, changed = Servers(), list[tuple[str, str]](), asyncio.Event()

    def show(line: str, style: str) -> None:
        told.append((line, style))
        changed.set()

    async def next_line() -> tuple[str, str]:
        async with asyncio.timeout(30):
            await changed.wait()
        changed.clear()
        return told[-1]

    async with await asyncio.start_server(servers.greet, "127.0.0.1", 0) as listener:
        servers.nats_url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        watch = ServerWatch(cast("Platform", cast("Any", servers)), show, poll_s=0.01)
        watching = asyncio.create_task(watch.follow())
        line, style = await next_line()
        assert line.startswith("nats does not answer: look at its disk") and "logs/nats.log" in line and "red" in style
        await asyncio.sleep(0.2)
        assert len(told) == 1
        servers.speaking.set()
        line, style = await next_line()
        assert line.startswith("nats answers again after ") and style == "green"
        await asyncio.sleep(0.05)
        assert len(told) == 2
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
