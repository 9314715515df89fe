"""Serves `/mcp`: loaded with the first request, since most gateways have none.

A body is read and refused as those of the API's routes are. Neither a session nor a stream of its own is kept (GET and
DELETE are refused, as the protocol allows), so that replicas need to know nothing of each other.
"""

import asyncio
import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Message, Receive, Scope, Send

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.adapters.platform_client import large_body
from towpath_gateway.app.dependencies import GatewayDependencies, authenticate
from towpath_gateway.app.errors import MCP_PATH
from towpath_gateway.app.strict_requests import MAX_BODY_BYTES, BoundedJsonRequest

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_SERVER = "towpath_gateway.app.protocols.mcp_server.server"


class McpRoute(BaseRoute):
    """Takes what is sent to `/mcp`."""

    path = MCP_PATH
    """What metrics call it."""

    def __init__(self, app: FastAPI, dependencies: GatewayDependencies, package: str = "mcp") -> None:
        """*package* is what has to be installed."""
        self._app = app
        self._dependencies = dependencies
        self._package = package
        self._loading = asyncio.Lock()
        self._sessions: StreamableHTTPSessionManager | None = None
        self._serving: asyncio.Task[None] | None = None
        self._under_way = 0
        self._none_under_way = asyncio.Event()
        self._none_under_way.set()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether this is sent here."""
        if scope["type"] == "http" and scope["path"] == MCP_PATH:
            return Match.FULL, {"route": self}
        return Match.NONE, {}

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        """Raise: it has no name."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            raise HTTPException(405, "messages are sent by POST", {"Allow": "POST"})
        principal = await authenticate(Request(scope))
        request = BoundedJsonRequest(scope, receive, None, principal.project)
        await request.json()
        large_body.set(None)  # what a tool asks of the API is another request, with a body of its own
        body = await request.body()
        if self._dependencies.stopping.is_set():
            raise ProblemError(problem("unavailable", "this gateway ends", retry_after_s=2))
        self._under_way += 1
        self._none_under_way.clear()
        try:
            sessions = self._sessions or await self._load()
            await sessions.handle_request(scope, _again(body, receive), send)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_under_way.set()

    async def _load(self) -> "StreamableHTTPSessionManager":
        async with self._loading:
            if self._sessions is None:
                self._sessions = await self._started(await self._server())
        return self._sessions

    async def _server(self) -> Any:
        try:
            await asyncio.to_thread(importlib.import_module, self._package)
            module = await asyncio.to_thread(importlib.import_module, _SERVER)
        except ImportError as error:
            detail = f"{MCP_PATH} needs the package {error.name}, which this gateway does not have"
            remedy = "Where the gateway runs: pip install 'towpath[gateway,mcp]'."
            raise ProblemError(problem("protocol_missing", detail, remedy=remedy)) from error
        return module.make_server(self._app, self._dependencies)

    async def _started(self, server: Any) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - half a second for who serves nobody here
            StreamableHTTPSessionManager,
        )

        sessions = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=MAX_BODY_BYTES)
        ready = asyncio.Event()
        serving = asyncio.create_task(self._serve(sessions, ready))
        waiting = asyncio.create_task(ready.wait())
        self._serving = serving  # or nothing would hold it
        try:
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not ready.is_set():
            await serving  # tells why it could not begin; the next request tries again
        return sessions

    async def _serve(self, sessions: "StreamableHTTPSessionManager", ready: asyncio.Event) -> None:
        """Hold what serves requests of the older protocol, in one task from its beginning to its end.

        Its end cancels them, and a call that has submitted a run is still to say which: it waits for those under way.
        """
        async with sessions.run():
            ready.set()
            await self._dependencies.stopping.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_under_way.wait(), self._dependencies.settings.stop_grace_s)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives *body*, which was read, and then what *receive* gives: that the client went away."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
