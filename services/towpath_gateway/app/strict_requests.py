"""Requests as the gateway reads them: bounded, JSON only, strictly parsed.

A body is refused before it is held whole when it is too large, and before it is parsed when it is not JSON. Asking
for `application/json` also keeps web pages of other sites out: a browser asks first before it sends that (CORS). Large
ones are parsed one after the other, in turns of projects: hundreds that come in at the same moment would else hold up
every other request until the last of them is parsed.
"""

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import Receive, Scope

from towpath_contracts.problems.input_faults import MAX_LISTED, MAX_PART_CHARS, FaultList, faults_of_sample, list_faults
from towpath_contracts.problems.json_syntax import describe_json_error
from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.problems.registry import Problem, ProblemDetail, ProblemError, problem
from towpath_contracts.strict_json import NotStrictJsonError, read_bounded
from towpath_gateway.adapters.platform_client import LONG_BYTES, LargeBody, large_body
from towpath_gateway.app.dependencies import Requires, dependencies_of
from towpath_gateway.app.errors import HttpProblemError, validation_problem

MAX_BODY_BYTES = 1024 * 1024
"""The largest body: NATS carries no more in one message."""

_TASK_AS_JSON = (
    'Send a JSON object in UTF-8, such as {"network": "support", "user_message": "hi"}, with the header '
    "Content-Type: application/json."
)

ALONE_BYTES = 2 * 1024
"""From which size on bodies are parsed one after the other: a thousand of 16 KiB take five seconds if all is wrong."""


def read_json(body: bytes) -> Any:
    """Return the value of *body*; raises ProblemError `request_malformed` saying what is wrong."""
    try:
        return read_bounded(body)
    except NotStrictJsonError as error:
        said = str(error) if error.syntax is None else describe_json_error(error.syntax)
        raise ProblemError(problem("request_malformed", said)) from None


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type names JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


class BoundedJsonRequest(Request):
    """A request whose body is at most MAX_BODY_BYTES of JSON, with at most as many faults as are listed."""

    def __init__(self, scope: Scope, receive: Receive, kind: TypeAdapter[Any] | None, project: str = "") -> None:
        """*kind* is what the route takes as its body, *project* who sends it."""
        super().__init__(scope, receive)
        self._kind = kind
        self._project = project

    async def body(self) -> bytes:
        """Return the body; refuses a large one while it comes in, and one that is not JSON."""
        if not hasattr(self, "_body"):
            most_s = dependencies_of(self).settings.http_body_s
            try:
                self._body = await asyncio.wait_for(self._bounded(), most_s)
            except TimeoutError as error:
                raise HttpProblemError(problem("request_malformed", f"no whole body within {most_s:g} s")) from error
            if self._body and not is_json(self.headers.get("content-type")):
                raise HttpProblemError(self._of_another_form())
        return self._body

    def _of_another_form(self) -> Problem:
        """Return the problem of a body that does not say that it is JSON, with an example where it is none either."""
        detail = f"Content-Type is {self.headers.get('content-type')!r}"
        if self.scope["path"] == "/v1/runs" and not self._body.lstrip().startswith(b"{"):
            return problem("media_type_unsupported", detail, remedy=_TASK_AS_JSON)
        return problem("media_type_unsupported", detail)

    async def json(self) -> Any:
        """Return the body as what the route takes, which the framework lets pass as it is.

        The framework makes several objects of each fault. So a body with more faults than are listed is refused here;
        one with a few is returned as parsed JSON: the framework finds them again, beside those of path and query.
        """
        body = await self.body()
        try:
            if len(body) < ALONE_BYTES:
                return self._parsed(body)
            if len(body) >= LONG_BYTES:
                large_body.set(LargeBody(self._project, len(body)))
            async with dependencies_of(self).body_turns.held(self._project):
                try:
                    return self._parsed(body)
                finally:  # who comes at the same moment waits for its turn, and others are served before that
                    await asyncio.sleep(0)
        except ProblemError as error:
            raise HttpProblemError(error.problem) from error

    def _parsed(self, body: bytes) -> Any:
        value = read_json(body)
        if self._kind is None:
            return value
        try:
            return self._kind.validate_python(value)
        except ValidationError as error:
            if error.error_count() <= MAX_LISTED:
                return value
            faults = list_faults(error, faults_of_sample(self._kind, value))
            raise HttpProblemError(validation_problem(faults.within("body"))) from error

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

    request_type: type[BoundedJsonRequest] = BoundedJsonRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, fed with strict requests."""
        handler = super().get_route_handler()
        needed = requirements(self)
        taken = body_type(self)
        kind: Callable[[], TypeAdapter[Any] | None] = functools.cache(lambda: taken and TypeAdapter(taken))

        known = frozenset(query_parameters(self.dependant))

        async def strict(request: Request) -> Response:
            project = ""
            for requirement in needed:
                project = (await requirement(request)).project
            refuse_unknown_parameters(request, known)
            return await handler(self.request_type(request.scope, request.receive, kind(), project))

        return strict


def query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of what a route, and what it depends on, takes of the query."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for below in dependant.dependencies:
        yield from query_parameters(below)


def refuse_unknown_parameters(request: Request, known: Collection[str]) -> None:
    """Raise HttpProblemError where the query has parameters that the route does not know: what they ask is not done."""
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        details = tuple(_unknown_parameter(name[:MAX_PART_CHARS], known) for name in unknown[:MAX_LISTED])
        raise HttpProblemError(validation_problem(FaultList(details, len(unknown))))


def _unknown_parameter(name: str, known: Collection[str]) -> ProblemDetail:
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
    detail = f"the route has no parameter {name!r}; {hint}"
    return ProblemDetail(pointer=f"/query/{name}", code="parameter_unknown", detail=detail)


def requirements(route: APIRoute) -> tuple[Requires, ...]:
    """Return what a route asks of its caller; nothing where it needs no key."""
    return tuple(
        dependency.call for dependency in route.dependant.dependencies if isinstance(dependency.call, Requires)
    )


def body_type(route: APIRoute) -> Any:
    """Return what a route takes as its body; None where it takes none."""
    taken = route.dependant.body_params
    return taken[0].field_info.annotation if taken else None


def _too_large() -> None:
    raise HttpProblemError(problem("request_too_large", f"a body may have {MAX_BODY_BYTES} bytes"))
