"""One live connection to an MCP server: listing its tools, calling one, and noticing its end.

A server may ask nothing of us. What it asks (elicitation, sampling, roots) is refused by the SDK, because no such
capability is declared, and noted; one that asks without end has its connection ended, since each refusal waits in this
process until the server takes it. What it answers is read as data, and checked within bounds before it is believed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter

from towpath_fabric.clock import monotonic
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.adapters.mcp.tool_checks import MAX_TOOLS

MAX_PAGES = 16
"""Of a listing; a server that never ends it has no tools here."""

MAX_ASKED = 100
ASKED_PER_S = 1.0
"""Requests of a server at once, and in the long run: honest ones ping now and then, or ask once in a call."""

META_EXECUTION = "io.towpath/execution_id"
META_ATTEMPT = "io.towpath/attempt"
META_RUN = "io.towpath/run_id"


_ANSWER: TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)


class ListingRefusedError(Exception):
    """A server's list of tools that is not believed; the text says why."""


class ServerConnection:
    """A connected server. `over` is set when it takes no new calls, `idle` while it has none.

    `fault` says why it was retired where that is the server's fault.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._client: Client | None = None
        self._calls = 0
        self.over = asyncio.Event()
        self.ended = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.changed = asyncio.Event()
        self.fault = ""
        self._may_ask, self._asked_s = float(MAX_ASKED), monotonic()

    @property
    def client(self) -> Client:
        """The SDK's client; RuntimeError before `open`."""
        if self._client is None:
            msg = "the connection is not open"
            raise RuntimeError(msg)
        return self._client

    @asynccontextmanager
    async def open(
        self, transport: AbstractAsyncContextManager[Any], mode: str, version: str
    ) -> AsyncIterator["ServerConnection"]:
        """Connect for the length of the block, which must be entered and left in one task."""
        client = Client(
            _watched(transport, self),
            mode=mode,
            cache=None,
            client_info=mcp_types.Implementation(name="towpath", version=version),
            message_handler=self._on_message,
        )
        async with client:
            self._client = client
            yield self

    def retire(self, fault: str = "") -> None:
        """Take no new calls: what hangs in the server ends with the connection, once the other calls have ended.

        *fault* says what is wrong with the server; without one it is well, and may be connected to again at once.
        """
        if not self.over.is_set():  # who retired it first knows why
            self.fault = fault
        self.over.set()

    async def list_tools(self) -> list[mcp_types.Tool]:
        """Return every tool that the server names; raises ListingRefusedError, or what a call raises."""
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = mcp_types.PaginatedRequestParams(cursor=cursor)
            page = await self.client.session.list_tools(params=params)
            found.extend(page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return found
            if len(found) > 4 * MAX_TOOLS:
                break
        msg = f"the server's list of tools does not end: {len(found)} so far"
        raise ListingRefusedError(msg)

    async def call(
        self, tool: str, args: dict[str, Any], meta: dict[str, Any], progress: ProgressFnT
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        """Call *tool* and return the answer as it came. A call that is cut off retires the connection."""
        params = mcp_types.CallToolRequestParams(
            name=tool, arguments=args, _meta=cast("mcp_types.RequestParamsMeta", meta)
        )
        request = mcp_types.CallToolRequest(params=params)
        self._calls += 1
        self.idle.clear()
        try:
            return await self.client.session.send_request(request, _ANSWER, progress_callback=progress)
        except asyncio.CancelledError:
            self.retire()
            raise
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()

    async def watch_changes(self) -> None:
        """Subscribe to changes of the tools where the protocol needs it (2026-07-28); returns where it can't."""
        capability = self.client.server_capabilities.tools
        modern = self.client.session.discover_result is not None
        if not modern or capability is None or not capability.list_changed:
            return
        try:
            async with self.client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.changed.set()
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            self._log.info("the server no longer says when its tools change", error=type(error).__name__)

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.changed.set()

    def observe(self, item: Any) -> bool:
        """Log what the server asks of us, which the SDK refuses; return whether to hear more of it."""
        if not (isinstance(item, SessionMessage) and isinstance(item.message, mcp_types.JSONRPCRequest)):
            return True
        now = monotonic()
        self._may_ask = min(MAX_ASKED, self._may_ask + (now - self._asked_s) * ASKED_PER_S) - 1
        self._asked_s = now
        if self._may_ask < 0:
            self.retire("it asks for something without end")
            return False
        self._log.warning("the server asks for something and is refused", method=item.message.method[:64])
        return True

    def mark_ended(self) -> None:
        """Note that the server answers no more."""
        self.ended.set()
        self.over.set()


@asynccontextmanager
async def _watched(transport: AbstractAsyncContextManager[Any], connection: ServerConnection) -> AsyncIterator[Any]:
    async with transport as (incoming, outgoing):
        yield _WatchedStream(incoming, connection), outgoing


class _WatchedStream:
    """The stream of what a server sends, observed by its connection."""

    def __init__(self, inner: Any, connection: ServerConnection) -> None:
        self._inner = inner
        self._connection = connection

    @property
    def last_context(self) -> Any:
        """The context of the sender, where the stream carries one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        """Return the next item."""
        item = await self._inner.receive()
        if not self._connection.observe(item):
            self._connection.mark_ended()
            raise anyio.EndOfStream
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except StopAsyncIteration:
            self._connection.mark_ended()
            raise
        if not self._connection.observe(item):
            self._connection.mark_ended()
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._connection.mark_ended()
        left: bool | None = await self._inner.__aexit__(kind, error, trace)
        return left
