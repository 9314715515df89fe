"""Tool access: the matrix, dry runs, permissions, tools and the audit."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, JsonObject, Name
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.tasks import TaskGrantRule
from towpath_contracts.tools.access import (
    AccessVerdict,
    AgentPermissions,
    ApplyPolicy,
    AuditPage,
    AuditQuery,
    CheckAccess,
    DescribeTools,
    GetPermissions,
    GetPolicy,
    PolicyApplied,
    PolicyView,
    SettleToolProposal,
    ToolsDescribed,
)
from towpath_gateway.app.dependencies import (
    AuditReader,
    Dependencies,
    PolicyReader,
    PolicyWriter,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1", route_class=BoundedJsonRoute, tags=["tool access"])

MAX_POLICY_CHARS = 1_000_000
"""A matrix as text; NATS carries no more in one message."""


class ApplyPolicyBody(ClientMessage):
    """A matrix as YAML (`kind: Policy`); with `dry_run` it is only checked, with `if_version` that must be in force.

    With `strict` what is probably wrong with it is a problem too.
    """

    text: str = Field(max_length=MAX_POLICY_CHARS)
    source: str = Field(default="", max_length=256)
    note: str = Field(default="", max_length=2_000)
    dry_run: bool = False
    if_version: int | None = Field(default=None, ge=0)
    strict: bool = False


class AccessQuestion(ClientMessage):
    """A call that might be made; `caller` defaults to who asks. `grant` is the task's own, as at a submission.

    `used` says how often the run has used limited rules, by name, and `spent_usd` what it has cost. With `run_id` the
    platform looks up where the values come from, as if that run asked now; `origin` states it instead. Without `rates`
    the project's limits per time count as unused.
    """

    network: Name
    agent_key: Name
    agent_type: str = Field(default="", max_length=128)
    tool: Name
    operation: str | None = Field(default=None, max_length=64)
    args: JsonObject = Field(default_factory=dict)
    caller: str | None = Field(default=None, max_length=64)
    step: int = Field(default=0, ge=0)
    labels: dict[str, str] = Field(default_factory=dict)
    grant: tuple[TaskGrantRule, ...] | None = Field(default=None, max_length=256)
    used: dict[str, int] = Field(default_factory=dict)
    spent_usd: float | None = Field(default=None, ge=0)
    run_id: UUID | None = None
    origin: JsonObject | None = None
    rates: bool = True


class ToolVersionVerdict(ClientMessage):
    """Whether a pending version of a tool is taken; `withdraw` takes the tool away whose version in force it names."""

    version: int = Field(ge=1)
    accept: bool
    withdraw: bool = False
    reason: str = Field(default="", max_length=2_000)


@router.get("/audit", response_model=AuditPage, responses=documented(), summary="Search the audit")
async def search_audit(
    dependencies: Dependencies,
    principal: AuditReader,
    run_id: UUID | None = None,
    execution_id: UUID | None = None,
    agent_key: Annotated[str | None, Query(max_length=128)] = None,
    tool: Annotated[str | None, Query(max_length=128)] = None,
    verdict: Annotated[str | None, Query(max_length=64)] = None,
    phase: Annotated[str | None, Query(max_length=64)] = None,
    actor: Annotated[str | None, Query(max_length=128)] = None,
    args_digest: Annotated[
        str | None, Query(pattern="^sha256:[0-9a-f]{64}$", description="of the arguments of a call")
    ] = None,
    since: Annotated[AwareDatetime | None, Query(description="inclusive; with its zone")] = None,
    until: Annotated[AwareDatetime | None, Query(description="inclusive; with its zone")] = None,
    before: Annotated[int | None, Query(ge=1, description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Return audit entries of the project, newest first."""
    request = AuditQuery(
        project=principal.project,
        run_id=run_id,
        execution_id=execution_id,
        agent_key=agent_key,
        tool=tool,
        verdict=verdict,
        phase=phase,
        actor=actor,
        args_digest=args_digest,
        since=since,
        until=until,
        before=before,
        limit=limit,
    )
    return json_answer(await dependencies.platform.request(rpc.AUDIT_QUERY, request))


@router.post(
    "/policy",
    response_model=PolicyApplied,
    responses=documented("policy_invalid", "policy_moved"),
    summary="Apply a matrix",
)
async def apply_policy(policy: ApplyPolicyBody, dependencies: Dependencies, principal: PolicyWriter) -> Response:
    """Make a new version of the matrix, in force at once; every problem of a bad one is listed and nothing changes."""
    request = ApplyPolicy(
        project=principal.project,
        **principal.named(),
        text=policy.text,
        source=policy.source,
        note=policy.note,
        dry_run=policy.dry_run,
        if_version=policy.if_version,
        strict=policy.strict,
    )
    return json_answer(await dependencies.platform.request(rpc.APPLY_POLICY, request))


@router.get("/policy", response_model=PolicyView, responses=documented("version_not_found"), summary="The matrix")
async def get_policy(
    dependencies: Dependencies, principal: PolicyReader, version: Annotated[int | None, Query(ge=1)] = None
) -> Response:
    """Return the matrix in force, or an older version, as text and as rules."""
    request = GetPolicy(project=principal.project, version=version)
    return json_answer(await dependencies.platform.request(rpc.GET_POLICY, request))


@router.post(
    "/policy/check",
    response_model=AccessVerdict,
    responses=documented("grant_too_large"),
    summary="Ask the matrix",
)
async def check_access(question: AccessQuestion, dependencies: Dependencies, principal: PolicyReader) -> Response:
    """Return what the matrix would answer, and why; nothing is executed."""
    request = CheckAccess(
        project=principal.project,
        network=question.network,
        agent_key=question.agent_key,
        agent_type=question.agent_type,
        tool=question.tool,
        operation=question.operation,
        args=question.args,
        caller=question.caller or principal.caller,
        step=question.step,
        labels=question.labels,
        grant=None if question.grant is None else tuple(rule.model_dump(mode="json") for rule in question.grant),
        used=question.used,
        spent_usd=question.spent_usd,
        run_id=question.run_id,
        origin=question.origin,
        rates=question.rates,
    )
    return json_answer(await dependencies.platform.request(rpc.CHECK_ACCESS, request))


@router.get(
    "/permissions/{network:path}/{agent}",
    response_model=AgentPermissions,
    responses=documented(),
    summary="What an agent may do",
)
async def get_permissions(
    network: str,
    agent: str,
    dependencies: Dependencies,
    principal: PolicyReader,
    agent_type: Annotated[str, Query(max_length=128)] = "",
) -> Response:
    """Return every registered tool and what the matrix says for this agent."""
    request = GetPermissions(project=principal.project, network=network, agent_key=agent, agent_type=agent_type)
    return json_answer(await dependencies.platform.request(rpc.GET_PERMISSIONS, request))


@router.get("/tools", response_model=ToolsDescribed, responses=documented(), summary="List tools")
async def list_tools(
    dependencies: Dependencies,
    principal: PolicyReader,
    proposals: Annotated[bool, Query()] = False,
    name: Annotated[
        list[Name] | None, Query(max_length=100, description="these alone; all where none is named")
    ] = None,
) -> Response:
    """Return the registered tools of the project with their schemas and effect classes, and what waits to be one."""
    names = None if name is None else tuple(name)
    request = DescribeTools(project=principal.project, proposals=proposals, names=names)
    return json_answer(await dependencies.platform.request(rpc.DESCRIBE_TOOLS, request))


@router.post(
    "/tools/{name:path}/proposal",
    response_model=ActionDone,
    responses=documented("role_missing", "not_found"),
    summary="Accept or refuse a changed tool",
)
async def decide_proposal(
    name: str, verdict: ToolVersionVerdict, dependencies: Dependencies, principal: PolicyWriter
) -> Response:
    """Settle a pending version: a weaker effect class, trusted output or a takeover (needs `policy_admin`).

    With `withdraw` the tool leaves the project; whoever offers the same again waits for a person.
    """
    require_role(principal, "policy_admin")
    request = SettleToolProposal(
        project=principal.project,
        name=name,
        version=verdict.version,
        accept=verdict.accept and not verdict.withdraw,
        withdraw=verdict.withdraw,
        **principal.named(),
        reason=verdict.reason,
    )
    return json_answer(await dependencies.platform.request(rpc.DECIDE_PROPOSAL, request))
