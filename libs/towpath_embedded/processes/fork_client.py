"""Starts services by forking a process that has imported them already, because imports are most of a start.

`towpath up` starts its services so, and `towpath chaos` and the tests hundreds. A forked process is like one that
`child_process.spawn` starts: a child of this process with a pid, a log, a session and an environment of its own. It
gets that environment by a socket, so what the system lists as its environment and command is the fork server's. Where
a fork can't be had, `child_process.spawn` starts it.
"""

import asyncio
import atexit
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from towpath_embedded.processes import child_process, fork_server, role_names
from towpath_embedded.processes.log_files import opened_log

PRELOAD_TIMEOUT_S = 60.0  # imports alone take half a minute on a machine that is very busy
FORK_TIMEOUT_S = 30.0  # a fork takes milliseconds; whoever does not answer by then is stuck

MODULES = tuple(f"towpath_{role}" for role in role_names.START_ORDER)
"""What the server imports before it forks; another module that `python -m` runs is imported by its process."""

_READ_AT_START = (
    *("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_"),
    *("OTEL_PYTHON_", "OTEL_PROPAGATORS", "PROMETHEUS_", "PYDANTIC_"),
)
"""Beginnings of the variables that an interpreter or a library reads when it starts: a fork is too late for them."""

_SEEN = frozenset({"PATH", "HOME", "VIRTUAL_ENV", "TMPDIR", "TZ"})
_SEEN_BEGINNINGS = ("PYTHON", "LANG", "LC_", "OTEL_PYTHON_", "OTEL_PROPAGATORS")
"""The variables of this process that the server sees: what every role inherits, and no secret."""

SAFE_PATH = "-P"
"""The option of Python that keeps the working folder off the path."""

_WAIT_POLL_S = 0.005
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ForkedProcess:
    """A child of this process that it did not start itself; `child_process.ChildProcess` describes its methods."""

    def __init__(self, pid: int, command: Sequence[str]) -> None:
        self.pid = pid
        self.args = tuple(command)
        self.returncode: int | None = None
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""
        with self._reaping:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; raise subprocess.TimeoutExpired after *timeout* seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(_WAIT_POLL_S)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process with everything imported; it ends with this one, or by `close`."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(FORK_TIMEOUT_S)
        self._ready = False
        environment = fork_server.with_absolute_path(
            {name: value for name, value in os.environ.items() if name in _SEEN or name.startswith(_SEEN_BEGINNINGS)}
        )
        self._environment = read_at_start(environment)
        self._path = fork_server.path_entries(environment)
        launched_by = child_process.launcher(sys.executable, child_process.OWN_IDENTITY, signal.SIGKILL)
        before_exec = child_process.before_exec(child_process.OWN_IDENTITY, signal.SIGKILL)
        with theirs:
            self._process = subprocess.Popen(
                [*launched_by, sys.executable, "-P", "-m", fork_server.__name__, str(theirs.fileno()), *MODULES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # import errors go to this process's stderr
                env=environment,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                preexec_fn=None if launched_by else before_exec,  # noqa: PLW1509 - one system call
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self, timeout_s: float = 0.0) -> bool:
        """Return whether everything is imported, after at most *timeout_s*."""
        if not self._ready and select.select([self._socket], [], [], timeout_s)[0]:
            self._ready = self._socket.recv(len(fork_server.READY)) == fork_server.READY
        return self._ready and self.alive()

    async def wait_ready(self) -> None:
        """Wait until everything is imported, or the server has ended, or PRELOAD_TIMEOUT_S is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PRELOAD_TIMEOUT_S):
                while not self.ready() and self.alive():  # noqa: ASYNC110 - once in the life of a process
                    await asyncio.sleep(child_process.POLL_S)

    def alive(self) -> bool:
        return self._process.poll() is None

    def failed(self) -> bool:
        """Return whether the process ended before everything was imported."""
        return not self.alive() and not self._ready

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Return whether an interpreter started with *environment* would have become what the server is."""
        path = fork_server.path_entries(environment)
        return read_at_start(environment) == self._environment and path[: len(self._path)] == self._path

    def fork(
        self,
        command: Sequence[str],
        *,
        log: int,
        environment: Mapping[str, str],
        death_signal: int,
        directory: int,
        listener: int | None = None,
        umask: int = child_process.PRIVATE_UMASK,
    ) -> ForkedProcess:
        """Fork what `python -m` of *command* would start; OSError when the server does not answer."""
        safe_path = command[1] == SAFE_PATH
        _, module, *words = command[1 + safe_path :]
        order = {
            "module": module,
            "words": words,
            "safe_path": safe_path or sys.flags.safe_path,
            "environment": dict(environment),
            "death_signal": int(death_signal),
            "umask": umask,
        }
        given = () if listener is None else (listener,)
        ours, theirs = socket.socketpair()
        with ours, _adopting():
            ours.settimeout(FORK_TIMEOUT_S)
            with theirs:
                socket.send_fds(self._socket, [fork_server.START], [theirs.fileno(), log, directory, *given])
            ours.sendall(json.dumps(order).encode() + b"\n")
            with ours.makefile("rb") as lines:
                answer = lines.readline()
            if not answer.endswith(b"\n"):
                raise ConnectionError("the fork server has ended")
            child = ForkedProcess(int(answer), command)
            with contextlib.suppress(OSError):  # it was killed already, which its exit status shows
                ours.sendall(fork_server.GO)
            return child

    def close(self) -> None:
        """End the server; what was forked goes on."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


_server: ForkServer | None = None


def server() -> ForkServer | None:
    """Return this process's server, starting one if none is alive; None where processes can't be adopted (not Linux).

    A server that ended before it was ready has printed the reason and is not started again.
    """
    global _server  # noqa: PLW0603 - one per process is the point: it costs seconds, and all platforms share it
    if _libc is None or (_server is not None and _server.failed()):
        return None
    if _server is not None and not _server.alive():
        close()
    if _server is None:
        _server = ForkServer()
    return _server


@atexit.register
def close() -> None:
    """End this process's server, if there is one."""
    global _server  # noqa: PLW0603 - as above
    if _server is not None:
        _server.close()
    _server = None


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    death_signal: signal.Signals,
    directory: Path = Path("/"),
    listener: int | None = None,
    umask: int = child_process.PRIVATE_UMASK,
) -> child_process.ChildProcess:
    """Start *command* as `child_process.spawn` does; by a fork if it is `python [-P] -m MODULE` and it can be."""
    words = [os.fspath(word) for word in command]
    if (forks := _server_for(words)) is not None and forks.ready() and forks.suits(environment):
        child_process.require_main_thread()
        with (
            opened_log(log) as output,
            _opened(os.open(directory, os.O_RDONLY | os.O_DIRECTORY)) as folder,
        ):
            try:
                return forks.fork(
                    words,
                    log=output.fileno(),
                    environment=environment,
                    death_signal=death_signal,
                    directory=folder,
                    listener=listener,
                    umask=umask,
                )
            except OSError:  # it was killed, or hangs; the next start finds a new one
                close()
    return child_process.spawn(
        words,
        log=log,
        environment=environment,
        death_signal=death_signal,
        directory=directory,
        listener=listener,
        umask=umask,
    )


def _server_for(words: Sequence[str]) -> ForkServer | None:
    python = sys.executable
    return server() if words[:2] == [python, "-m"] or words[:3] == [python, SAFE_PATH, "-m"] else None


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of *environment* for which a fork is too late; they must be those of the server."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START) and name != fork_server.PATH_VARIABLE
    }


@contextlib.contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let this process become the parent of what its descendants leave behind, for as long as a fork takes."""
    if _libc is None:
        raise OSError("processes can be adopted on Linux only")
    before = ctypes.c_int()
    _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value)
