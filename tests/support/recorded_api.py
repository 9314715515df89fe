"""The HTTP API as a page of the console sees it, with answers that a test wrote: it stands in for HTTP."""

from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from towpath_console.api import Api, ApiRefusalError

Answer = Mapping[str, Any] | ApiRefusalError | Callable[[Mapping[str, Any]], Mapping[str, Any]]


_NO_HTTP = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
"""Nothing is sent; one for all, since to make a client that could send costs some milliseconds."""


def refused(status: int, code: str = "forbidden") -> ApiRefusalError:
    return ApiRefusalError(status, {"code": code, "title": code, "detail": code})


class RecordedApi(Api):
    """Answers by path, and keeps what it was asked; an answer may depend on the parameters or the body."""

    def __init__(self, answers: Mapping[str, Answer], cookie: str = "") -> None:
        super().__init__(_NO_HTTP, {"cookie": cookie} if cookie else {})
        self.answers = dict(answers)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.sent: list[tuple[str, Mapping[str, Any] | None]] = []

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.asked.append((path, params))
        return self._answer(path, params)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.sent.append((path, body))
        return self._answer(path, body or {})

    def _answer(self, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
        found = self.answers.get(path, refused(404, "not_found"))
        if isinstance(found, ApiRefusalError):
            raise found
        return dict(found(given) if callable(found) else found)
