"""How a browser gets in and out, and who is let in by what a request shows.

On an embedded platform a link lets the person in who started it. Elsewhere somebody shows an API key once, and has a
session from then on. Who may sign in is decided as for any other request with that key.
"""

import asyncio
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Query, Request, Response

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_gateway.app.dependencies import Anybody, Dependencies, GatewayDependencies, documented, json_answer
from towpath_gateway.app.errors import problem_response
from towpath_gateway.app.oidc_sign_in import OidcSignIn
from towpath_gateway.app.session_cookies import SAME_SITE_REMEDY
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import non_approval_roles
from towpath_gateway.core.headers import MAX_PATH_CHARS, local_path

router = APIRouter()

FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 8 * 1024
"""A key, and the path of a page, of which a form may write each character as three."""

OIDC_DONE = "/sign-in/oidc/done"
"""Where a provider sends browsers back to."""

NO_LINK = "this link was used, or is of an earlier start: towpath up prints a new one at each start"
NO_LINK_REMEDY = (
    "Stop towpath up and start it again, and open the link Console that it prints; nothing is lost by that."
)
NO_SESSIONS = "this gateway has no TOWPATH_SESSION_SECRET, so that it can begin no session"
NO_SESSIONS_REMEDY = "Set it, the same for all replicas (docs/console.md), or send a key: Authorization: Bearer KEY."

NextPage = Annotated[str, Query(alias="next", max_length=MAX_PATH_CHARS)]


class CallerView(Message):
    """Who a request is let in as. `gate_roles` are the roles in which the caller speaks at gates that are no approvals.

    `key` is the prefix of the key, which stands for it in records; an embedded platform asks its own person for none.
    """

    caller: str
    project: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    gate_roles: tuple[str, ...]
    key: str | None = None
    signed_in_by: Literal["key", "session", "machine"] = "key"
    session_expires_at: datetime | None = None


async def me(request: Request, dependencies: Dependencies, principal: Anybody) -> Response:
    """Return the caller, its project, and what it may do."""
    shown = dependencies.sessions.shown(request.headers) if dependencies.sessions is not None else None
    view = CallerView(
        caller=principal.caller,
        project=principal.project,
        scopes=tuple(sorted(principal.scopes)),
        roles=tuple(sorted(principal.roles)),
        gate_roles=tuple(sorted(non_approval_roles(principal))),
        key=principal.key_prefix,
        signed_in_by="session" if shown is not None else "machine" if principal.key_prefix is None else "key",
        session_expires_at=None if shown is None else shown.session.expires_at,
    )
    return json_answer(view)


router.add_api_route(
    "/v1/me",
    me,
    response_model=CallerView,
    responses=documented(),
    summary="Say who asks",
    tags=["keys"],
    route_class_override=BoundedJsonRoute,
)


@router.get("/sign-in", include_in_schema=False)
async def sign_in(
    request: Request,
    dependencies: Dependencies,
    token: Annotated[str, Query(max_length=128)] = "",
    page: NextPage = "/",
) -> Response:
    """Exchange the code of a link for a cookie, once; or show the form for a key."""
    local = dependencies.local_token
    if dependencies.settings.asks_for_keys:
        return request.app.state.console.sign_in(request, local_path(page))  # type: ignore[no-any-return]
    cookie = local.sign_in(token) if local is not None and token else None
    if cookie is None:
        raise ProblemError(problem("unauthenticated", NO_LINK, remedy=NO_LINK_REMEDY))
    headers = {"Set-Cookie": cookie, "Referrer-Policy": "no-referrer"}
    if request.headers.get("sec-fetch-site") == "cross-site":  # a file led here: a redirect would lose the cookie
        answer: Response = request.app.state.console.signed_in("/")
        answer.headers.update(headers)
        return answer
    return Response(status_code=303, headers={"Location": "/", **headers})


@router.post("/sign-in", include_in_schema=False)
async def sign_in_with_key(request: Request, dependencies: Dependencies) -> Response:
    """Exchange a key for the cookie of a new session, and go to the page that was asked for."""
    if not dependencies.settings.asks_for_keys:
        raise ProblemError(problem("unauthenticated", NO_LINK, remedy=NO_LINK_REMEDY))
    _refuse_other_site(dependencies, request)
    form = await _form(request, dependencies.settings.http_body_s)
    page = local_path(form.get("next", "/"))
    if dependencies.sessions is None:
        return _refused(request, problem("unavailable", NO_SESSIONS, remedy=NO_SESSIONS_REMEDY), page)
    try:
        cookie = await dependencies.sessions.begin(form.get("key", ""), secure=_has_tls(request))
    except ProblemError as error:
        dependencies.metrics.refused.labels(error.problem.code).inc()
        return _refused(request, error.problem, page)
    return Response(status_code=303, headers={"Location": page, "Set-Cookie": cookie})


@router.get("/sign-in/oidc", include_in_schema=False)
async def sign_in_elsewhere(dependencies: Dependencies, page: NextPage = "/") -> Response:
    """Send a browser to the provider that is set."""
    oidc = _oidc_of(dependencies)
    address, cookie = await oidc.begin(local_path(page))
    return Response(status_code=303, headers={"Location": address, "Set-Cookie": cookie})


@router.get(OIDC_DONE, include_in_schema=False)
async def signed_in_elsewhere(request: Request, dependencies: Dependencies) -> Response:
    """Take a browser back from the provider, and lead on by a page of our own.

    The cookie of a session comes along from pages of this site alone, so a redirect would arrive without it.
    """
    oidc = _oidc_of(dependencies)
    try:
        page, cookies = await oidc.end(request.headers, request.query_params)
    except ProblemError as error:
        dependencies.metrics.refused.labels(error.problem.code).inc()
        return _refused(request, error.problem, "/")
    answer: Response = request.app.state.console.signed_in(page)
    for cookie in cookies:
        answer.headers.append("Set-Cookie", cookie)
    return answer


def _oidc_of(dependencies: GatewayDependencies) -> OidcSignIn:
    if dependencies.oidc is None:
        raise ProblemError(problem("not_found", "nobody signs in elsewhere for this gateway"))
    return dependencies.oidc


@router.post("/sign-out", include_in_schema=False)
async def sign_out(request: Request, dependencies: Dependencies) -> Response:
    """End the session, and no other of its key; the cookie goes whatever it was worth."""
    _refuse_other_site(dependencies, request)
    if dependencies.sessions is None:
        raise ProblemError(problem("unauthenticated", "nobody is signed in here"))
    cookies = await dependencies.sessions.end(dependencies.sessions.shown(request.headers))
    gone = Response(status_code=303, headers={"Location": f"/sign-in?{urlencode({'said': 'out'})}"})
    for cookie in cookies:
        gone.headers.append("Set-Cookie", cookie)
    return gone


def _refuse_other_site(dependencies: GatewayDependencies, request: Request) -> None:
    why = dependencies.site.refused_session(request.method, request.headers, has_tls=None)
    if why is not None:
        dependencies.metrics.refused.labels("origin_refused").inc()
        raise ProblemError(problem("origin_refused", why, remedy=SAME_SITE_REMEDY))


def _has_tls(request: Request) -> bool:
    """Return whether the browser speaks TLS, to a proxy in front of us: its own Origin says so."""
    return urlsplit(request.headers.get("origin", "")).scheme == "https"


def _refused(request: Request, found: Problem, page: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return request.app.state.console.sign_in(request, page, found)  # type: ignore[no-any-return]
    return problem_response(found, request)


async def _form(request: Request, most_s: float) -> dict[str, str]:
    """Return the fields of a small form; raises ProblemError for what is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise ProblemError(problem("media_type_unsupported", "this is no form", remedy=f"Send Content-Type: {FORM}."))
    body = b""
    try:
        async with asyncio.timeout(most_s):
            async for part in request.stream():
                body += part
                if len(body) > MAX_FORM_BYTES:
                    raise ProblemError(problem("request_too_large", f"the form may have {MAX_FORM_BYTES} bytes"))
    except TimeoutError as error:
        raise ProblemError(problem("request_malformed", f"no whole form within {most_s:g} s")) from error
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
