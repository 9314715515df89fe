"""Who is let in, before anything of a request but its head is read.

A request without a good key costs a look at its head, and is answered at once: what it says it will send is never
waited for. Such requests have a small share of the process, those for public pages another, and who signs in a third:
who holds all of one keeps nobody with a key from being looked up. Each key and each project has a share of the rest.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send

from towpath_console.sections import ASSETS
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_fabric.http.connections import vouch_for_connection
from towpath_gateway.app.dependencies import GatewayDependencies, authenticate
from towpath_gateway.app.errors import problem_response
from towpath_gateway.core.api_keys import Principal, bearer, split_key
from towpath_gateway.core.headers import SAFE_METHODS, without_escapes


class Admission:
    """An ASGI layer in front of the application, which asks again: its routes decide, this one spares it floods."""

    def __init__(self, app: FastAPI, dependencies: GatewayDependencies, public: re.Pattern[str]) -> None:
        """*public* matches the whole of a path that needs no key."""
        self._app = app
        self._dependencies = dependencies
        self._public = public
        self._strangers: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app  # what the application sets, too late for here
        scope["headers"] = without_escapes(scope["headers"])
        refused: Problem | None = None
        request = Request(scope)
        try:
            if self._is_public(request):
                with self._stranger("sign-in" if _signs_in(scope) else "page"):
                    await self._app(scope, receive, send)
                return
            principal = await self._principal(request)
            vouch_for_connection(scope)
            with self._dependencies.request_shares.held(principal):
                await self._app(scope, receive, send)
        except ProblemError as error:  # of this layer: the application answers its own
            refused = error.problem
        if refused is not None:
            page = self._app.state.console.refusal(refused, request)
            await (page or problem_response(refused, request))(scope, receive, send)

    def _is_public(self, request: Request) -> bool:
        """Return whether a request needs no key: the page to sign in at has a style, which others wait for too."""
        path = request.scope["path"]  # `request.url` holds what the Host says too
        if path.startswith(ASSETS):
            return not self._is_known(request)
        return self._public.fullmatch(path) is not None

    async def _principal(self, request: Request) -> Principal:
        if self._is_known(request):
            return await authenticate(request)
        with self._stranger("key"):
            return await authenticate(request)

    def _is_known(self, request: Request) -> bool:
        """Return whether what *request* shows was good once, or is this machine's own; looked at without a wait."""
        credential = bearer(request.headers.get("authorization"))
        local, sessions = self._dependencies.local_token, self._dependencies.sessions
        if sessions is not None and sessions.shown(request.headers) is not None:
            return True
        if local is not None and local.is_shown(credential, request.headers.get("cookie")):
            return True
        found = split_key(credential or "")
        return found is not None and self._dependencies.keys.has_seen(found[0])

    @contextmanager
    def _stranger(self, asks_for: str) -> Iterator[None]:
        limit = self._dependencies.settings.max_requests_without_key
        if self._strangers[asks_for] >= limit:
            detail = f"{limit} requests without a known key are under way here"
            raise ProblemError(problem("keyless_share_full", detail, retry_after_s=1))
        self._strangers[asks_for] += 1
        try:
            yield
        finally:
            self._strangers[asks_for] -= 1


def _signs_in(scope: Scope) -> bool:
    """Return whether a request needs no key but takes long: its body is waited for, or a provider is asked."""
    return scope["method"] not in SAFE_METHODS or scope["path"].startswith("/sign-in/")
