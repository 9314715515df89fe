"""The console as one ASGI application: every page, its JSON twin, its actions and what changes on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp

from towpath_console.api import Api, ApiCaller, ApiRefusalError, OwnOrigin
from towpath_console.assets_folder import serve
from towpath_console.caller import ANYBODY, NOBODY, Caller, caller_of
from towpath_console.live import Drawn, LiveViews
from towpath_console.page import ActionRoute, Asked, DownloadRoute, Page, PageRoute
from towpath_console.pages import ACTIONS, DOWNLOADS, PAGES
from towpath_console.pages.problems import problem_page
from towpath_console.renderer import Renderer, live_address
from towpath_console.sections import ASSETS, LIVE
from towpath_console.turns import Turns
from towpath_contracts.problems.registry import ProblemError

MAX_FORM_BYTES = 1024 * 1024
"""The largest form: as much as the API takes."""

MAX_FIELDS = 2_000
"""Of one form: half a million empty ones are half a second's work."""

LARGE_FORM_BYTES = 64 * 1024
"""Larger forms are read beside the loop, a few at a time: what is written as `%41` takes long."""

CALLER_KNOWN_S = 30.0
"""How long an open page takes its viewer to have the scopes and roles they had: the API alone decides what they may."""

KEPT_S = 365 * 86_400
"""For how long browsers keep somebody's choices."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every page: nothing runs but the console's own files, and nothing is loaded from anywhere else."""


UNAUTHENTICATED = 401
"""Who is not let in sees no menu: nothing that it leads to would open."""


class Console:
    """The pages of the API *app*; streams end once *stopping* is set. Forms come from pages at *own_origin* alone.

    Open pages are drawn in turns of their projects, and large forms are read in turns of their senders.
    """

    def __init__(
        self, app: ASGIApp, stopping: asyncio.Event, own_origin: OwnOrigin, *, drawings: Turns, large_forms: Turns
    ) -> None:
        self._api = ApiCaller(app, own_origin)
        self._own_origin = own_origin
        self._renderer = Renderer()
        self._live = LiveViews(stopping, drawings)
        self._large_forms = large_forms
        self._pages = [(compile_path(route.path)[0], route) for route in PAGES]
        routes = [
            Route(f"{ASSETS}{{file:path}}", serve),
            Route(LIVE, self._changes),
            *(Route(route.path, self._acting(route), methods=["POST"]) for route in ACTIONS),
            *(Route(route.path, self._file(route), methods=["GET"]) for route in DOWNLOADS),
            Route("/{path:path}", self._page, methods=["GET"]),
        ]
        self.application = Starlette(routes=routes, exception_handlers={Exception: self._failed})

    async def _page(self, request: Request) -> Response:
        path = request.url.path
        plain = path.rstrip("/")
        if plain != path and any(pattern.fullmatch(plain) for pattern, _ in self._pages):
            asked = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{quote(plain)}{asked}", status_code=307, headers=HEADERS)
        twin = path.endswith(".json") or "application/json" in request.headers.get("accept", "").partition(",")[0]
        path = path.removesuffix(".json") or "/"
        query = {name: value for name, value in request.query_params.items() if name != "message"}
        api = self._api.on_behalf_of(request)
        try:
            page, route = await self._made(api, path, query)
        except ApiRefusalError as error:
            return await self._refused(api, error, path, twin=twin)
        if twin:
            return JSONResponse(dict(page.data), headers=HEADERS)
        url = _url(path, query)
        around = await self._around(api, route.section, url, query)
        part = self._renderer.live_part(page, **around)
        if page.refresh_s is not None:
            drawn, project = Drawn(part, page.refresh_s), around["caller"].project
            self._live.keep((api.identity, url), self._drawer(api, path, query), drawn, project)
        whole = self._renderer.whole(page, part, **around, message=_notice(request))
        return Response(whole, media_type="text/html", headers=HEADERS)

    async def _made(self, api: Api, path: str, query: Mapping[str, str]) -> tuple[Page, PageRoute]:
        for pattern, route in self._pages:
            found = pattern.fullmatch(path)
            if found is not None:
                asked = Asked(api, found.groupdict(), query, _url(path, query))
                return await route.build(asked), route
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such page", "detail": path})

    async def _around(self, api: Api, section: str, url: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what the frame of a page shows."""
        shown = {"section": section, "url": url, "query": dict(query), "live": live_address(url)}
        return shown | {"caller": caller_of(await api.get("/v1/me"))}

    async def _failed(self, request: Request, _error: Exception) -> Response:
        """Answer what nobody expected of a page; whoever serves the console logs it, and nobody else is told of it."""
        path = request.url.path
        problem = {
            "code": "internal",
            "title": "Something failed that should not",
            "detail": f"{request.method} {path} failed",
            "remedy": "Try again. Where it stays so, tell whoever runs the platform: its log has what it was.",
        }
        if path.endswith(".json") or "text/html" not in request.headers.get("accept", ""):
            body = {"status": 500, "instance": path, **problem}
            return JSONResponse(body, 500, HEADERS, media_type="application/problem+json")
        return self.refused(500, problem, path)

    def refused(
        self, status: int, problem: Mapping[str, Any], path: str, caller: Caller = ANYBODY, back: str = ""
    ) -> Response:
        """Return the page that says why something was refused, with the way to the page *back* of a form."""
        page = Page(str(problem.get("title") or "Refused"), "refused.html", {"problem": dict(problem), "back": back})
        return self._alone(page, status, path, NOBODY if status == UNAUTHENTICATED else caller)

    def sign_in(self, status: int, *, page: str, problem: Mapping[str, Any] | None, **known: bool) -> Response:
        """Return the page with the form to sign in with, which leads on to *page*; *problem* is why one is not let in.

        Nothing went wrong where somebody has only just come: `has_session` is not *known* of them, nor was a key sent.
        """
        sent = problem is not None and str(problem.get("instance", "")).startswith("/sign-in")
        was_tried = sent or known["has_session"]
        why = str(problem.get("detail", "")) if problem is not None and was_tried else ""
        return self._alone(Page("Sign in", "sign_in.html", {"page": page, "why": why, **known}), status, page, NOBODY)

    def signed_in(self, page: str) -> Response:
        """Return the page that leads on to *page*, as a page of this site does: at once, or by its link."""
        answer = self._alone(Page("Signed in", "signed_in.html", {"page": page}), 200, page, NOBODY)
        answer.headers["Refresh"] = f"0; url={page}"
        return answer

    def _alone(self, page: Page, status: int, path: str, caller: Caller) -> Response:
        body = self._renderer.whole(page, **_around(path, caller))
        return Response(body, status_code=status, media_type="text/html", headers=HEADERS)

    def explained(self, kinds: Sequence[Mapping[str, Any]], code: str, path: str) -> Response:
        """Return the page about the problem *code*, or the list of all *kinds*: for anybody, at a path of the API."""
        page = problem_page(kinds, code)
        body = self._renderer.whole(page, **_around(path, ANYBODY, section="/docs"))
        return Response(body, media_type="text/html", headers={**HEADERS, "Vary": "Accept"})

    async def _refused(self, api: Api, error: ApiRefusalError, path: str, *, twin: bool, back: str = "") -> Response:
        if twin:
            return JSONResponse(dict(error.problem), status_code=error.status, headers=HEADERS)
        try:
            caller = caller_of(await api.get("/v1/me"))
        except ApiRefusalError:
            caller = ANYBODY
        return self.refused(error.status, error.problem, path, caller, back)

    def _came_from(self, request: Request) -> str:
        """Return the page of this console with the form that was sent; none where it is not said, or not a page."""
        said = urlsplit(request.headers.get("referer", ""))
        is_page = any(pattern.fullmatch(said.path) for pattern, _ in self._pages)
        if said.netloc.lower() != request.headers.get("host", "").lower() or not is_page:
            return ""
        return _url(said.path, {name: value for name, value in parse_qsl(said.query) if name != "message"})

    def _acting(self, route: ActionRoute) -> Any:
        async def act(request: Request) -> Response:
            api = self._api.on_behalf_of(request)
            own = self._own_origin(request.headers)
            refused = _cross_site(request, own)
            if refused is not None:
                return await self._refused(api, refused, request.url.path, twin=False)
            sent = b""
            async for part in request.stream():
                sent += part
                if len(sent) > MAX_FORM_BYTES:
                    problem = {
                        "code": "request_too_large",
                        "title": "The form is too large",
                        "detail": request.url.path,
                    }
                    return await self._refused(api, ApiRefusalError(413, problem), request.url.path, twin=False)
            try:
                caller = await _entitled(api, route.scope)
                asked = Asked(api, request.path_params, {}, request.url.path, caller)
                done = await route.act(asked, await self._form(api, sent))
            except ApiRefusalError as error:
                return await self._refused(api, error, request.url.path, twin=False, back=self._came_from(request))
            if isinstance(done, Page):
                around = await self._around(asked.api, route.section, request.url.path, {}) | {"message": ""}
                body = self._renderer.whole(done, **around)
                return Response(body, status_code=done.status, media_type="text/html", headers=HEADERS)
            # Browsers read another host in what begins so.
            location = "/" if done.location.startswith(("//", "/\\")) else done.location
            mark = "&" if "?" in location else "?"
            said = f"{mark}message={quote(done.message)}" if done.message else ""
            answer = RedirectResponse(location + said, status_code=303, headers=HEADERS)
            for name, value in done.cookies.items():
                secure = own.startswith("https:")
                answer.set_cookie(
                    name, value, KEPT_S, path=done.kept_path, secure=secure, httponly=True, samesite="lax"
                )
            return answer

        return act

    async def _form(self, api: Api, sent: bytes) -> dict[str, str]:
        if len(sent) <= LARGE_FORM_BYTES:
            return _fields(sent)
        sender = caller_of(await api.get("/v1/me"))  # whoever is not let in is refused before anything is read
        try:
            async with self._large_forms.held(f"{sender.project}/{sender.name}"):
                return await asyncio.to_thread(_fields, sent)
        except ProblemError as error:
            raise ApiRefusalError(error.problem.status, error.problem.model_dump(mode="json")) from error

    def _file(self, route: DownloadRoute) -> Any:
        async def send(request: Request) -> Response:
            api = self._api.on_behalf_of(request)
            try:
                file = await route.make(Asked(api, request.path_params, dict(request.query_params), request.url.path))
            except ApiRefusalError as error:
                twin = "text/html" not in request.headers.get("accept", "")
                return await self._refused(api, error, request.url.path, twin=twin)
            named = {"Content-Disposition": f'attachment; filename="{file.name}"'}
            return StreamingResponse(file.parts, media_type=file.kind, headers=HEADERS | named)

        return send

    async def _changes(self, request: Request) -> Response:
        """Stream what changes on the page that the query names."""
        asked = urlsplit(request.query_params.get("page", "/"))
        path, query = asked.path or "/", dict(parse_qsl(asked.query))
        api = self._api.on_behalf_of(request)

        key, draw = (api.identity, _url(path, query)), self._drawer(api, path, query)
        project = await self._project_of(api)
        try:
            await self._live.begin(key, draw, project)  # a refusal is told before the stream begins
        except ApiRefusalError as error:
            return JSONResponse(dict(error.problem), status_code=error.status, headers=HEADERS)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen")
        stream = self._live.watch(key, draw, seen, project)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    async def _project_of(self, api: Api) -> str:
        """Return in whose turns an open page is drawn; those of nobody in particular while that can't be said."""
        try:
            return caller_of(await api.get_kept("/v1/me")).project
        except ApiRefusalError:
            return ""

    def _drawer(self, api: Api, path: str, query: Mapping[str, str]) -> Callable[[], Awaitable[Drawn]]:
        """Return what draws the part of a page that changes; who looks on is asked anew now and then."""
        known: dict[str, Any] = {}
        asked_at = 0.0

        async def draw() -> Drawn:
            nonlocal known, asked_at
            page, route = await self._made(api, path, query)
            if not known or monotonic() - asked_at > CALLER_KNOWN_S:
                known, asked_at = await self._around(api, route.section, _url(path, query), query), monotonic()
            return Drawn(self._renderer.live_part(page, **known), page.refresh_s)

        return draw


async def _entitled(api: Api, scope: str) -> Caller:
    """Return the caller of an action that needs *scope*; raises ApiRefusalError where they lack it."""
    if not scope:
        return ANYBODY
    caller = caller_of(await api.get("/v1/me"))
    if not caller.may(scope):
        raise ApiRefusalError.of("forbidden", f"this needs the scope {scope}")
    return caller


def _fields(sent: bytes) -> dict[str, str]:
    """Return the fields of a form; raises ApiRefusalError where they are too many."""
    try:
        return dict(parse_qsl(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        detail = f"a form may have {MAX_FIELDS:,} fields"
        raise ApiRefusalError(
            413, {"code": "request_too_large", "title": "The form is too large", "detail": detail}
        ) from error


def _around(path: str, caller: Caller, section: str = "") -> dict[str, Any]:
    """Return what the frame of a page that stands alone shows: no stream, no message."""
    return {"section": section, "url": path, "query": {}, "live": "", "message": "", "caller": caller}


def _url(path: str, query: Mapping[str, str]) -> str:
    sent = "&".join(f"{quote(name)}={quote(value)}" for name, value in sorted(query.items()) if value)
    return f"{path}?{sent}" if sent else path


def _notice(request: Request) -> str:
    """Return what an action has to say; nothing where a link elsewhere led here, which could make it say anything."""
    is_own = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return request.query_params.get("message", "") if is_own else ""


def _cross_site(request: Request, own: str) -> ApiRefusalError | None:
    """Return why a form is refused that did not come from a page of this console, which is at *own*."""
    if own and request.headers.get("origin", "").lower() == own:
        return None
    detail = "the form was not sent by a page of this console"
    return ApiRefusalError(403, {"code": "origin_refused", "title": "Another site sent this", "detail": detail})
