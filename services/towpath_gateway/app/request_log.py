"""The outermost layer: limits and measures requests, and logs unexpected errors.

This is the one place of the gateway that catches every exception; the client has got its problem by then (`errors`).
The log says where an error came from, never its text, which may hold what a client sent.
"""

import traceback

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from towpath_contracts.problems.registry import problem
from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.errors import problem_response

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class RequestLog:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, dependencies: GatewayDependencies) -> None:
        self._app = app
        self._dependencies = dependencies
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or refuse what is not HTTP as the application does."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = monotonic()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        self._under_way += 1
        try:
            if self._under_way > self._dependencies.settings.max_requests:
                await self._refuse_flood(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001 - the outermost loop: one broken request must not end the others
            self._log(scope, error)
        finally:
            self._under_way -= 1
            self._count(scope, status, monotonic() - started)

    async def _refuse_flood(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = problem("overloaded", f"{self._under_way - 1} requests are under way here", retry_after_s=1)
        await problem_response(found, Request(scope, receive))(scope, receive, send)

    def _log(self, scope: Scope, error: Exception) -> None:
        frames = "".join(traceback.format_tb(error.__traceback__))
        self._dependencies.log.error("a request failed", route=_route(scope), error=type(error).__name__, frames=frames)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._dependencies.metrics.requests.labels(method, route, str(status)).inc()
        if not route.endswith("/events"):
            self._dependencies.metrics.seconds.labels(route).observe(seconds)


def _route(scope: Scope) -> str:
    """Return the template of the route, so that ids never become labels."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "none"


def wrap(app: FastAPI, dependencies: GatewayDependencies) -> RequestLog:
    """Return *app* with its edge."""
    return RequestLog(app, dependencies)
