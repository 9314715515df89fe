"""An MCP server as a child process: one JSON message per line, both ways.

What it sends is read on the loop that all servers of the worker share: a message of very many values is not read, and
reading leaves the others half of the time. The child gets the environment that its operator wrote and no more of the
worker's; it leads a process group of its own, which dies with the connection; what it prints is bounded, line by line,
and what it says on its standard error goes to the log without secrets.
"""

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from towpath.tools.process import GRACE_S, StartedProgram, plain_environment, signal_group, start_program
from towpath.tools.sandbox import Sandbox
from towpath_contracts.strict_json import has_more_values
from towpath_fabric.clock import monotonic
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.adapters.mcp.error_codes import TOO_LARGE
from towpath_worker.adapters.mcp.secrets import SecretResolver
from towpath_worker.adapters.mcp.tool_checks import MAX_ANSWER_VALUES, clean_text

CLOSE_S = 1.0
"""How long a server may take to end by itself once its standard input is closed."""

KILL_WAIT_S = 2.0
EXIT_POLL_S = 0.05
FINAL_OUTPUT_S = 0.2
"""For reading what a server wrote before it ended."""

MAX_LINE_CHARS = 500
"""Of one line on standard error, as it is logged."""

MAX_LINES_PER_S = 20
"""Logged of a server; the rest is counted."""

READ_S = 0.005
"""How long lines are read before the loop does something else, for as long."""

MAX_REST_S = 1.0

_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})')
_PIECE = 64 * 1024

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """What to start, and in which sandbox. `environment` comes on top of PATH, HOME and the locale."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path | None
    max_line_bytes: int
    sandbox: Sandbox


@asynccontextmanager
async def stdio_transport(program: ServerProgram, secrets: SecretResolver, log: Logger) -> AsyncIterator[Streams]:
    """Start *program* and speak with it; OSError where it can't be started. At the end its whole group is gone."""
    started = await _start(program, secrets, log)
    process = started.process
    incoming, to_session = anyio.create_memory_object_stream[Incoming](0)[::-1]
    from_session, outgoing = anyio.create_memory_object_stream[SessionMessage](0)[::-1]
    tasks = [
        asyncio.create_task(_read(process, to_session, program.max_line_bytes), name="mcp stdout"),
        asyncio.create_task(_write(process, from_session, to_session), name="mcp stdin"),
        asyncio.create_task(_log_stderr(process, secrets, log), name="mcp stderr"),
        asyncio.create_task(_notice_end(process, to_session), name="mcp end"),
    ]
    try:
        yield incoming, outgoing
    finally:
        try:
            await _end(started, tasks)
        finally:  # a second cancel may end the wait, and must leave nothing open
            for stream in (incoming, to_session, from_session, outgoing):
                stream.close()


async def _start(program: ServerProgram, secrets: SecretResolver, log: Logger) -> StartedProgram:
    environment = {**plain_environment(), **program.environment}

    def write_log(level: str, message: str, fields: dict[str, Any]) -> None:
        write = log.warning if level == "warning" else log.info
        write(message, **secrets.hide_in(fields))  # a host's name is the server's word, and could hold one

    return await start_program(program.command, program.folder, environment, program.sandbox, write_log)


async def _exited(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of the server itself; `wait` would also wait for children of it that hold its pipes."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for it
        await asyncio.sleep(EXIT_POLL_S)


async def _notice_end(process: asyncio.subprocess.Process, to_session: MemoryObjectSendStream[Incoming]) -> None:
    """Close the session's stream once the server has ended and its last output is read."""
    await _exited(process)
    await asyncio.sleep(FINAL_OUTPUT_S)
    to_session.close()


class _ReadingPace:
    """Measures how long lines are read, and rests as long."""

    def __init__(self) -> None:
        self._began = monotonic()

    def begin(self) -> None:
        self._began = monotonic()

    async def rest(self) -> None:
        spent = monotonic() - self._began
        if spent >= READ_S:
            await asyncio.sleep(min(spent, MAX_REST_S))
            self.begin()


async def _read(process: asyncio.subprocess.Process, to_session: MemoryObjectSendStream[Incoming], limit: int) -> None:
    """Forward every line that is a message; one that is too long becomes an error for its request."""
    assert process.stdout is not None
    line = bytearray()
    skipping = False
    pace = _ReadingPace()
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError), to_session:
        while piece := await process.stdout.read(_PIECE):
            pace.begin()
            *ended, rest = piece.split(b"\n")
            for part in ended:
                line += part
                if not skipping and line.strip() and not await _forward(bytes(line), to_session, limit, pace):
                    return
                line.clear()
                skipping = False
                await pace.rest()
            line += rest
            if len(line) > limit and not skipping:
                if not await _forward(bytes(line), to_session, limit, pace):
                    return
                skipping = True
            if skipping:
                line.clear()


async def _forward(line: bytes, to_session: MemoryObjectSendStream[Incoming], limit: int, pace: _ReadingPace) -> bool:
    """Give the message of a line to the session; False where the request of a too large answer is unknown."""
    if len(line) > limit:
        return await _refuse(line, to_session, f"the answer is longer than {limit} bytes")
    if has_more_values(line, MAX_ANSWER_VALUES):
        return await _refuse(line, to_session, f"the answer has more than {MAX_ANSWER_VALUES} values")
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return True  # not a message, such as a line of a log: servers print there by mistake
    await pace.rest()
    await to_session.send(SessionMessage(message))
    pace.begin()
    return True


async def _refuse(line: bytes, to_session: MemoryObjectSendStream[Incoming], why: str) -> bool:
    """Answer the request of *line* with an error; False where that is unknown."""
    found = _ID.search(line[:200])
    if found is None:
        return False
    error = mcp_types.ErrorData(code=TOO_LARGE, message=why)
    await to_session.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=int(found.group(1)), error=error)))
    return True


async def _write(
    process: asyncio.subprocess.Process,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[Incoming],
) -> None:
    assert process.stdin is not None
    try:
        async for sent in from_session:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except (ConnectionError, anyio.ClosedResourceError, RuntimeError):
        to_session.close()  # a server that takes nothing in will not answer either


async def _log_stderr(process: asyncio.subprocess.Process, secrets: SecretResolver, log: Logger) -> None:
    """Log what the server writes on its standard error, within limits; lines beyond them are only counted."""
    assert process.stderr is not None
    line = bytearray()
    second, logged, left_out = 0.0, 0, 0
    while piece := await process.stderr.read(_PIECE):
        if monotonic() - second >= 1:
            second, logged = monotonic(), 0
        while logged < MAX_LINES_PER_S and b"\n" in piece:
            part, _, piece = piece.partition(b"\n")
            text = bytes((line + part)[: 4 * MAX_LINE_CHARS]).decode("utf-8", "replace")
            line.clear()
            logged += 1
            if text.strip():
                log.info("server says", text=clean_text(text, MAX_LINE_CHARS, secrets.hide).text, left_out=left_out)
                left_out = 0
        if b"\n" in piece:
            left_out += piece.count(b"\n")
            line.clear()
        line = (line + piece.rpartition(b"\n")[2])[: 4 * MAX_LINE_CHARS]


async def _end(started: StartedProgram, tasks: "list[asyncio.Task[None]]") -> None:
    """Close, ask, kill: the whole group, however this ends."""
    process = started.process
    waiting = asyncio.create_task(_exited(process))
    try:
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.wait({waiting}, timeout=CLOSE_S)
        if process.returncode is None and signal_group(process.pid, signal.SIGTERM):
            await asyncio.wait({waiting}, timeout=GRACE_S)
    finally:
        started.kill()  # also children that outlive the server itself
        try:
            await asyncio.wait({waiting, *tasks}, timeout=KILL_WAIT_S)
        finally:
            for task in (*tasks, waiting):
                task.cancel()
            await asyncio.gather(*tasks, waiting, return_exceptions=True)
        await _read_rest(process)


async def _read_rest(process: asyncio.subprocess.Process) -> None:
    """Read what nobody read of a server that wrote faster: its pipe is closed at its end, and not before."""
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(FINAL_OUTPUT_S):
            while await process.stdout.read(_PIECE):
                pass
