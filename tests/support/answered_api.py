"""An API that answers what a test recorded, in place of HTTP, and keeps what it was asked."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2

from towpath_console.api import Api
from towpath_console.page import Asked


class AnsweredApi(Api):
    """Answers each path with its recorded answer; a status other than 200 makes it a refusal."""

    def __init__(self, answers: Mapping[str, Any], statuses: Mapping[str, int] | None = None) -> None:
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        self._answers = answers
        self._statuses = statuses or {}
        super().__init__(httpx2.MockTransport(self._answer), {})

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        sent = _json(request) | dict(request.url.params)
        self.seen.append((request.method, path, sent))
        found = self._answers.get(path, self._answers.get(f"{request.method} {path}"))
        if found is None:
            return httpx2.Response(404, json={"code": "not_found", "title": "not recorded", "detail": path})
        found = found(sent) if callable(found) else found
        return httpx2.Response(self._statuses.get(path, 200), json=found)


def _json(request: httpx2.Request) -> dict[str, Any]:
    return dict(json.loads(request.content)) if request.content else {}


def asked_of(api: Api, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    """Return what a page is made for."""
    return Asked(api, path, query or {}, "/")
