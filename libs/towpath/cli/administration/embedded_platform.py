"""An embedded platform as a child process: started, waited for until it is ready, and always stopped."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towpath.cli.shared.child_process import stop_process
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.text import one_line
from towpath.client.settings import read_token
from towpath.extras import require_packages
from towpath_contracts.problems.registry import Problem, ProblemError, problem

READY_TIMEOUT_S = 120.0
"""Cold imports and initdb on a slow disk; the demo's own aim is half of that."""
NOTICES = 20
LINE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class EmbeddedPlatform:
    """The platform: its process, where it answers, and the last lines it printed."""

    process: Process
    state: dict[str, Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its HTTP address."""
        return str(self.state["gateway_url"])

    @property
    def token(self) -> str | None:
        """What its gateway asks for; None where it asks for keys."""
        return read_token(self.state)


@contextlib.asynccontextmanager
async def start_embedded(*arguments: str, folder: Path, out: OutputPrinter) -> AsyncIterator[EmbeddedPlatform]:
    """Run `towpath up words` in *folder* for the length of the block; raises ProblemError when it can't be started."""
    require_packages("towpath_embedded")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "towpath_embedded", "up", "--json", *arguments,
        cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES,
    )  # fmt: skip
    platform = EmbeddedPlatform(process)
    listening = asyncio.create_task(_read_notices(platform, out))
    try:
        platform.state = await _ready(platform)
        yield platform
    finally:
        await stop_process(process)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _read_notices(platform: EmbeddedPlatform, out: OutputPrinter) -> None:
    """Show what the platform says beside its address, and keep the end of it."""
    stream = platform.process.stderr
    assert stream is not None
    while line := await stream.readline():
        text = one_line(line.decode("utf-8", "replace"), 200)
        if text:
            platform.notices = [*platform.notices[1 - NOTICES :], text]
            out.write_folded(text, "dim", start="  ", further=" " * 12)


async def _ready(platform: EmbeddedPlatform) -> dict[str, Any]:
    stream = platform.process.stdout
    assert stream is not None
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            line = await stream.readline()
    except TimeoutError as error:
        raise ProblemError(_failed(platform, f"not ready within {READY_TIMEOUT_S:.0f} s")) from error
    try:
        answer = json.loads(line)
    except ValueError as error:
        await platform.process.wait()
        raise ProblemError(_failed(platform, f"it ended with status {platform.process.returncode}")) from error
    if "gateway_url" not in answer:
        raise ProblemError(Problem.model_validate(answer))
    state: dict[str, Any] = answer
    return state


def _failed(platform: EmbeddedPlatform, why: str) -> Problem:
    return problem("service_failed", "; ".join([f"the platform: {why}", *platform.notices]))
