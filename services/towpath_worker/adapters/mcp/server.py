"""Keeps one MCP server connected and its tools offered, and sends calls to it.

Whatever a server does ends a connection, never the worker. A new connection is made after growing pauses, except in one
case: a call that was cut off retires its connection, so that what hangs in the server is ended, while the other calls
go on to their end and the next connection is made at once. A call goes out only on a fresh list of tools that names the
tool as it was accepted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from towpath.errors import ToolError
from towpath.project.mcp_servers import ServerConfig
from towpath.tools.context import ToolContext
from towpath.tools.sandbox import refusal
from towpath_contracts.base import JsonObject
from towpath_fabric.clock import monotonic
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.adapters.mcp.answers import failure_from, input_required, result_of_answer
from towpath_worker.adapters.mcp.connection import (
    META_ATTEMPT,
    META_EXECUTION,
    META_RUN,
    ListingRefusedError,
    ServerConnection,
)
from towpath_worker.adapters.mcp.discovery import DiscoveredTool, OfferableTool, ServerListing, sort_listing
from towpath_worker.adapters.mcp.error_codes import SESSION_GONE
from towpath_worker.adapters.mcp.http import http_transport
from towpath_worker.adapters.mcp.secrets import SecretResolver
from towpath_worker.adapters.mcp.stdio import ServerProgram, stdio_transport
from towpath_worker.adapters.mcp.tool_checks import clean_text
from towpath_worker.core.results import ExternalOutcomeUnknownError

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 30.0
"""A connection that lived so long was no failure: the next pause is short again."""

LISTING_S = 15.0
"""For one listing of the tools; a server that takes longer is hung."""

BACKGROUND_S = 60.0
"""Between two listings where every call makes one anyway."""

PENDING_S = 10.0
"""How often it is asked whether a changed tool has been accepted."""

DRAIN_S = 3_600.0
"""How long a retired connection may be kept for its other calls: each has its own time, at most an hour."""

RECONNECT_S = 10.0
"""How long a call waits for a connection that is just being made."""

PROGRESS_S = 1.0

CONNECTION_USELESS = frozenset({SESSION_GONE, CONNECTION_CLOSED})

Offer = Callable[[str, tuple[DiscoveredTool, ...]], None]
"""Takes the toolset and all of its tools, and has them registered; the tools learn their standing later."""


class McpServer:
    """One server of the file. `run` until cancelled; `settled` is set once its tools are known, or it failed."""

    def __init__(self, name: str, config: ServerConfig, folder: Path, log: Logger) -> None:
        self.name = name
        self.toolset = config.toolset or name
        self.config = config
        self.settled = asyncio.Event()
        self.discovered = ServerListing()
        self.tools: tuple[DiscoveredTool, ...] = ()
        self.state = "not started yet"
        self._folder = folder
        self._secrets = SecretResolver(folder)
        self._log = log.bind(server=name)
        self._current: ServerConnection | None = None
        self._up = asyncio.Event()
        self._trying = False
        self._listed_s = float("-inf")
        self._listing = asyncio.Lock()
        self._offer: Offer | None = None

    @property
    def up(self) -> bool:
        """Whether calls can be taken now."""
        return self._current is not None and not self._current.over.is_set()

    @property
    def held(self) -> int:
        """How many tools are not accepted as they are."""
        return sum(not tool.accepted for tool in self.tools)

    async def run(self, offer: Offer | None = None) -> None:
        """Keep the server connected and its tools offered, for ever."""
        self._offer = offer
        pause_s = 0.0
        async with asyncio.TaskGroup() as group:
            while True:
                connection = ServerConnection(self._log)
                began_s, self._trying = monotonic(), True
                keeping = group.create_task(self._hold(connection), name=f"mcp {self.name}")
                await connection.over.wait()
                lived_s = monotonic() - began_s if self._current is connection else 0.0  # else it never came up
                if self._current is connection:
                    self._current, self.state = None, connection.fault or "its connection ended"
                    self._up.clear()
                retired = not connection.ended.is_set()  # it may be kept for its other calls for long
                if retired and not connection.fault:  # the server is well, and the next one starts at once
                    continue
                self._trying = False
                if not retired:
                    await keeping
                pause_s = FIRST_PAUSE_S if lived_s > STEADY_S or not pause_s else min(pause_s * 2, LONGEST_PAUSE_S)
                self._log.info("the server is connected to again", in_s=pause_s)
                await asyncio.sleep(pause_s)

    async def call(self, tool: DiscoveredTool, args: JsonObject, context: ToolContext) -> Any:
        """Call *tool* and return its result; raises ToolError, or ExternalOutcomeUnknownError where nobody knows."""
        connection = await self._connection_for(tool, context.remaining_s)
        meta = {
            META_EXECUTION: str(context.execution_id),
            META_ATTEMPT: context.attempt,
            META_RUN: str(context.run_id),
        }
        try:
            answer = await connection.call(tool.found.tool, args, meta, _Progress(context, self._secrets))
        except MCPError as error:
            if error.code in CONNECTION_USELESS:
                connection.retire("its connection took no more calls")
            raise failure_from(error, self.name, self._secrets) from error
        except ValidationError as error:
            msg = f"{self.name} gave an answer that is no answer to a tool's call"
            raise ExternalOutcomeUnknownError("mcp_result_invalid", msg) from error
        if isinstance(answer, mcp_types.InputRequiredResult):
            self._log.warning("the server asks for input in an answer and is refused", tool=tool.name)
            raise input_required(self.name)
        return await result_of_answer(answer, tool.found.output_schema, self.name, self._secrets)

    async def _connected(self, within_s: float) -> ServerConnection | None:
        """Return the connection that takes calls; where one is being made, wait for it a little."""
        if self._trying and not self.up:
            self._up.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._up.wait()
        return self._current if self.up else None

    async def _connection_for(self, tool: DiscoveredTool, within_s: float) -> ServerConnection:
        """Return the connection for a call of *tool*; raises ToolError where it must not go out."""
        connection = await self._connected(min(RECONNECT_S, within_s))
        if connection is None:
            raise ToolError("mcp_server_down", f"{self.name}: {self.state}", retryable=True, external=True)
        if monotonic() - self._listed_s > self.config.recheck:
            try:
                await self._list(connection)
            except (MCPError, ListingRefusedError, TimeoutError, ValidationError) as error:
                message = f"{self.name} does not list its tools: {type(error).__name__}"
                raise ToolError("mcp_server_down", message, retryable=True, external=True) from error
        if tool not in self.tools or not tool.accepted:
            msg = f"{tool.name} is not what was accepted under this name, or {self.name} has it no more"
            raise ToolError("tool_drifted", msg, hint="A policy admin has to look at it; go on with other tools.")
        return connection

    async def _hold(self, connection: ServerConnection) -> None:
        """Hold one connection from its start to its end; nothing that goes wrong leaves this."""
        try:
            async with self._opened(connection):
                self._current, self.state = connection, "connected"
                self._up.set()
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(connection.watch_changes())
                    looking = group.create_task(self._look_after(connection))
                    await connection.over.wait()
                    looking.cancel()
                    watching.cancel()
                await self._drain(connection)
        except Exception as error:  # noqa: BLE001 - the outermost loop of an untrusted server's connection: any fault ends it
            reason = _reason_of(error, self._secrets)
            self._log.warning("the server's connection ended", reason=reason)
            if self._current is None:
                self.state = reason
        finally:
            self.settled.set()
            if not connection.over.is_set():
                connection.mark_ended()

    @contextlib.asynccontextmanager
    async def _opened(self, connection: ServerConnection) -> AsyncIterator[None]:
        """Connect and list within the time for it."""
        async with asyncio.timeout(self.config.start_timeout) as starting:
            opened = connection.open(self._transport(), self.config.protocol, version("towpath"))
            async with opened:
                await self._list(connection)
                starting.reschedule(None)
                self.settled.set()
                yield

    def _transport(self) -> contextlib.AbstractAsyncContextManager[Any]:
        config = self.config
        if config.url is not None:
            headers = self._secrets.resolve(config.headers)
            return http_transport(config.url, headers, config.max_output_bytes)
        assert config.command is not None
        program = ServerProgram(
            command=(self._program(config.command), *config.args),
            environment=self._secrets.resolve(config.env),
            folder=self._program_folder(),
            max_line_bytes=config.max_output_bytes,
            sandbox=config.sandbox_in(self._folder),
        )
        return stdio_transport(program, self._secrets, self._log)

    def _program(self, command: str) -> str:
        """Return the program; a path begins at the file's folder."""
        return str(self._folder / (self.config.cwd or "") / command) if "/" in command else command

    def _program_folder(self) -> Path | None:
        """Return where the program starts; in a sandbox only a folder that was named, since it can be read there."""
        config = self.config
        if config.cwd is None and config.sandbox_in(self._folder).mode != "none" and not refusal():
            return None
        return self._folder / (config.cwd or "")

    async def _look_after(self, connection: ServerConnection) -> None:
        """List the tools again when the server says that they changed, and now and then; ask for what is pending."""
        while True:
            every_s = max(1.0, self.config.recheck or BACKGROUND_S)
            waits = not all(tool.accepted for tool in self.tools)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(every_s, PENDING_S) if waits else every_s):
                    await connection.changed.wait()
            connection.changed.clear()
            if waits and self._offer is not None:
                self._offer(self.toolset, self.tools)
            try:
                await self._list(connection)
            except (MCPError, ListingRefusedError, TimeoutError, ValidationError) as error:
                self._log.warning("the server does not list its tools", error=type(error).__name__)
                connection.retire("it does not list its tools")
                return
            await asyncio.sleep(1.0)  # a server that says "changed" all the time is followed once a second

    async def _list(self, connection: ServerConnection) -> None:
        """Read the server's list, and offer its tools where something changed. One at a time."""
        async with self._listing:
            async with asyncio.timeout(LISTING_S):
                listed = await connection.list_tools()
            found = await asyncio.to_thread(sort_listing, self.toolset, self.config, listed, self._secrets.hide)
            tools = tuple(self._known(one) or DiscoveredTool(one, self.call) for one in found.found)
            changed = tools != self.tools or found.refused != self.discovered.refused
            self.tools, self.discovered, self._listed_s = tools, found, monotonic()
            if changed:
                self._report()
            if changed and self._offer is not None:
                self._offer(self.toolset, self.tools)

    def _known(self, found: OfferableTool) -> DiscoveredTool | None:
        """Return the tool that is just so already, and keeps its standing."""
        return next((tool for tool in self.tools if tool.found == found), None)

    def _report(self) -> None:
        found = self.discovered
        self._log.info("the server's tools", offered=len(found.found), left_out=len(found.left_out))
        for name, reason in found.refused.items():
            self._log.warning("a tool of the server is refused", tool=name, reason=reason)
        for one in found.found:
            if one.warnings:
                self._log.warning("a tool's definition is odd", tool=one.spec.name, warnings=one.warnings)
        if found.missing:
            self._log.warning("the file speaks of tools that the server does not have", tools=found.missing)

    async def _drain(self, connection: ServerConnection) -> None:
        """Let the calls of a retired connection end; each ends by its own time."""
        waits = [asyncio.create_task(connection.idle.wait()), asyncio.create_task(connection.ended.wait())]
        try:
            await asyncio.wait(waits, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()


class _Progress:
    """Writes what a server says of its progress into the run's tool log, once a second at most."""

    def __init__(self, context: ToolContext, secrets: SecretResolver) -> None:
        self._context = context
        self._secrets = secrets
        self._written_s = float("-inf")

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if monotonic() - self._written_s < PROGRESS_S:
            return
        self._written_s = monotonic()
        text = clean_text(message or "", 200, self._secrets.hide).text
        self._context.log("progress", progress=progress, total=total, said=text)


def _reason_of(error: BaseException, secrets: SecretResolver) -> str:
    """Say in one line what ended a connection."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = error.message if isinstance(error, MCPError) else str(error)
    text = clean_text(message, 300, secrets.hide).text
    return f"{type(error).__name__}: {text}".removesuffix(": ")
