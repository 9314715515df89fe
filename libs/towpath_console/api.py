"""Asks the HTTP API in the same process, as whoever looks at a page.

Nothing is sent over a network, and nothing is allowed here: the API sees the credentials of the page's own request and
decides as for any other client.
"""

import re
from collections.abc import Mapping
from typing import Any

import httpx2
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp

_CREDENTIALS = ("authorization", "cookie", "host", "origin")
"""Headers by which the API knows who asks, and from where."""

NO_CONTENT = 204

_QUESTIONS = re.compile(
    r"/v1/(?:runs/bulk/select|policy/(?:check|diff|diff/permissions)|audit/export|networks/validate"
    r"|networks/(?!\.|[^?]*/\.)[a-zA-Z0-9_.:/-]+/prompt)"
)
"""What is asked by POST and changes nothing. Pages and files ask it too, which browsers get without an `Origin`."""

Params = Mapping[str, str | int | None]


class ApiRefusalError(Exception):
    """The API refused; `problem` is its answer (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{problem.get('code', status)}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem


class ApiCaller:
    """Makes requests of *app* in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://console")

    def on_behalf_of(self, request: Request) -> "Api":
        """Return the API as the sender of *request* has it."""
        headers = {name: value for name in _CREDENTIALS if (value := request.headers.get(name)) is not None}
        return Api(self._client, headers)


class Api:
    """The API for one caller; every method raises ApiRefusalError where it refuses."""

    def __init__(self, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> None:
        self._client = client
        self._headers = dict(headers)

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What tells this caller from others."""
        return tuple(sorted(self._headers.items()))

    def cookie(self, name: str) -> str:
        """Return what the browser keeps under *name*; empty where it keeps nothing."""
        return cookie_parser(self._headers.get("cookie", "")).get(name, "")

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Return what is at *path*; parameters that are None are left out."""
        sent = {name: value for name, value in params.items() if value is not None}
        return self._read(await self._client.get(path, params=sent, headers=self._headers))

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send *body* to *path* and return the answer."""
        sent = None if body is None else dict(body)
        return self._read(await self._client.post(path, headers=self._headers_of(path), json=sent))

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Put *body* at *path* and return the answer."""
        return self._read(await self._client.put(path, headers=self._headers, json=dict(body)))

    async def delete(self, path: str, **params: str | int | None) -> dict[str, Any]:
        """Take away what is at *path*; parameters that are None are left out."""
        sent = {name: value for name, value in params.items() if value is not None}
        return self._read(await self._client.delete(path, params=sent, headers=self._headers))

    def _headers_of(self, path: str) -> dict[str, str]:
        """Return the headers of a POST: a question of a page is the console's own, whoever opened the page.

        A session may change nothing without an `Origin`, and a browser that opens a page sends none.
        """
        host = self._headers.get("host")
        if "origin" in self._headers or not host or _QUESTIONS.fullmatch(path) is None:
            return self._headers
        return {**self._headers, "origin": f"http://{host}"}

    def _read(self, answer: httpx2.Response) -> dict[str, Any]:
        if answer.status_code == NO_CONTENT:
            return {}
        try:
            found = answer.json()
        except ValueError:
            found = {}
        if answer.is_error or not isinstance(found, dict):
            detail = {"code": "internal", "title": "The API gave no answer", "detail": f"status {answer.status_code}"}
            raise ApiRefusalError(answer.status_code, found if isinstance(found, dict) and found else detail)
        return found
