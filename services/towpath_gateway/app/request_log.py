"""The outermost layer: measures requests, and logs unexpected errors.

This is the one place of the gateway that catches every exception. Where the application has not answered by then, since
a layer in front of it failed, the client gets its problem here. The log says where an error came from, never its text,
which may hold what a client sent.
"""

import traceback

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.errors import unexpected_response

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
"""Of each answer that does not say otherwise: with a second word browsers load the files of the console each time."""


class RequestLog:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, dependencies: GatewayDependencies) -> None:
        self._app = app
        self._dependencies = dependencies

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
                own = [*message.get("headers", [])]
                named = {name.lower() for name, _ in own}
                message["headers"] = [*own, *(header for header in _HEADERS if header[0] not in named)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001 - the outermost loop: one broken request must not end the others
            self._log(scope, error)
            if status == 0:
                await unexpected_response(Request(scope))(scope, receive, send_with_headers)
        finally:
            self._count(scope, status, monotonic() - started)

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
