"""The HTTP API as a page of the console sees it, with answers that a test wrote: it stands in for HTTP."""

from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.renderer import Renderer

Answer = Mapping[str, Any] | ApiRefusalError | Callable[[Mapping[str, Any]], Mapping[str, Any]]
AROUND = {"section": "/", "url": "/", "query": {}, "live": "/console/live?page=%2F", "message": ""}


def refused(status: int, code: str = "forbidden") -> ApiRefusalError:
    return ApiRefusalError(status, {"code": code, "title": code, "detail": code})


_NO_HTTP = httpx2.MockTransport(lambda _: httpx2.Response(500))
"""Nothing is sent."""

FORBIDDEN = ApiRefusalError(403, {"code": "forbidden", "title": "The credential lacks the scope"})


class RecordedApi(Api):
    """Answers by path, and keeps what it was asked (`asked`) and told to change (`sent`: method, path, body).

    An answer may depend on the parameters or the body; a refusal among them is raised. What has no answer is not
    found where it is read, and done where it is changed.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None, cookie: str = "", **others: Answer) -> None:
        super().__init__(_NO_HTTP, {"cookie": cookie} if cookie else {})
        self.answers: dict[str, Answer] = {**(answers or {}), **others}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[tuple[str, str, dict[str, Any]]] = []

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.asked.append((path, {name: value for name, value in params.items() if value is not None}))
        return self._answer(path, params, refused(404, "not_found"))

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.sent.append(("POST", path, dict(body or {})))
        return self._answer(path, body or {}, {})

    async def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.sent.append(("PUT", path, dict(body)))
        return self._answer(path, body, {})

    async def delete(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.sent.append(("DELETE", path, dict(params)))
        return self._answer(path, params, {})

    def _answer(self, path: str, given: Mapping[str, Any], otherwise: Answer) -> dict[str, Any]:
        found = self.answers.get(path, otherwise)
        if isinstance(found, ApiRefusalError):
            raise found
        return dict(found(given) if callable(found) else found)


def asked_of(api: Api, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    """Return what a page is made for."""
    return Asked(api, path, query or {}, "/")


def drawn(page: Page, query: Mapping[str, str] | None = None) -> str:
    """Return the document of *page*."""
    return Renderer().whole(page, **{**AROUND, "query": dict(query or {})})
