"""What a handler depends on: the gateway's objects, the authenticated caller, and helpers for answers."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import BaseModel
from starlette.datastructures import Headers

from towpath_contracts.problems.registry import REGISTRY, Problem, ProblemError, problem
from towpath_contracts.runs.trace_context import HEADER, RemoteSpan, parse_traceparent
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.adapters.key_store import KeyStore
from towpath_gateway.adapters.local_token import LocalToken
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.log_readings import LogReadings, json_parts
from towpath_gateway.app.metric_samples import MetricSampler
from towpath_gateway.app.oidc_sign_in import OidcSignIn
from towpath_gateway.app.session_cookies import SIGN_IN_REMEDY, SessionCookies
from towpath_gateway.app.stream_pace import StreamPace
from towpath_gateway.core.api_keys import LOCAL_PERSON, OPERATE_PLATFORM, Principal, bearer, split_key
from towpath_gateway.core.openai_errors import is_openai
from towpath_gateway.core.own_site import OwnSite
from towpath_gateway.core.shares import Shares
from towpath_gateway.metrics import GatewayMetrics
from towpath_gateway.settings import GatewaySettings

LOCAL_REMEDY = (
    "In a browser, open the link Console that `towpath up` prints when it starts: it lets one browser in. "
    "Elsewhere send the header in the file authorization of the data folder, which `towpath up` names: "
    "curl --header @.towpath/authorization. The command line and the client read it where ./.towpath is that folder; "
    "anywhere else put what stands behind Bearer in it into TOWPATH_API_KEY: with --ephemeral or --data "
    "`towpath up` prints the line that does, Shell."
)

WRONG_KEY_REMEDY = (
    "The key of this platform stands in the file authorization of its data folder, which `towpath up` names: "
    "curl --header @.towpath/authorization. For programs put what stands behind Bearer in it into TOWPATH_API_KEY."
)

LOCAL_OPENAI_REMEDY = (
    "Put what stands behind Bearer in .towpath/authorization into OPENAI_API_KEY; "
    "`towpath up` names the data folder where it is another one."
)
OPENAI_REMEDY = "Put a key of Towpath into OPENAI_API_KEY: `towpath keys create --caller NAME` makes one."

BODY_WAIT_S = 10.0
"""How long a large body waits to be parsed."""


@dataclass(slots=True, kw_only=True)
class GatewayDependencies:
    """What the wiring makes once for all handlers."""

    settings: GatewaySettings
    log: Logger
    keys: KeyStore
    platform: PlatformClient
    metrics: GatewayMetrics
    stopping: asyncio.Event
    request_shares: Shares
    stream_shares: Shares
    stream_pace: StreamPace
    site: OwnSite
    local_token: LocalToken | None = None
    sessions: SessionCookies | None = None
    oidc: OidcSignIn | None = None
    readings: LogReadings = field(init=False)
    body_turns: WorkTurns = field(init=False)
    sampler: MetricSampler = field(init=False)

    def __post_init__(self) -> None:
        self.readings = LogReadings(self.platform)
        self.sampler = MetricSampler(self.platform)
        self.body_turns = WorkTurns(1, lambda _: 1, BODY_WAIT_S, "project_share_full")

    def own_origin(self, headers: Headers) -> str:
        """Return the Origin of pages of this gateway for the browser that sent *headers*."""
        if self.sessions is not None:
            return self.sessions.own_origin(headers)
        return self.site.origin_of(headers.get("host"), has_tls=False)

    def refused_count(self) -> int:
        """Return how many requests were refused for their credential since this gateway began."""
        counted = (sample for family in self.metrics.refused.collect() for sample in family.samples)
        return int(sum(sample.value for sample in counted if sample.name.endswith("_total")))


def dependencies_of(request: Request) -> GatewayDependencies:
    """Return the dependencies of the application that serves *request*."""
    dependencies: GatewayDependencies = request.app.state.dependencies
    return dependencies


async def authenticate(request: Request) -> Principal:
    """Return who asks; raises ProblemError `unauthenticated` or `origin_refused`."""
    dependencies = dependencies_of(request)
    credential = bearer(request.headers.get("authorization"))
    if not dependencies.settings.asks_for_keys and _is_local_person(dependencies, request, credential):
        why = dependencies.site.refused_without_key(request.headers.get("host"), request.headers.get("origin"))
        if why is None:
            return LOCAL_PERSON
        dependencies.metrics.refused.labels("origin_refused").inc()
        raise ProblemError(problem("origin_refused", why))
    shown = dependencies.sessions.shown(request.headers) if dependencies.sessions is not None else None
    if dependencies.sessions is not None and shown is not None:
        try:
            return await dependencies.sessions.principal(shown, request.method, request.headers)
        except ProblemError as error:
            dependencies.metrics.refused.labels(error.problem.code).inc()
            raise
    found = split_key(credential) if credential else None
    if found is None:
        dependencies.metrics.refused.labels("unauthenticated").inc()
        raise ProblemError(_no_credential(dependencies, request, credential))
    return await dependencies.keys.principal(*found)


def _no_credential(dependencies: GatewayDependencies, request: Request, credential: str | None) -> Problem:
    """Return why nobody is let in who shows no key, nor a session that this gateway began."""
    detail = "the request carries no key" if credential is None else "this is not a key of Towpath"
    speaks_openai = is_openai(request.scope["path"])  # `request.url` holds what the Host says too
    if dependencies.local_token is not None:
        remedy = LOCAL_REMEDY if credential is None else WRONG_KEY_REMEDY
        return problem("unauthenticated", detail, remedy=LOCAL_OPENAI_REMEDY if speaks_openai else remedy)
    if credential is None and dependencies.sessions is not None and dependencies.sessions.has_name_in(request.headers):
        return problem("unauthenticated", "this session was not begun here", remedy=SIGN_IN_REMEDY)
    if speaks_openai:
        return problem("unauthenticated", detail, remedy=OPENAI_REMEDY)
    return problem("unauthenticated", detail)


def _is_local_person(dependencies: GatewayDependencies, request: Request, credential: str | None) -> bool:
    if dependencies.local_token is None:
        return credential is None
    return dependencies.local_token.is_shown(credential, request.headers.get("cookie"))


class Requires:
    """A dependency that gives the caller, and refuses one without *scope*; None lets in whoever is known."""

    def __init__(self, scope: str | None) -> None:
        self._scope = scope

    @property
    def scope(self) -> str | None:
        """What the caller needs, None where anybody who is known is let in."""
        return self._scope

    async def __call__(self, request: Request) -> Principal:
        """Return the caller; raises ProblemError `forbidden`, or why nobody is let in."""
        principal = await authenticate(request)
        if self._scope is not None and self._scope not in principal.scopes:
            dependencies_of(request).metrics.refused.labels("forbidden").inc()
            raise ProblemError(problem("forbidden", f"this needs the scope {self._scope}"))
        return principal


def require_role(principal: Principal, role: str) -> None:
    """Refuse a caller without *role*."""
    if role not in principal.roles:
        raise ProblemError(problem("role_missing", f"this needs the role {role}"))


def require_scope(principal: Principal, scope: str) -> None:
    """Refuse a key without *scope*, where a request needs it because of what it says."""
    if scope not in principal.scopes:
        raise ProblemError(problem("forbidden", f"this needs the scope {scope}"))


def require_reading_of_continued(principal: Principal, task: SubmitTask) -> None:
    """Refuse a key that may not read runs, where *task* continues one: the new run is told what was said in that."""
    if task.continues is not None:
        require_scope(principal, "runs:read")


def client_span(request: Request) -> RemoteSpan | None:
    """Return what the run stands below: the span of this request where requests are traced, else the client's own."""
    dependencies = dependencies_of(request)
    if not dependencies.settings.otel.reads_traceparent:
        return dependencies.platform.current_span()
    return dependencies.platform.current_span() or parse_traceparent(request.headers.get(HEADER))


ClientSpan = Annotated[RemoteSpan | None, Depends(client_span)]
Dependencies = Annotated[GatewayDependencies, Depends(dependencies_of)]
Anybody = Annotated[Principal, Depends(Requires(None))]
RunsReader = Annotated[Principal, Depends(Requires("runs:read"))]
RunsWriter = Annotated[Principal, Depends(Requires("runs:write"))]
RunsOperator = Annotated[Principal, Depends(Requires("runs:operate"))]
NetworksReader = Annotated[Principal, Depends(Requires("networks:read"))]
NetworksWriter = Annotated[Principal, Depends(Requires("networks:write"))]
GatesReader = Annotated[Principal, Depends(Requires("gates:read"))]
GatesResolver = Annotated[Principal, Depends(Requires("gates:resolve"))]
AuditReader = Annotated[Principal, Depends(Requires("audit:read"))]
AuditEraser = Annotated[Principal, Depends(Requires("audit:erase"))]
PolicyReader = Annotated[Principal, Depends(Requires("policy:read"))]
PolicyWriter = Annotated[Principal, Depends(Requires("policy:write"))]
PlatformOperator = Annotated[Principal, Depends(Requires(OPERATE_PLATFORM))]
KeysAdmin = Annotated[Principal, Depends(Requires("keys:admin"))]


def json_answer(message: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with *message*, encoded once."""
    return Response(message.model_dump_json(), status_code=status, headers=headers, media_type="application/json")


async def long_json_answer(dependencies: GatewayDependencies, project: str, message: BaseModel) -> Response:
    """Answer with *message*, which may be long: written and sent in steps."""
    return dependencies.readings.answer(project, await json_parts(message))


_ALL_SHARE = (
    *("request_invalid", "unauthenticated", "forbidden", "unavailable"),
    *("overloaded", "key_share_full", "project_share_full", "keyless_share_full"),
)


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI responses for the problems that an operation answers with, beside those that all share."""
    return documented_without_key(*_ALL_SHARE, *codes)


def documented_without_key(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI responses for *codes*, those of an operation that needs no key."""
    responses: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys(codes):
        kind = REGISTRY[code]
        entry = responses.setdefault(kind.status, {"description": kind.title, "x-codes": []})
        entry["x-codes"].append(code)
        entry["content"] = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return responses
