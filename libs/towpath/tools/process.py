"""Running another program inside a tool, so that it ends when the call ends.

The program and everything it starts are one process group; a cancel, a timeout and the end of the call signal the
whole group, and what does not end in time is killed. What a program prints has a limit and never fills the memory.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from towpath.errors import ToolError
from towpath.tools.egress_settings import HttpEgressSettings
from towpath.tools.sandbox import (
    Sandbox,
    SandboxMode,
    SandboxUnavailableError,
    default_egress,
    default_mode,
    in_sandbox,
    sandbox_environment,
)
from towpath.tools.sandbox_port import OpenedSandbox, SandboxJoining
from towpath.tools.write_log import WriteLog

if TYPE_CHECKING:
    from towpath.tools.egress_proxy import EgressProxy

_logger = logging.getLogger(__name__)

MAX_OUTPUT_BYTES = 1024 * 1024
GRACE_S = 3.0
"""How long a program may take to end after SIGTERM; below the worker's own patience with an interrupted function."""

_PIECE = 64 * 1024
_REAPED_S = 2.0
"""For the end of what was killed, and of its pipes; only a child in a session of its own can keep them longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a program ended. `truncated` says that it printed more than was kept."""

    returncode: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False

    @property
    def text(self) -> str:
        """The standard output as text; bytes that are no UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")


class ProcessKeywords(TypedDict, total=False):
    """The keywords of `run_process`, which says what each means."""

    input: bytes
    cwd: str | Path | None
    env: Mapping[str, str] | None
    timeout_s: float | None
    grace_s: float
    max_output_bytes: int
    check: bool
    sandbox: Sandbox | SandboxMode | None
    write_log: WriteLog | None


@dataclass(slots=True)
class StartedProgram:
    """A program that runs, and what it has beside its process in a sandbox with egress."""

    process: asyncio.subprocess.Process
    opened: OpenedSandbox | None = None
    egress: "EgressProxy | None" = None

    def kill(self) -> None:
        """End its process group, all that is left in its sandbox, and its way out."""
        signal_group(self.process.pid, signal.SIGKILL)
        if self.opened is not None:
            self.opened.end()
        if self.egress is not None:
            self.egress.close()
        self.opened = self.egress = None


async def run_process(
    *command: str | Path,
    input: bytes = b"",  # noqa: A002 - the name that subprocess uses
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    grace_s: float = GRACE_S,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    check: bool = False,
    sandbox: Sandbox | SandboxMode | None = None,
    write_log: WriteLog | None = None,
) -> ProcessResult:
    """Run *command* in a session of its own, without a shell, and return how it ended.

    *env* replaces the environment; without one the program gets only PATH, HOME and the locale, never the worker's own
    secrets. *sandbox* says what of this machine it may reach (`towpath.Sandbox`), or only whether there is to be one;
    without it the worker's operator decides. In a sandbox *cwd* can be read. *write_log* takes a line for each
    connection that a sandbox with egress was allowed or refused; without one it goes to this process's own log.

    When the call is cancelled or *timeout_s* is over, its process group gets SIGTERM and, *grace_s* seconds later,
    SIGKILL; a sandbox ends at once. At most *max_output_bytes* of either output are kept. Raises ToolError:
    `process_not_found`, `process_not_permitted`, `process_not_started` (what there is can't be run, or the machine has
    no room for it), `sandbox_unavailable` (one is required, and there is none), `process_timeout` and, with *check*,
    `process_failed`. A program that leaves its session on purpose is not reached, unless it is in a sandbox.
    """
    program = await _start(command, cwd, env, as_sandbox(sandbox), write_log or _log_line)
    process = program.process
    readers = [asyncio.create_task(_read(stream, max_output_bytes)) for stream in (process.stdout, process.stderr)]
    try:
        async with asyncio.timeout(timeout_s):
            await _feed(process, input)
            outputs = await asyncio.gather(*readers)
            code = await process.wait()
    except TimeoutError as error:
        message = f"{command[0]} did not end within {timeout_s:g} s"
        raise ToolError("process_timeout", message, retryable=True, external=True) from error
    finally:
        await _end(program, readers, grace_s)
    (stdout, more_out), (stderr, more_err) = outputs
    if check and code != 0:
        raise ToolError("process_failed", f"{command[0]} ended with {code}: {stderr[-500:].decode('utf-8', 'replace')}")
    return ProcessResult(returncode=code, stdout=stdout, stderr=stderr, truncated=more_out or more_err)


async def _start(
    command: tuple[str | Path, ...],
    cwd: str | Path | None,
    env: Mapping[str, str] | None,
    sandbox: Sandbox,
    write_log: WriteLog,
) -> StartedProgram:
    environment = dict(env) if env is not None else plain_environment()
    try:
        return await start_program(command, cwd, environment, sandbox, write_log)
    except OSError as error:
        raise ToolError(_start_error(error), f"{command[0]} can't be started: {error.strerror or error}") from error


async def start_program(
    command: Sequence[str | Path],
    cwd: str | Path | None,
    environment: Mapping[str, str],
    sandbox: Sandbox,
    write_log: WriteLog,
) -> StartedProgram:
    """Start *command* with pipes and in a session of its own, in its sandbox if it is to have one; raises OSError."""
    starting = asyncio.ensure_future(_started(command, cwd, environment, sandbox, write_log))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The program may run already, with children of its own; asyncio would end the program alone.
        starting.add_done_callback(_kill_started)
        raise


async def _started(
    command: Sequence[str | Path],
    cwd: str | Path | None,
    environment: Mapping[str, str],
    sandbox: Sandbox,
    write_log: WriteLog,
) -> StartedProgram:
    with contextlib.ExitStack() as stack:
        described = in_sandbox(command, cwd, environment, sandbox)
        # In a thread: what is granted is looked through for data folders, and this may take a while on a slow disk.
        enter = stack.enter_context
        started = enter(described) if sandbox.mode == "none" else await asyncio.to_thread(enter, described)
        gate = started.gate
        inside = sandbox_environment(environment, proxy=gate is not None)
        async with contextlib.nullcontext() if gate is None else gate.joining() as joining:
            process = await asyncio.create_subprocess_exec(
                *started.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=started.folder,
                env=inside if started.descriptors else environment,
                start_new_session=True,
                pass_fds=started.descriptors,
            )
            program = StartedProgram(process)
            if joining is not None:
                await _let_out(program, joining, sandbox, write_log)
            return program


async def _let_out(program: StartedProgram, joining: SandboxJoining, sandbox: Sandbox, write_log: WriteLog) -> None:
    """Open the way out of a sandbox that waits for it; where that fails, nothing of the program is left."""
    try:
        program.opened = await joining.open()
        if program.opened is not None:
            program.egress = _egress(program.opened.listener, sandbox, write_log)
    except BaseException as error:
        program.kill()
        await program.process.wait()
        if isinstance(error, OSError):
            raise SandboxUnavailableError(f"no way out for the egress of its sandbox: {error}") from error
        raise


def _egress(listener: socket.socket, sandbox: Sandbox, write_log: WriteLog) -> "EgressProxy":
    """Return the proxy for a sandbox: its own list, and all that the operator's rules say beside it."""
    from towpath.tools.egress_proxy import EgressProxy  # noqa: PLC0415 - brings an HTTP parser, which few programs need

    rules = replace(HttpEgressSettings().rules(), allowed=sandbox.egress, list_name="`egress` of the sandbox")
    return EgressProxy(listener, rules, sandbox.egress_limits, write_log)


def _log_line(level: str, message: str, fields: dict[str, Any]) -> None:
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    _logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s %s", message, told)


def as_sandbox(sandbox: Sandbox | SandboxMode | None) -> Sandbox:
    """Return what was said, or what holds for the whole worker."""
    return sandbox if isinstance(sandbox, Sandbox) else Sandbox(mode=sandbox or default_mode(), egress=default_egress())


def _kill_started(starting: "asyncio.Future[StartedProgram]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()


def _start_error(error: OSError) -> str:
    match error:
        case SandboxUnavailableError():
            return "sandbox_unavailable"
        case FileNotFoundError() | NotADirectoryError():
            return "process_not_found"
        case PermissionError():
            return "process_not_permitted"
        case _:  # no program of this machine, written to just now, too many or too long arguments, no memory
            return "process_not_started"


def plain_environment() -> dict[str, str]:
    """Return what of this process's environment any program may see: no secrets of the worker."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
    return {name: value for name, value in os.environ.items() if name in kept}  # noqa: TID251 - a program needs a PATH


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it is given
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader | None, limit: int) -> tuple[bytes, bool]:
    """Read to the end, and keep the first *limit* bytes: a program that is not read from would wait for ever."""
    kept = bytearray()
    size = 0
    while stream is not None and (piece := await stream.read(_PIECE)):
        size += len(piece)
        kept += piece[: max(0, limit - len(kept))]
    return bytes(kept), size > limit


async def _end(program: StartedProgram, readers: list["asyncio.Task[tuple[bytes, bool]]"], grace_s: float) -> None:
    """Leave nothing of the program behind; a second cancel in the meantime does not spare it."""
    process = program.process
    left: set[asyncio.Task[Any]] = {asyncio.create_task(process.wait()), *readers}
    try:
        if process.returncode is None and signal_group(process.pid, signal.SIGTERM):
            await asyncio.wait(left, timeout=grace_s)
    finally:
        program.kill()  # also children that outlive the program itself
        try:
            await asyncio.wait(left, timeout=_REAPED_S)
        finally:
            for task in left:
                task.cancel()


def signal_group(group: int, number: signal.Signals) -> bool:
    """Signal every process of the group; False where none is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
