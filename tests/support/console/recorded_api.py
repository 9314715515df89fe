"""An API that answers what was recorded, in place of HTTP, and notes what it was asked to change."""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.renderer import Renderer

FORBIDDEN = ApiRefusalError(403, {"code": "forbidden", "title": "The credential lacks the scope"})
AROUND = {"section": "/", "url": "/", "query": {}, "live": "/console/live?page=%2F", "message": ""}


class RecordedApi(Api):
    """Answers *answers* by path; an ApiRefusalError among them is raised."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[tuple[str, str, dict[str, Any]]] = []

    def _answer(self, path: str) -> dict[str, Any]:
        found = self._answers[path]
        if isinstance(found, ApiRefusalError):
            raise found
        return dict(found)

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.asked.append((path, {name: value for name, value in params.items() if value is not None}))
        return self._answer(path)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.sent.append(("POST", path, dict(body or {})))
        return self._answer(path) if path in self._answers else {}

    async def delete(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.sent.append(("DELETE", path, dict(params)))
        return {}


def asked_of(api: Api, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    """Return what a page is made for."""
    return Asked(api, path, query or {}, "/")


def drawn(page: Page, query: Mapping[str, str] | None = None) -> str:
    """Return the document of *page*."""
    return Renderer().whole(page, **{**AROUND, "query": dict(query or {})})
