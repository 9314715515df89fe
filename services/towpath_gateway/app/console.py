"""Serves the console beside the API: loaded with the first page that somebody opens, since most gateways have none."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from towpath_console.sections import is_console
from towpath_contracts.problems.registry import Problem
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.errors import problem_body
from towpath_gateway.core.headers import SAFE_METHODS, local_path

if TYPE_CHECKING:
    from towpath_console.site import Console


DRAWINGS, DRAWINGS_OF_PROJECT = 6, 3
"""Open pages that are drawn at the same time, and those of one project: its slow ones leave places to others."""

DRAWING_WAIT_S = 30.0
"""How long an open page waits until it is drawn; then whoever looks at it is told that it is not followed now."""

FORMS = 2
"""Large forms that are read at the same time, at most one of each sender."""

FORM_WAIT_S = 10.0
FORMS_WAITING = 8
"""Of one sender: each is a mebibyte."""


class ConsoleRoute(BaseRoute):
    """Takes what is a page of the console; everything else is the API's, also what is not found."""

    def __init__(self, app: FastAPI, dependencies: GatewayDependencies) -> None:
        self._app = app
        self._dependencies = dependencies
        self._console: Console | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether this is a page; who posts to the first one, which has no form, means the API elsewhere."""
        if scope["type"] != "http" or not is_console(scope["path"]):
            return Match.NONE, {}
        is_message = scope["path"] == "/" and scope["method"] == "POST"
        return (Match.NONE, {}) if is_message else (Match.FULL, {})

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        """Raise: no page has a name."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one page."""
        await self._loaded().application(scope, receive, send)

    def refusal(self, found: Problem, request: Request) -> Response | None:
        """Return a page that says why somebody is not let in; None where no browser asks for a page.

        Where keys are asked for it has the form to sign in with, and leads on to the page that was asked for.
        """
        if "text/html" not in request.headers.get("accept", "") or not is_page(request.url.path):
            return None
        if found.code == "unauthenticated" and self._dependencies.settings.asks_for_keys:
            query = request.scope["query_string"].decode("latin-1")
            asked = quote(request.scope["path"]) + (f"?{query}" if query else "")
            asked = asked if request.method in SAFE_METHODS else "/"
            return self.sign_in(request, local_path(asked), found)
        return self._loaded().refused(found.status, problem_body(found, request.url.path), request.url.path)

    def explanation(self, found: Sequence[BaseModel], request: Request, code: str = "") -> Response | None:
        """Return the page about the problem *code*, or about all *found*; None where no browser asks for a page."""
        if "text/html" not in request.headers.get("accept", ""):
            return None
        kinds = [kind.model_dump(mode="json") for kind in found]
        return self._loaded().explained(kinds, code, request.url.path)

    def sign_in(self, request: Request, page: str, found: Problem | None = None) -> Response:
        """Return the page with the form for a key, which leads on to *page*; *found* is why somebody is not let in."""
        return self._loaded().sign_in(
            200 if found is None else found.status,
            page=page,
            problem=None if found is None else problem_body(found, request.url.path),
            has_session=bool(self._dependencies.sessions and self._dependencies.sessions.has_name_in(request.headers)),
            can_begin=self._dependencies.sessions is not None,
            elsewhere=self._dependencies.oidc is not None,
            signed_out=request.query_params.get("said") == "out",
            from_other_site=request.headers.get("sec-fetch-site") in {"cross-site", "same-site"},
        )

    def signed_in(self, page: str) -> Response:
        """Return the page that leads on to *page* after a sign-in at a provider."""
        return self._loaded().signed_in(page)

    def _loaded(self) -> "Console":
        if self._console is None:
            from towpath_console.site import Console  # noqa: PLC0415  # half a second for who opens no page

            known = self._dependencies
            self._console = Console(
                self._app, known.stopping, known.own_origin, drawings=drawing_turns(), large_forms=form_turns()
            )
        return self._console


def drawing_turns() -> WorkTurns:
    """Return the places for drawing open pages, shared by projects."""
    return WorkTurns(DRAWINGS, lambda _: DRAWINGS_OF_PROJECT, DRAWING_WAIT_S)


def form_turns() -> WorkTurns:
    """Return the places for reading large forms, shared by their senders."""
    return WorkTurns(FORMS, lambda _: 1, FORM_WAIT_S, max_waiting=FORMS_WAITING)


SIGN_IN_PAGES = frozenset({"/sign-in", "/sign-in/oidc", "/sign-in/oidc/done", "/sign-out"})


def is_page(path: str) -> bool:
    """Return whether a person may have typed *path*, or have followed a link to it."""
    return is_console(path) or path in SIGN_IN_PAGES or path.startswith("/problems/")
