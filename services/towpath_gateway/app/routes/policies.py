"""The matrix over time: versions, single rules, what a change would have done, the shadow, figures."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.access import GetPolicy, PolicyApplied
from towpath_contracts.tools.policy import (
    MAX_POLICY_CHARS,
    ChangeRule,
    DiffPermissions,
    DiffPolicy,
    Dimension,
    GetShadow,
    GetToolCallStatistics,
    ListPolicyVersions,
    PermissionsDiff,
    PolicyChangeLog,
    PolicyImpact,
    PolicyVersions,
    RollBackPolicy,
    RuleChanged,
    SetShadow,
    ShadowView,
    ToolCallStatistics,
)
from towpath_gateway.app.dependencies import (
    AuditReader,
    Dependencies,
    PolicyReader,
    PolicyWriter,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1", route_class=BoundedJsonRoute, tags=["tool access"])

ANALYSIS_TIMEOUT_S = 20.0
"""How long a piece of a diff, or figures of a long window, may take before the answer is `unavailable`."""

Before = Annotated[int | None, Query(ge=1, description="`next_before` of the page before")]
Limit = Annotated[int, Query(ge=1, le=500)]


class RollBackPolicyBody(ClientMessage):
    """The version to come back to, and why; `if_version` must be the one in force."""

    version: int = Field(ge=1)
    note: str = Field(default="", max_length=2_000)
    if_version: int | None = Field(default=None, ge=1)
    dry_run: bool = False


class PutRuleBody(ClientMessage):
    """One rule, with the members that it has in a policy file."""

    rule: JsonObject
    note: str = Field(default="", max_length=2_000)
    if_version: int | None = Field(default=None, ge=0)
    dry_run: bool = False


class PolicyImpactBody(ClientMessage):
    """A policy that is not in force, and the recorded calls to evaluate with it.

    A matrix that might be applied, and the calls to weigh by it; `after` and `last` come from the piece before.
    """

    text: str = Field(max_length=MAX_POLICY_CHARS)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    after: int | None = Field(default=None, ge=0)
    last: int | None = Field(default=None, ge=0)
    limit: int = Field(default=2_000, ge=1, le=5_000)


class PolicyPermissionsBody(ClientMessage):
    """A policy that is not in force."""

    text: str = Field(max_length=MAX_POLICY_CHARS)


class ShadowText(ClientMessage):
    """A matrix that is weighed beside the one in force."""

    text: str = Field(max_length=MAX_POLICY_CHARS)
    source: str = Field(default="", max_length=256)
    note: str = Field(default="", max_length=2_000)


@router.get("/policy/versions", response_model=PolicyVersions, responses=documented(), summary="List versions")
async def list_versions(
    dependencies: Dependencies, principal: PolicyReader, before: Before = None, limit: Limit = 50
) -> Response:
    """Return the versions of the matrix, newest first: who applied them, when and why."""
    request = ListPolicyVersions(project=principal.project, before=before, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.POLICY_VERSIONS, request))


@router.get("/policy/changes", response_model=PolicyChangeLog, responses=documented(), summary="The change log")
async def list_changes(
    dependencies: Dependencies, principal: PolicyReader, before: Before = None, limit: Limit = 20
) -> Response:
    """Return what every version changed, rule by rule, newest first."""
    request = ListPolicyVersions(project=principal.project, before=before, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.POLICY_CHANGES, request))


@router.post(
    "/policy/rollback",
    response_model=PolicyApplied,
    responses=documented("version_not_found", "policy_invalid", "policy_moved"),
    summary="Go back to a version",
)
async def roll_back(wanted: RollBackPolicyBody, dependencies: Dependencies, principal: PolicyWriter) -> Response:
    """Apply the text of an older version as a new one."""
    request = RollBackPolicy(project=principal.project, **principal.named(), **_fields_of(wanted))
    return json_answer(await dependencies.platform.request(rpc.ROLL_BACK_POLICY, request))


@router.get(
    "/policy/rules/{name:path}",
    response_model=JsonObject,
    responses=documented("rule_not_found"),
    summary="Look at a rule",
)
async def get_rule(name: str, dependencies: Dependencies, principal: PolicyReader) -> JsonObject:
    """Return one rule of the matrix in force."""
    view = await dependencies.platform.request(rpc.GET_POLICY, GetPolicy(project=principal.project))
    found = next((rule for rule in view.rules if rule["name"] == name), None)
    if found is None:
        raise ProblemError(problem("rule_not_found", f"there is no rule named {name}"))
    rule: JsonObject = found
    return rule


@router.put(
    "/policy/rules/{name:path}",
    response_model=RuleChanged,
    responses=documented("policy_invalid", "policy_moved"),
    summary="Put a rule",
)
async def put_rule(name: str, rule: PutRuleBody, dependencies: Dependencies, principal: PolicyWriter) -> Response:
    """Replace the rule of that name, or add it at the end; the whole matrix becomes a new version."""
    request = ChangeRule(project=principal.project, **principal.named(), name=name, **_fields_of(rule))
    return json_answer(await dependencies.platform.request(rpc.CHANGE_RULE, request))


@router.delete(
    "/policy/rules/{name:path}",
    response_model=RuleChanged,
    responses=documented("rule_not_found", "policy_moved"),
    summary="Remove a rule",
)
async def remove_rule(
    name: str,
    dependencies: Dependencies,
    principal: PolicyWriter,
    note: Annotated[str, Query(max_length=2_000)] = "",
    if_version: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Take a rule out; the whole matrix becomes a new version."""
    request = ChangeRule(project=principal.project, **principal.named(), name=name, note=note, if_version=if_version)
    return json_answer(await dependencies.platform.request(rpc.CHANGE_RULE, request))


@router.post(
    "/policy/diff", response_model=PolicyImpact, responses=documented("policy_invalid"), summary="Weigh the past"
)
async def diff_policy(proposal: PolicyImpactBody, dependencies: Dependencies, principal: PolicyWriter) -> Response:
    """Return which recorded calls a matrix would have decided otherwise, a piece at a time; nothing is changed."""
    request = DiffPolicy(project=principal.project, **_fields_of(proposal))
    return json_answer(await dependencies.platform.request(rpc.DIFF_POLICY, request, ANALYSIS_TIMEOUT_S))


@router.post(
    "/policy/diff/permissions",
    response_model=PermissionsDiff,
    responses=documented("policy_invalid"),
    summary="Which cells would change",
)
async def diff_permissions(
    proposal: PolicyPermissionsBody, dependencies: Dependencies, principal: PolicyWriter
) -> Response:
    """Return the agents and tools of which a matrix says something else than the one in force; nothing is changed."""
    request = DiffPermissions(project=principal.project, text=proposal.text)
    return json_answer(await dependencies.platform.request(rpc.DIFF_PERMISSIONS, request, ANALYSIS_TIMEOUT_S))


@router.get("/policy/shadow", response_model=ShadowView, responses=documented(), summary="What the shadow found")
async def get_shadow(dependencies: Dependencies, principal: PolicyReader) -> Response:
    """Return the shadow that was set last, and the live calls that it would have decided otherwise."""
    return json_answer(await dependencies.platform.request(rpc.GET_SHADOW, GetShadow(project=principal.project)))


@router.put("/policy/shadow", response_model=ShadowView, responses=documented("policy_invalid"), summary="Set a shadow")
async def set_shadow(shadow: ShadowText, dependencies: Dependencies, principal: PolicyWriter) -> Response:
    """Weigh live calls by a second matrix from now on; it is never obeyed."""
    request = SetShadow(project=principal.project, actor=principal.actor, **_fields_of(shadow))
    return json_answer(await dependencies.platform.request(rpc.SET_SHADOW, request))


@router.delete("/policy/shadow", response_model=ShadowView, responses=documented(), summary="End the shadow")
async def end_shadow(
    dependencies: Dependencies, principal: PolicyWriter, note: Annotated[str, Query(max_length=2_000)] = ""
) -> Response:
    """Weigh no call by it any more; what it found stays readable."""
    request = SetShadow(project=principal.project, actor=principal.actor, note=note)
    return json_answer(await dependencies.platform.request(rpc.SET_SHADOW, request))


@router.get(
    "/statistics", response_model=ToolCallStatistics, responses=documented(), summary="Success and denial rates"
)
async def get_statistics(
    dependencies: Dependencies,
    principal: AuditReader,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    by: Annotated[list[Dimension] | None, Query(max_length=6)] = None,
) -> Response:
    """Count decisions and outcomes of the last day, or of a window, by tool unless asked otherwise."""
    request = GetToolCallStatistics(project=principal.project, since=since, until=until, by=tuple(by or ["tool"]))
    return json_answer(await dependencies.platform.request(rpc.GET_STATISTICS, request, ANALYSIS_TIMEOUT_S))


def _fields_of(message: ClientMessage) -> JsonObject:
    return message.model_dump(exclude={"schema_version"})
