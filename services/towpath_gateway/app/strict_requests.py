"""Requests as the gateway reads them: bounded, JSON only, strictly parsed.

A body is refused before it is held whole when it is too large, and before it is parsed when it is not JSON. Asking
for `application/json` also keeps web pages of other sites out: a browser asks first before it sends that (CORS).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.strict_json import MAX_DEPTH, NotStrictJsonError, read_strict
from towpath_gateway.app.dependencies import Requires, dependencies_of
from towpath_gateway.app.errors import HttpProblemError

MAX_BODY_BYTES = 1024 * 1024
"""The largest body: NATS carries no more in one message."""


def read_json(body: bytes) -> Any:
    """Return the value of *body*; raises ProblemError `request_malformed` saying what is wrong."""
    try:
        return read_strict(body, max_depth=MAX_DEPTH)
    except NotStrictJsonError as error:
        raise ProblemError(problem("request_malformed", str(error))) from None


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type names JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


class BoundedJsonRequest(Request):
    """A request whose body is at most MAX_BODY_BYTES of JSON."""

    async def body(self) -> bytes:
        """Return the body; refuses a large one while it comes in, and one that is not JSON."""
        if not hasattr(self, "_body"):
            most_s = dependencies_of(self).settings.http_body_s
            try:
                self._body = await asyncio.wait_for(self._bounded(), most_s)
            except TimeoutError as error:
                raise HttpProblemError(problem("request_malformed", f"no whole body within {most_s:g} s")) from error
            if self._body and not is_json(self.headers.get("content-type")):
                detail = f"Content-Type is {self.headers.get('content-type')!r}"
                raise HttpProblemError(problem("media_type_unsupported", detail))
        return self._body

    async def json(self) -> Any:
        """Return the parsed body."""
        try:
            return read_json(await self.body())
        except ProblemError as error:
            raise HttpProblemError(error.problem) from error

    async def _bounded(self) -> bytes:
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            _too_large()
        parts: list[bytes] = []
        size = 0
        async for part in self.stream():
            size += len(part)
            if size > MAX_BODY_BYTES:
                _too_large()
            parts.append(part)
        return b"".join(parts)


class BoundedJsonRoute(APIRoute):
    """A route whose handler gets a BoundedJsonRequest, of whose body nothing is read for a caller without the scope."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, fed with strict requests."""
        handler = super().get_route_handler()
        needed = requirements(self)

        async def strict(request: Request) -> Response:
            for requirement in needed:
                await requirement(request)
            return await handler(BoundedJsonRequest(request.scope, request.receive))

        return strict


def requirements(route: APIRoute) -> tuple[Requires, ...]:
    """Return what a route asks of its caller; nothing where it needs no key."""
    return tuple(
        dependency.call for dependency in route.dependant.dependencies if isinstance(dependency.call, Requires)
    )


def _too_large() -> None:
    raise HttpProblemError(problem("request_too_large", f"a body may have {MAX_BODY_BYTES} bytes"))
