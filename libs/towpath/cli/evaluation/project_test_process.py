"""Asks the process that tests a project: it has the services of a platform, which are never imported here."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from typing import Any

from towpath.cli.evaluation.project_test_start import take_started
from towpath.cli.shared.child_process import LINE_BYTES, ending_with_us


class _StartedProcess:
    """A process that was started before there was an event loop, with what asyncio says of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._ended: asyncio.Future[int] | None = None
        self.terminate, self.kill = process.terminate, process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        """Return its exit status, once it has ended."""
        if self._ended is None:
            self._ended = asyncio.ensure_future(asyncio.to_thread(self._process.wait))
        return await asyncio.shield(self._ended)


class ProjectTestProcess:
    """What the process says of its tests, in the order in which it was asked for them."""

    def __init__(self, process: _StartedProcess, said: asyncio.StreamReader) -> None:
        self._process = process
        self._said = said
        self.ended_with = 0
        """The exit status of the test whose lines were read last."""

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what is said of the next test until it has ended."""
        async for line in self._said:
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
async def run_project_tests(tests: Sequence[tuple[str, Any]], *, to_stderr: bool) -> AsyncIterator[ProjectTestProcess]:
    """Run *tests*, each a kind with what it is asked; what pytest prints goes to our output, or to our errors."""
    with take_started() as started:  # closes its pipes
        process = _StartedProcess(started)
        async with ending_with_us(process):
            said = asyncio.StreamReader(limit=LINE_BYTES)
            protocol = asyncio.StreamReaderProtocol(said)
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, started.stdout)
            try:
                asked = {"tests": [{"kind": kind, "asked": one} for kind, one in tests], "to_stderr": to_stderr}
                await asyncio.to_thread(_ask, started, json.dumps(asked).encode())
                yield ProjectTestProcess(process, said)
            finally:
                transport.close()


def _ask(process: "subprocess.Popen[bytes]", request: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as asked:  # it has ended, which its status says
        asked.write(request)
