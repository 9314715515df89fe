"""Serves the console beside the API: loaded with the first page that somebody opens, since most gateways have none."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from towpath_console.sections import is_console
from towpath_contracts.problems.registry import Problem
from towpath_gateway.app.errors import problem_body

if TYPE_CHECKING:
    from towpath_console.site import Console


class ConsoleRoute(BaseRoute):
    """Takes what is a page of the console; everything else is the API's, also what is not found."""

    def __init__(self, app: FastAPI, stopping: asyncio.Event) -> None:
        self._app = app
        self._stopping = stopping
        self._console: Console | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether this is a page."""
        return (Match.FULL, {}) if scope["type"] == "http" and is_console(scope["path"]) else (Match.NONE, {})

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        """Raise: no page has a name."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one page."""
        await self._loaded().application(scope, receive, send)

    def refusal(self, found: Problem, request: Request) -> Response | None:
        """Return a page that says why somebody is not let in; None where no browser asks for a page."""
        if "text/html" not in request.headers.get("accept", "") or not is_page(request.url.path):
            return None
        return self._loaded().refused(found.status, problem_body(found, request.url.path), request.url.path)

    def explanation(self, found: Sequence[BaseModel], request: Request, code: str = "") -> Response | None:
        """Return the page about the problem *code*, or about all *found*; None where no browser asks for a page."""
        if "text/html" not in request.headers.get("accept", ""):
            return None
        kinds = [kind.model_dump(mode="json") for kind in found]
        return self._loaded().explained(kinds, code, request.url.path)

    def _loaded(self) -> "Console":
        if self._console is None:
            from towpath_console.site import Console  # noqa: PLC0415  # half a second for who opens no page

            self._console = Console(self._app, self._stopping)
        return self._console


def is_page(path: str) -> bool:
    """Return whether a person may have typed *path*, or have followed a link to it."""
    return is_console(path) or path == "/sign-in" or path.startswith("/problems/")
