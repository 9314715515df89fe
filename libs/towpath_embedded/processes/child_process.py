"""Child processes that can't outlive their parent, each with a log of its own.

A child is forked from the main thread, because the kernel ties the parent-death signal to the forking *thread*;
and it leads a session of its own, so that Ctrl-C reaches only the parent, which stops its children in order.
"""

import asyncio
import ctypes
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from towpath_embedded.processes import fork_server
from towpath_embedded.processes.log_files import opened_log
from towpath_fabric.process_protection import secrets_pipe, without_secrets

if TYPE_CHECKING:
    from towpath_contracts.problems.registry import Problem

POLL_S = 0.02
TAIL_LINES = 12
PRIVATE_UMASK = 0o077  # what the platform writes is for its user alone, whatever that user lets others do elsewhere
_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x1000_0000
_NOT_UNSHARED = 97
_NAMED_LOG = re.compile(r" \(/[^()]*\.log\)")
_SETPRIV = ("/usr/bin/setpriv", "/bin/setpriv")

# Resolved before any fork: between fork and exec nothing may be looked up.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUser:
    """Who a child runs as; the default is whoever the parent is.

    `unmapped` puts the child into a user namespace without a mapping: it keeps the parent's rights on files and yet
    does not see itself as root. It is for root without the right to change its user.
    """

    user: int | None = None
    group: int | None = None
    unmapped: bool = False


OWN_IDENTITY = ProcessUser()


class ChildProcess(Protocol):
    """A process that this one started, however; `subprocess.Popen` is one."""

    returncode: int | None

    @property
    def pid(self) -> int:
        """Its process id, and that of its session."""

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; raise subprocess.TimeoutExpired after *timeout* seconds."""

    def send_signal(self, sig: int) -> None:
        """Send a signal; nothing happens when it has ended."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ProcessSpawner(Protocol):
    """What starts a child: `spawn`, or `fork_client.spawn`."""

    def __call__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str],
        death_signal: signal.Signals,
        directory: Path = Path("/"),
        listener: int | None = None,
        umask: int = PRIVATE_UMASK,
    ) -> ChildProcess:
        """Start *command*; see `spawn`."""


class ManagedProcess(Protocol):
    """One child that is kept running: a server or a role."""

    name: str
    log: Path
    process: ChildProcess | None
    stop_signal: signal.Signals
    stop_timeout_s: float

    def spawn(self) -> None:
        """Start the process, on the data and at the address it had before, without waiting for it."""

    async def ready(self) -> bool:
        """Return whether the process that was started last does its work."""

    async def start(self) -> None:
        """Start the process and wait until it is ready; raise ProblemError `service_failed` when it does not."""

    async def stop(self) -> None:
        """Stop the process and what belongs to it."""


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    death_signal: signal.Signals,
    identity: ProcessUser = OWN_IDENTITY,
    directory: Path = Path("/"),
    listener: int | None = None,
    umask: int = PRIVATE_UMASK,
) -> subprocess.Popen[bytes]:
    """Start *command* with its output appended to *log*; *death_signal* reaches it when this process dies (Linux).

    Secrets in *environment* reach it by a pipe, which `protect_process` reads. *listener* is the descriptor of a socket
    that listens, which it is given too: the variable `fork_server.LISTENER` names it.
    """
    require_main_thread()
    plain, secrets = without_secrets(environment)
    words = [os.fspath(word) for word in command]
    launched_by = launcher(words[0], identity, death_signal)
    forked_as = OWN_IDENTITY if launched_by else identity
    with opened_log(log) as output, secrets_pipe(secrets) as (descriptors, variables):
        return subprocess.Popen(
            [*launched_by, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**plain, **variables, **({} if listener is None else {fork_server.LISTENER: str(listener)})},
            cwd=directory,
            start_new_session=True,
            pass_fds=(*descriptors, *(() if listener is None else (listener,))),
            preexec_fn=None if launched_by else before_exec(identity, death_signal),  # noqa: PLW1509 - two system calls
            user=forked_as.user,
            group=forked_as.group,
            extra_groups=None if forked_as.user is None else (),
            umask=umask,
        )


def launcher(program: str, identity: ProcessUser, death_signal: signal.Signals) -> list[str]:
    """Return the words before a command that make `setpriv` change the user and set the signal; none without it.

    With nothing to do between fork and exec, Python uses vfork(2): a fork of a large process takes 30 ms, for the
    tables of its memory are copied and each page that it then writes to is copied or found again.
    """
    setpriv = _setpriv()
    if setpriv is None or identity.unmapped or shutil.which(program) is None:
        return []
    user = [] if identity.user is None else ["--reuid", str(identity.user), "--clear-groups"]
    group = [] if identity.group is None else ["--regid", str(identity.group)]
    return [setpriv, *user, *group, "--pdeathsig", death_signal.name.removeprefix("SIG"), "--"]


@functools.cache
def _setpriv() -> str | None:
    """Return the path of a `setpriv` that knows the parent-death signal (util-linux 2.33); others exist."""
    for path in _SETPRIV:
        trial = [path, "--pdeathsig", "KILL", "--", path, "--version"]
        if os.access(path, os.X_OK) and subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return path
    return None


def current_umask() -> int:
    """Return the umask of this process, which can only be asked for by changing it for a moment."""
    found = os.umask(PRIVATE_UMASK)
    os.umask(found)
    return found


def require_main_thread() -> None:
    """Raise RuntimeError in any other thread (see the module's docstring)."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Children are forked from the main thread only.")


def run(
    command: Sequence[str | Path], *, identity: ProcessUser, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a short *command* as *identity* to its end; raises OSError when it can't be started."""
    return subprocess.run(
        [os.fspath(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
        cwd="/",
        preexec_fn=before_exec(identity),
        user=identity.user,
        group=identity.group,
        extra_groups=None if identity.user is None else (),
    )


def before_exec(identity: ProcessUser, death_signal: signal.Signals | None = None) -> Callable[[], None] | None:
    """Return what a child does between fork and exec, after the change of user, which would clear the signal."""
    libc = _libc
    if libc is None or (death_signal is None and not identity.unmapped):
        return None

    def prepare() -> None:
        if identity.unmapped and libc.unshare(_CLONE_NEWUSER):
            os._exit(_NOT_UNSHARED)
        if death_signal is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))

    return prepare


async def wait_exit(process: ChildProcess, *, timeout_s: float | None = None) -> int | None:
    """Wait until *process* has ended and return its exit status; None when it still runs after *timeout_s*."""
    try:
        async with asyncio.timeout(timeout_s):
            while process.poll() is None:
                await _exit_hint(process)
    except TimeoutError:
        return None
    return process.returncode


async def _exit_hint(process: ChildProcess) -> None:
    """Return when *process* may have ended: at once on Linux, after a moment elsewhere."""
    if sys.platform != "linux":
        await asyncio.sleep(POLL_S)
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # it has just ended, or the kernel is too old
        await asyncio.sleep(POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def stop(process: ChildProcess, *, with_signal: signal.Signals, timeout_s: float) -> bool:
    """Ask *process* to end; kill it with its whole group after *timeout_s*. Return whether it ended when asked."""
    if process.poll() is not None:
        return True
    process.send_signal(with_signal)
    if await wait_exit(process, timeout_s=timeout_s) is not None:
        return True
    os.killpg(process.pid, signal.SIGKILL)
    await wait_exit(process)
    return False


async def became_ready(managed: ManagedProcess, *, timeout_s: float) -> bool:
    """Wait until *managed* is ready; False when its process ended, or after *timeout_s*."""
    try:
        async with asyncio.timeout(timeout_s):
            while managed.process is not None and managed.process.poll() is None:
                if await managed.ready():
                    return True
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return False
    return False


def log_end(log: Path) -> int:
    """Return where the next start of a process begins to write in *log*."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def log_tail(log: Path, *, lines: int = TAIL_LINES, since: int = 0, most_bytes: int = 16_384) -> str:
    """Return the last *lines* of *log* that were written from *since* on, *most_bytes* of them, or an empty text."""
    try:
        with log.open("rb") as file:
            size = log.stat().st_size
            file.seek(max(0 if size < since else since, size - most_bytes))  # shorter: it was put aside and begun anew
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def found_its_port_taken(log: Path, since: int) -> bool:
    """Return whether the server of *log* ended *since* then because another process listens on its port."""
    return "address already in use" in log_tail(log, lines=40, since=since).lower()


_SAID = re.compile(r"^towpath (?:worker|agents): (.+)$", re.MULTILINE)
"""What a process with user code says when it can't serve that: the cause by itself, whatever else its log has."""


def said_cause(tail: str) -> str:
    """Return why a process says, in the *tail* of its log, that it can't serve user code; else an empty text."""
    return next(reversed(_SAID.findall(tail)), "")


def failure(name: str, log: Path, what: str, *, since: int = 0) -> "Problem":
    """The problem `service_failed` for *name*, with the last lines that its log has *since* this start."""
    from towpath_contracts.problems.registry import problem  # not at the head: fork servers start before it is imported

    tail = log_tail(log, since=since)
    if said := said_cause(tail):
        return problem("service_failed", f"{name} {what}: {said}", remedy="Correct that, and start again.")
    detail = (
        f"{name} {what}. Its log ({log}) ends:\n{tail}"
        if tail
        else f"{name} {what}; it wrote nothing into its log ({log})."
    )
    return problem("service_failed", detail)


def with_log_gone(found: "Problem") -> "Problem":
    """Return *found* as it is told where the data folder is thrown away at the end, with the log that it names."""
    if found.code != "service_failed" or not _NAMED_LOG.search(found.detail):
        return found
    remedy = "Mend what it says, and start again; without --ephemeral its whole log is kept."
    return found.model_copy(update={"detail": _NAMED_LOG.sub("", found.detail), "remedy": remedy})
