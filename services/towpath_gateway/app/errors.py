"""Every refusal as application/problem+json (RFC 9457).

Whatever goes wrong, the client gets a problem with a stable code and a remedy; nothing of the inside leaks into
it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from uuid import UUID

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.input_faults import FaultList, details_of, in_plain_words
from towpath_contracts.problems.known_names import with_names
from towpath_contracts.problems.near_names import likeness, suggest_name
from towpath_contracts.problems.registry import Problem, ProblemDetail, ProblemError, problem
from towpath_gateway.core.a2a_errors import is_a2a, unread_call, unread_message
from towpath_gateway.core.headers import SAFE_METHODS
from towpath_gateway.core.openai_errors import is_openai, openai_error, openai_path_meant, retry_header

PROBLEM_JSON = "application/problem+json"
JSON = "application/json"
MCP_PATH = "/mcp"

RETRY_AFTER_S = 2
"""Seconds that a client is asked to wait where nothing else is known: a restart takes about this long."""

_CODES = {
    HTTPStatus.BAD_REQUEST: "request_malformed",
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "media_type_unsupported",
}

_NEEDS_RETRY_AFTER = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


_QUERY = "/query/"
"""How the pointer of a parameter of the query begins."""

_NO_PATH = "GET /openapi.json lists every path of the API, and the console is at /."

_ELSEWHERE = frozenset({"not_found", "method_not_allowed"})
"""What is answered to who asks for something at the address of something else."""


_SLIP = 0.7
"""From which likeness on a part of a path is one of the API with a slip in it: `run` is 0.86 like `runs`."""

_LONGEST_SLIP = 32
"""Characters of a part that is compared: whoever asks for a path needs no key, and this takes time."""


class HttpProblemError(HTTPException):
    """A problem raised where the framework lets nothing but its own exceptions through (while it reads a body)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(status_code=problem.status, detail=problem.detail)
        self.problem = problem


@contextmanager
def naming_run(run_id: UUID) -> Iterator[None]:
    """Let whatever is refused meanwhile name the run: who repeated the request would have it a second time."""
    try:
        yield
    except ProblemError as error:
        raise ProblemError(error.problem.of_run(run_id)) from error


def problem_body(found: Problem, path: str = "") -> dict[str, Any]:
    """Return the members of *found* that say something; *path* becomes `instance`."""
    body = found.model_dump(mode="json", exclude_none=True)
    body.setdefault("instance", path)
    if found.run_id is not None:
        body.setdefault("trace_id", found.run_id.replace("-", ""))
    return {key: value for key, value in body.items() if value not in ([], {}, "")}


def problem_response(
    found: Problem, request: Request, headers: Mapping[str, str] | None = None, *, is_for_mcp: bool = False
) -> Response:
    """Return *found* as the answer to *request*; with *is_for_mcp* also where the path is not that of MCP."""
    sent = dict(headers or {})
    if found.status in _NEEDS_RETRY_AFTER:
        sent["Retry-After"] = str(found.retry_after_s or RETRY_AFTER_S)
    if found.status == HTTPStatus.UNAUTHORIZED:
        sent["WWW-Authenticate"] = 'Bearer realm="towpath"'
    if found.code == "timeout" and "location" in found.extra:
        sent["Location"] = str(found.extra["location"])
    body = found.model_copy(update={"retry_after_s": int(sent["Retry-After"])}) if "Retry-After" in sent else found
    told = problem_body(body, request.url.path)
    is_elsewhere = found.code == "not_found" and openai_path_meant(request.scope["path"]) is not None
    if is_elsewhere or is_openai(request.scope["path"]):
        told["error"] = openai_error(body)
        is_one_run = request.method in SAFE_METHODS or "idempotency-key" in request.headers
        sent |= retry_header(found, is_one_run=is_one_run)
    elif is_a2a(request.scope["path"]):
        told = {**unread_call(body), **told}
    elif (
        is_for_mcp or request.scope["path"] == MCP_PATH
    ):  # its clients read an error in JSON, and of other refusals say nothing
        return Response(canonical_json(told | unread_message(body)), found.status, sent, JSON)
    return Response(canonical_json(told), found.status, sent, PROBLEM_JSON)


def validation_problem(faults: FaultList) -> Problem:
    """Return `request_invalid` with the problems of the input and their JSON pointers."""
    return problem("request_invalid", faults.summary, errors=faults.details)


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a ProblemError."""
    assert isinstance(error, ProblemError)
    found = _with_names_of(request, error.problem)
    page = request.app.state.console.refusal(found, request) if request.app.state.dependencies else None
    return page or problem_response(found, request)


def _with_names_of(request: Request, found: Problem) -> Problem:
    """Return *found* with the remedy naming what the path and the problem name: nobody has to look an id up again."""
    asked = {**request.path_params, "run_id": found.run_id or request.path_params.get("run_id")}
    return found.model_copy(update={"remedy": with_names(found.remedy, asked)})


async def on_invalid(request: Request, error: Exception) -> Response:
    """Answer a request that failed validation."""
    assert isinstance(error, RequestValidationError)
    taken = getattr(request.scope.get("route"), "body_field", None)
    kind = None if taken is None else taken.field_info.annotation
    model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    details = tuple(_with_choice_meant(one, request) for one in in_plain_words(details_of(error.errors(), model)))
    return problem_response(validation_problem(FaultList(details, len(details))), request)


def _with_choice_meant(fault: ProblemDetail, request: Request) -> ProblemDetail:
    """Return *fault* with the word that was meant, where a parameter of the query takes a few words and got another."""
    given = request.query_params.get(fault.pointer.removeprefix(_QUERY)) if fault.code == "literal_error" else None
    if given is None or not fault.pointer.startswith(_QUERY):
        return fault
    meant = suggest_name(given, re.findall(r"'([^']+)'", fault.detail))
    return fault.model_copy(update={"detail": f"{fault.detail}{meant}"})


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: unknown paths, wrong methods, unreadable bodies."""
    assert isinstance(error, HTTPException)
    if isinstance(error, HttpProblemError):
        return problem_response(error.problem, request)
    code = _CODES.get(HTTPStatus(error.status_code), "internal")
    remedy = {"remedy": _NO_PATH} if code == "not_found" else {}
    headers, detail = error.headers, f"{request.method} {request.url.path}: {error.detail}"
    is_for_mcp = code in _ELSEWHERE and request.scope["path"] != MCP_PATH and _speaks_mcp(request)
    if code == "not_found" and (near := _near_path(request)):
        detail = f"{request.method} {request.url.path}: did you mean {near}?"
    elif code == "not_found" and (meant := openai_path_meant(request.scope["path"])):
        detail = f"{request.method} {request.url.path}: did you mean {meant}?"
        remedy = {"remedy": "End the address that the client has in /v1: base_url=http://HOST:PORT/v1."}
    elif is_for_mcp:
        detail = f"{request.method} {request.url.path}: MCP is spoken at {MCP_PATH}"
        remedy = {"remedy": f"Give the client the address http://HOST:PORT{MCP_PATH}."}
    elif code == "not_found":
        detail = f"{request.method} {request.url.path}: the gateway has no such path"
    elif code == "method_not_allowed" and (allowed := _methods_at(request)):
        detail = f"{request.method} {request.url.path}: this path does not take {request.method}"
        remedy = {"remedy": f"Use one of the methods that this address takes: {allowed}."}
        headers = {**(headers or {}), "Allow": allowed}
    found = problem(code, detail, **remedy)
    return problem_response(found, request, headers, is_for_mcp=is_for_mcp)


def _speaks_mcp(request: Request) -> bool:
    """Return whether the request looks like a message of MCP: its clients have to take both forms of an answer."""
    taken = request.headers.get("accept", "")
    return request.method == "POST" and JSON in taken and "text/event-stream" in taken


def _near_path(request: Request) -> str:
    """Return the path of the API that was probably meant; empty where none is near.

    One part of it may have a slip; all others are equal, or stand for an id. So few paths are compared by letters.
    """
    path = request.url.path
    typed = path.split("/")
    found = {MCP_PATH: likeness(path[1:])(MCP_PATH[1:])} if len(path) <= _LONGEST_SLIP else {}
    for route in iter_route_contexts(request.app.routes):
        parts = (route.path or "").split("/")
        if not getattr(route.original_route, "include_in_schema", False) or len(parts) != len(typed):
            continue
        wrong = [pair for pair in zip(typed, parts, strict=True) if not pair[1].startswith("{") and pair[0] != pair[1]]
        if len(wrong) == 1 and len(wrong[0][0]) <= _LONGEST_SLIP:
            found["/".join(parts)] = likeness(wrong[0][0])(wrong[0][1])
    near = max(found, key=lambda path: found[path], default="")
    return near if found.get(near, 0.0) >= _SLIP else ""


def _methods_at(request: Request) -> str:
    """Return the methods of all routes of the path; the framework names those of the first one alone."""
    routes = iter_route_contexts(request.app.routes)
    found = (route.methods for route in routes if route.methods and route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted(set().union(*found)))


async def on_unexpected(request: Request, _error: Exception) -> Response:
    """Answer what nobody expected; the edge logs what it was and where it came from, which nobody else is told."""
    return unexpected_response(request)


def unexpected_response(request: Request) -> Response:
    """Return the answer to a request that failed for a fault of ours: a page where a browser asked for one."""
    found = problem("internal", f"{request.method} {request.url.path} failed")
    console = getattr(request.scope["app"].state, "console", None) if "app" in request.scope else None
    try:
        page = console.refusal(found, request) if console is not None else None
    except Exception:  # noqa: BLE001  # the page may have the very fault that is to be told
        page = None
    return page or problem_response(found, request)


def answer_with_problems(app: FastAPI) -> None:
    """Make *app* answer every refusal as a problem."""
    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_unexpected)
