"""The roles of the platform as child processes: which there are, their environment, and how readiness is checked.

A role gets the credentials that it needs and no other. Only owners of a schema get a database address, each as its own
user. Keys of model providers are for the decider, and for agents in user code, which may ask models themselves. User
code runs in workers and agents, so those see the rest of the environment; an operator names what else a worker sees.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, Literal

from towpath.process_arguments import AgentArguments, WorkerArguments
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.processes import child_process, fork_server
from towpath_embedded.processes.ports import LOOPBACK, free_port, listen
from towpath_fabric.process_protection import LOCAL_KEY, PROVIDER_KEYS, is_own_key, without_secrets

START_TIMEOUT_S = 120  # imports alone take half a minute on a machine that is very busy
STOP_TIMEOUT_S = 15  # a role drains for `stop_grace_s` (10 s by default) at most
CLOSE_S = 5.0  # and closes its connections
PORT_ATTEMPTS = 3
HTTP_TIMEOUT_S = 3.0

_USER_CODE = frozenset({"worker", "agent"})
PASSED_ON = "TOWPATH_WORKER_SECRETS"
"""The variable that names, with commas between, those secrets of this process's environment that workers get too."""

_INHERITED = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMPDIR", "PYTHON", "VIRTUAL_ENV", "SSL_", "OTEL_", "TOWPATH_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Beginnings of the variables that every role inherits."""

_NAMED_FILES = frozenset(
    {
        "TOWPATH_NATS_PASSWORD_FILE",
        "TOWPATH_DATABASE_URL_FILE",
        "TOWPATH_SESSION_SECRET_FILE",
    }
)
"""Files with secrets of another platform: every role of this one is given its own."""

_PROVIDERS = ("GEMINI_", "GOOGLE_", "OPENAI_", "ANTHROPIC_")
"""Beginnings of the variables that libraries of model providers read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLaunch:
    """A tool worker to run: the modules or files with its tools, or the built-in toolset, *count* times.

    `mcp` is a file of MCP servers whose tools it serves too. `sandbox` is the `--sandbox` of its command line.
    `directory` is where the modules are found; None means where the platform was started.
    """

    modules: tuple[str, ...] = ()
    builtin: bool = False
    count: int = 1
    concurrency: int | None = None
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    mcp: Path | None = None
    sandbox: Literal["required", "preferred", "none"] | None = None
    role: ClassVar[str] = "worker"

    def arguments(self, *, names_only: bool = False) -> tuple[str, ...]:
        """The arguments of `python -m towpath_worker`; with *names_only* it prints what it would serve, and ends."""
        return WorkerArguments(
            modules=self.modules, builtin=self.builtin, mcp=self.mcp, concurrency=self.concurrency,
            sandbox=self.sandbox, inventory=names_only,
        ).words()  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLaunch:
    """An agent in user code to serve: `module:Class` or `path/to/file.py:Class`, in *count* processes.

    `name` is the name of its class; without it the class is asked before the broker starts, which takes a process.
    """

    target: str
    name: str = ""
    count: int = 1
    concurrency: int | None = None
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    role: ClassVar[str] = "agent"

    def arguments(self, *, names_only: bool = False) -> tuple[str, ...]:
        """The arguments of `python -m towpath_agent`; with *names_only* it prints its name and ends."""
        return AgentArguments(target=self.target, concurrency=self.concurrency, name_only=names_only).words()


UserCode = WorkerLaunch | AgentLaunch
"""What runs code that is not the platform's: in an account of its own, with a credential of its own."""


def stop_timeout_s(environment: Mapping[str, str]) -> float:
    """Return how long a role may take to stop before it is killed: longer than it was told to take."""
    try:
        return max(STOP_TIMEOUT_S, float(environment.get("TOWPATH_STOP_GRACE_S", "0")) + CLOSE_S)
    except ValueError:
        return STOP_TIMEOUT_S  # the role itself refuses to start with it


class RoleProcess:
    """One process of a role. *port_variable* names the setting for where to answer `/readyz`.

    With *keeps_port* this process listens there from the first start to the stop, and gives each process the socket:
    nobody else gets the port between the death of one and the start of the next, and an answer at it is its own.
    *spawn* starts it: `child_process.spawn`, or `fork_client.spawn`.
    """

    stop_signal: signal.Signals = signal.SIGTERM

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        port_variable: str = "TOWPATH_HEALTH_PORT",
        port: int | None = None,
        directory: Path | None = None,
        spawn: child_process.ProcessSpawner = child_process.spawn,
        keeps_port: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self.process: child_process.ChildProcess | None = None
        self.port = port or free_port()
        self._port_is_fixed = port is not None
        self._command = tuple(command)
        self._environment = dict(environment)
        self.stop_timeout_s = stop_timeout_s(environment)
        self._port_variable = port_variable
        self._directory = directory or Path.cwd()
        self._spawn = spawn
        self._keeps_port = keeps_port
        self._listener: socket.socket | None = None

    def spawn(self) -> None:
        """Start the process without waiting for it; raise `port_busy` where a port that is kept is taken."""
        if self._keeps_port and self._listener is None:
            self._listener = listen(self.port)
        self.process = self._spawn(
            self._command,
            log=self.log,
            environment={**self._environment, self._port_variable: str(self.port)},
            death_signal=signal.SIGTERM,
            directory=self._directory,
            listener=None if self._listener is None else self._listener.fileno(),
        )

    async def ready(self) -> bool:
        """Return whether the process answers `/readyz` with 200."""
        asking = asyncio.create_task(http_status(self.port, "/readyz"))
        if self._listener is None or self.process is None:
            return await asking == HTTPStatus.OK
        ended = asyncio.create_task(child_process.wait_exit(self.process))  # then the question waits for nobody
        try:
            await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result() == HTTPStatus.OK
        finally:
            asking.cancel()
            ended.cancel()
            await asyncio.gather(asking, ended, return_exceptions=True)

    async def start(self) -> None:
        """Start the process and wait until it is ready; raise `service_failed` when it does not become so."""
        since = child_process.log_end(self.log)
        for attempt in range(PORT_ATTEMPTS):
            try:
                self.spawn()
            except ProblemError:
                if self._port_is_fixed or attempt == PORT_ATTEMPTS - 1:
                    raise
                self.port = free_port()
                continue
            if await child_process.became_ready(self, timeout_s=START_TIMEOUT_S):
                self._port_is_fixed = True
                return
            if (
                self._port_is_fixed
                or self._listener is not None
                or not child_process.found_its_port_taken(self.log, since)
            ):
                break
            self.port = free_port()
        ended = self.process is None or self.process.poll() is not None
        await self.stop()
        what = "ended at its start" if ended else f"was not ready within {START_TIMEOUT_S} s"
        raise ProblemError(child_process.failure(self.name, self.log, what, since=since))

    async def stop(self) -> None:
        """Let the process drain, then end it."""
        if self._listener is not None:  # first: what comes now is refused instead of waiting for nobody
            self._listener.close()
            self._listener = None
        if self.process is not None:
            await child_process.stop(self.process, with_signal=self.stop_signal, timeout_s=self.stop_timeout_s)


def module_command(role: str, *words: str) -> tuple[str, ...]:
    """The command that starts *role*; services are run, never imported.

    No role imports what lies in its folder in place of the standard library or of Towpath: `-P` keeps the folder off
    the path. Those that run user code add it behind everything else where a module in it was named (`towpath.toolbox`).
    """
    return (sys.executable, "-P", "-m", f"towpath_{role}", *words)


def inherited(role: str, own_keys: Collection[str] = ()) -> dict[str, str]:
    """Return what *role* sees of this process's own environment.

    The decider is given no key of Towpath, those of *own_keys* among them, in the place of a provider's: it would send
    it there. An agent is: its code may ask Towpath as clients of OpenAI do.
    """
    plain, secrets = without_secrets(os.environ)
    plain = {name: value for name, value in plain.items() if name not in _NAMED_FILES}
    if role == "worker":
        return {**plain, **{name: secrets[name] for name in passed_on(plain) & set(secrets)}}
    keys = {name: value for name, value in secrets.items() if name in (*PROVIDER_KEYS, LOCAL_KEY)}
    if role in _USER_CODE:
        return {**plain, **keys}
    beginnings = (*_INHERITED, *_PROVIDERS) if role == "decider" else _INHERITED
    environment = {name: value for name, value in plain.items() if name.startswith(beginnings)}
    own = {*own_keys, secrets.get("TOWPATH_API_KEY", "")}
    keys = {name: value for name, value in keys.items() if name == LOCAL_KEY or not is_own_key(value.strip(), own)}
    return fork_server.with_absolute_path({**environment, **(keys if role == "decider" else {})})


def passed_on(environment: Mapping[str, str]) -> set[str]:
    """Return which secrets an operator lets workers have."""
    return {name.strip() for name in environment.get(PASSED_ON, "").split(",")}


async def http_status(port: int, path: str) -> int | None:
    """Ask the loopback *port* for *path* and return the status; None when it does not answer in time."""
    with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
        async with asyncio.timeout(HTTP_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode())
                return int((await reader.readline()).split()[1])
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    return None
