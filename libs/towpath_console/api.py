"""Asks the HTTP API in the same process, as whoever looks at a page.

Nothing is sent over a network, and nothing is allowed here: the API sees the credentials of the page's own request and
decides as for any other client.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp

from towpath_console.kept_answers import KeptAnswers
from towpath_contracts.problems.registry import problem

_CREDENTIALS = ("authorization", "cookie", "host", "origin")
"""Headers by which the API knows who asks, and from where."""

VIEWS_COOKIE, VERIFIED_COOKIE = "towpath_views", "towpath_audit_verified"
"""What browsers keep for pages: each is sent to some paths alone, and nothing is decided by them."""

NO_CONTENT = 204

_QUESTIONS = re.compile(
    r"/v1/(?:runs/bulk/select|policy/(?:check|diff|diff/permissions)|audit/export|networks/validate"
    r"|networks/(?!\.|[^?]*/\.)[a-zA-Z0-9_.:/-]+/prompt)"
)
"""What is asked by POST and changes nothing. Pages and files ask it too, which browsers get without an `Origin`."""

_BASE_URL = "http://console"

Params = Mapping[str, str | int | None]

OwnOrigin = Callable[[Headers], str]
"""Gives the Origin of the console's pages for the browser that sent these headers."""

_PATH = re.compile(r"(/[A-Za-z0-9_.~%:@!$&'()*+,;=-]+)+/?")
"""Paths of the API: what else stands in one came from an address or from data, and can't name anything."""

_HALVES = (b"\\ud", b"\\uD")
"""What begins an escaped half of a pair, which may stand alone; JSON writes whole pairs so, too."""


class ApiRefusalError(Exception):
    """The API refused; `problem` is its answer (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{problem.get('code', status)}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem

    @classmethod
    def of(cls, code: str, detail: str, **more: Any) -> "ApiRefusalError":
        """Return the refusal *code* as the API words it, with *more* of `problem`."""
        found = problem(code, detail, **more)
        return cls(found.status, found.model_dump(mode="json", exclude_defaults=True))


class ApiCaller:
    """Makes requests of *app* in this process."""

    def __init__(self, app: ASGIApp, own_origin: OwnOrigin) -> None:
        # No client around it: that takes as long again, for redirects and cookies that nobody sends here.
        self._transport = httpx2.ASGITransport(app=app)
        self._own_origin = own_origin
        self._kept = KeptAnswers()

    def on_behalf_of(self, request: Request) -> "Api":
        """Return the API as the sender of *request* has it."""
        headers = {name: value for name in _CREDENTIALS if (value := request.headers.get(name)) is not None}
        return Api(self._transport, headers, self._kept, self._own_origin(request.headers))


class Api:
    """The API for one caller; every method raises ApiRefusalError where it refuses."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport,
        headers: Mapping[str, str],
        kept: KeptAnswers | None = None,
        own_origin: str = "",
    ) -> None:
        self._transport = transport
        self._headers = dict(headers)
        self._kept = kept
        self._own_origin = own_origin

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What tells this caller from others: all that the API may look at.

        Not what a browser keeps for some pages, which it sends there and not where these are followed.
        """
        pairs = (pair.strip() for pair in self._headers.get("cookie", "").split(";"))
        sent = ";".join(pair for pair in pairs if pair.partition("=")[0] not in {"", VIEWS_COOKIE, VERIFIED_COOKIE})
        return tuple(sorted((self._headers | {"cookie": sent}).items()))

    def cookie(self, name: str) -> str:
        """Return what the browser keeps under *name*; empty where it keeps nothing."""
        return cookie_parser(self._headers.get("cookie", "")).get(name, "")

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Return what is at *path*; parameters that are None are left out."""
        return await self._asked("GET", path, params)

    async def get_kept(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Return what is at *path*, as this caller was told a moment ago: for figures beside other things."""
        if self._kept is None:
            return await self.get(path, **params)
        key = (self.identity, path, tuple(sorted(params.items())))
        return await self._kept.get(key, lambda: self.get(path, **params))

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send *body* to *path* and return the answer."""
        return await self._asked("POST", path, {}, body)

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Put *body* at *path* and return the answer."""
        return await self._asked("PUT", path, {}, body)

    async def delete(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Take away what is at *path*; parameters that are None are left out."""
        return await self._asked("DELETE", path, params)

    async def _asked(
        self, method: str, path: str, params: Params, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        if _PATH.fullmatch(path) is None or {".", ".."} & set(path.split("/")):
            problem = {"code": "not_found", "title": "There is no such thing", "detail": "nothing can have this name"}
            raise ApiRefusalError(404, problem)
        query = {name: value for name, value in params.items() if value is not None}
        sent = None if body is None else dict(body)
        headers = self._headers_of(path) if method == "POST" else self._headers
        try:
            request = httpx2.Request(method, f"{_BASE_URL}{path}", params=query, json=sent, headers=headers)
        except httpx2.InvalidURL:
            problem = {"code": "request_invalid", "title": "That is too long to ask for", "detail": path[:200]}
            raise ApiRefusalError(414, problem) from None
        answer = await self._transport.handle_async_request(request)
        await answer.aread()
        return self._read(answer)

    def _headers_of(self, path: str) -> dict[str, str]:
        """Return the headers of a POST: a question of a page is the console's own, whoever opened the page.

        A session may change nothing without an `Origin`, and a browser that opens a page sends none.
        """
        if "origin" in self._headers or not self._own_origin or _QUESTIONS.fullmatch(path) is None:
            return self._headers
        return {**self._headers, "origin": self._own_origin}

    def _read(self, answer: httpx2.Response) -> dict[str, Any]:
        if answer.status_code == NO_CONTENT:
            return {}
        try:
            found = read_json(answer.content)
        except (ValueError, RecursionError):
            found = None
        if answer.is_error or not isinstance(found, dict):
            detail = {"code": "internal", "title": "The API gave no answer", "detail": f"status {answer.status_code}"}
            status = answer.status_code if answer.is_error else 502
            raise ApiRefusalError(status, found if isinstance(found, dict) and found else detail)
        return found


def read_json(content: bytes) -> Any:
    """Read JSON so that it can be written as JSON again: numbers too large for that are texts, no pair is half."""
    found = json.loads(content, parse_constant=str, parse_float=_number, parse_int=_number)
    return _writable(found) if any(half in content for half in _HALVES) else found


def _number(digits: str) -> int | float | str:
    """Return the number that *digits* are; the digits where it has no end, or more of them than anybody reads."""
    if len(digits) > _MOST_DIGITS:
        return digits
    found = int(digits) if digits.lstrip("-").isdecimal() else float(digits)
    return found if isinstance(found, int) or math.isfinite(found) else digits


_MOST_DIGITS = 4_000
"""Python refuses to write integers of 4,300 digits."""


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_writable(one) for one in value]
    if isinstance(value, dict):
        return {_writable(name): _writable(one) for name, one in value.items()}
    return value
