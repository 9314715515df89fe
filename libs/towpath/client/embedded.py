"""`embedded`: the whole platform for the length of a block, for a script, a notebook or a test that has no server.

It is `towpath up` in a process of its own, on free ports, so what runs there runs as anywhere. It is stopped however
the block ends; a program that is killed leaves it behind, as any other child process that it has.
"""

import asyncio
import collections
import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from towpath.client.client import Client
from towpath.client.handles.run_handle import Run
from towpath.client.settings import read_token
from towpath.errors import RefusedError, UnavailableError
from towpath.extras import missing_packages
from towpath_contracts.problems.registry import Problem, problem

START_S = 120.0
"""Cold imports and a new database on a slow disk."""

STOP_S = 60.0
LAST_LINES = 20
"""The last lines that it printed, for the error of a start that failed."""


class EmbeddedServer:
    """A platform that is there between `with` and the end of the block, or `async with`."""

    def __init__(self, arguments: Iterable[str]) -> None:
        self._arguments = tuple(arguments)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._notices: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self._state: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """Its HTTP address; KeyError before the start."""
        return str(self._state["gateway_url"])

    @property
    def nats_url(self) -> str:
        """The address of its broker; KeyError before the start."""
        return str(self._state["nats_url"])

    @property
    def api_key(self) -> str | None:
        """What its gateway asks for over HTTP."""
        return read_token(self._state)

    @property
    def run(self) -> Run:
        """`run`, `run.sync` and `run.stream` on this platform."""
        return Run(self.url, self.api_key)

    def client(self) -> Client:
        """Return a new client of this platform."""
        return Client(self.url, api_key=self.api_key)

    def __enter__(self) -> Self:
        """Start it and wait until it is ready; raises UnavailableError, or RefusedError with what is wrong."""
        missing = missing_packages("towpath_embedded")
        if missing is not None:
            raise RefusedError(missing)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "towpath_embedded", "up", "--json", *self._arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read_notices, name="embedded-notices", daemon=True)
        self._reader.start()
        late = threading.Timer(START_S, self._process.kill)
        late.start()
        try:
            self._state = self._ready(self._process)
        except BaseException:
            self._stop()
            raise
        finally:
            late.cancel()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it and wait until nothing of it is left."""
        self._stop()

    async def __aenter__(self) -> Self:
        """Start it, and let other tasks go on meanwhile; a start that is cancelled is stopped again."""
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(self._stop))
            await asyncio.wait([starting])
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, also where this task is being cancelled."""
        await asyncio.shield(asyncio.to_thread(self._stop))

    def _ready(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            state: dict[str, Any] = json.loads(line)
        except ValueError as error:
            status = process.wait()
            if self._reader is not None:
                self._reader.join(STOP_S)  # so that its last lines are among them
            detail = "; ".join([f"the platform ended with status {status}", *self._notices])
            raise UnavailableError(problem("service_failed", detail)) from error
        if "gateway_url" not in state:
            raise RefusedError(Problem.model_validate(state))
        return state

    def _read_notices(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        self._notices.extend(line.strip() for line in self._process.stderr)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader is not None:
            self._reader.join(STOP_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def embedded(
    *,
    workers: Iterable[str | Path] = (),
    agents: Iterable[str] = (),
    networks: str | Path | None = None,
    policy: str | Path | None = None,
    profile: str | None = None,
    data: str | Path | None = None,
) -> EmbeddedServer:
    """Return a platform to be started by `with` or `async with`; the arguments are those of `towpath up`.

    *workers* are modules or files with tools, *agents* are MODULE:CLASS. Without *data*, a folder that is kept,
    everything is thrown away at the end.
    """
    words = ["--port", "auto", "--nats-port", "auto"]
    words += ["--ephemeral"] if data is None else ["--data", str(data)]
    words += [word for one in workers for word in ("--worker", str(one))]
    words += [word for one in agents for word in ("--agent", one)]
    for name, value in (("--networks", networks), ("--policy", policy), ("--profile", profile)):
        words += [] if value is None else [name, str(value)]
    return EmbeddedServer(words)
