"""Starts the process that tests a project: it has the services of a platform, which are never imported here."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TextIO

from towpath.cli.shared.child_process import LINE_BYTES, ending_with_us

PROJECT_TESTS = "towpath_testing.project_tests"


class ProjectTestProcess:
    """What the process says of its tests, in the order in which it was asked for them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ended_with = 0
        """The exit status of the test whose lines were read last."""

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what is said of the next test until it has ended."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            found = json.loads(line)
            if "status" in found:
                self.ended_with = found["status"]
                return
            yield found
        self.ended_with = await self._process.wait() or 1  # it ended with a test that it said nothing of

    async def status(self) -> int:
        """Return the exit status of the next test, which says nothing else here."""
        async for _ in self.lines():
            pass
        return self.ended_with


@contextlib.asynccontextmanager
async def run_project_tests(tests: Sequence[tuple[str, Any]], *, output: TextIO) -> AsyncIterator[ProjectTestProcess]:
    """Run *tests*, each a kind with what it is asked; what pytest prints goes to *output*.

    It is in our group of processes: pytest reads the terminal where a test has a breakpoint.
    """
    with contextlib.ExitStack() as stack:
        passed = [stack.enter_context(_passed_on(descriptor)) for descriptor in (0, output.fileno())]
        words = ["-P", "-m", PROJECT_TESTS, *map(str, passed)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES, pass_fds=passed
        )
    assert process.stdin is not None
    async with ending_with_us(process):
        asked = {"tests": [{"kind": kind, "asked": one} for kind, one in tests]}
        process.stdin.write(json.dumps(asked).encode())
        process.stdin.close()
        yield ProjectTestProcess(process)


@contextlib.contextmanager
def _passed_on(descriptor: int) -> Iterator[int]:
    """Give another number for *descriptor*, whose own the process needs for the request and the answers."""
    try:
        passed = os.dup(descriptor)
    except OSError:  # it was closed by who started this
        passed = os.open(os.devnull, os.O_RDWR)
    try:
        yield passed
    finally:
        os.close(passed)
