"""A process that takes a broker's port while the broker is down: of another OS user where these tests run as root.

Elsewhere it is of the user of the tests, and its victims have to be told to expect another one: `expected_owner`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.places import ROOT

NOBODY = 65_534
IS_ANOTHER_USER = os.geteuid() == 0
PROGRAM = ROOT / "tests" / "support" / "broker_stranger.py"


def expected_owner() -> int:
    """Return the user whom a client has to expect, so that the thief is a stranger to it."""
    return os.geteuid() if IS_ANOTHER_USER else os.geteuid() + 1


class PortThief:
    """What the program said: how often it was connected to, and all that it was sent."""

    def __init__(self) -> None:
        self.listens = asyncio.Event()
        self.connections = 0
        self.sent: list[str] = []

    async def read(self, output: asyncio.StreamReader) -> None:
        """Take in what it says, until it ends."""
        while line := (await output.readline()).decode().strip():
            if line == "listens":
                self.listens.set()
            elif line == "connected":
                self.connections += 1
            else:
                self.sent.append(line)


@asynccontextmanager
async def port_thief(port: int) -> AsyncIterator[PortThief]:
    """Wait for *port* in the name of another user, and hold it until the block ends."""
    change: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if IS_ANOTHER_USER else {}
    process = await asyncio.create_subprocess_exec(
        "/usr/bin/env", "python3", "-I", "-c", PROGRAM.read_text("utf-8"), str(port),
        stdout=asyncio.subprocess.PIPE, cwd="/", env={"PATH": f"{os.defpath}:/usr/local/bin"}, **change,
    )  # fmt: skip
    assert process.stdout is not None
    thief = PortThief()
    listening = asyncio.create_task(thief.read(process.stdout))
    try:
        yield thief
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await listening
