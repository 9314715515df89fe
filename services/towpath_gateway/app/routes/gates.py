"""Gates: where a run waits for a person.

A vote on an approval goes to the tool-access service, which checks role, quorum and requester; all other votes go
to the orchestrator. The voter is the credential's caller, never a field of the body.
"""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, JsonObject
from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_contracts.networks.plan_checks import check_plan
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.gate_delegations import ROLE_PREFIX, DelegateGate, DelegateName
from towpath_contracts.runs.views import (
    ActionDone,
    GatePage,
    GateStatus,
    GateView,
    ListGates,
    PreviewPrompt,
    ResolveGate,
)
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatesReader,
    GatesResolver,
    GatewayDependencies,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal, non_approval_roles

router = APIRouter(prefix="/v1/gates", route_class=BoundedJsonRoute, tags=["gates"])

Verdict = Literal["approved", "denied", "happened", "did_not_happen", "retry", "stop"]

_REFUSALS = (
    "gate_not_found",
    "gate_settled",
    "fence_raised",
    "verdict_invalid",
    "digest_changed",
    "role_missing",
    "requester_may_not_approve",
)


class ApproveGateBody(ClientMessage):
    """A person's yes to a gate; `digest` binds it to the call as it was shown."""

    reason: str = Field(default="", max_length=2_000)
    digest: str | None = Field(default=None, max_length=128)


class DenyGateBody(ClientMessage):
    """A person's no to a gate; the model sees the reason."""

    reason: str = Field(default="", max_length=2_000)
    digest: str | None = Field(default=None, max_length=128)


class EditGateBody(ClientMessage):
    """Other arguments for a call that waits at a gate: all of them, as the tool takes them."""

    args: JsonObject
    reason: str = Field(default="", max_length=2_000)
    digest: str | None = Field(default=None, max_length=128)


class ResolveGateBody(ClientMessage):
    """Any verdict, for gates that ask something else than yes or no."""

    verdict: Verdict
    reason: str = Field(default="", max_length=2_000)
    digest: str | None = Field(default=None, max_length=128)


class DelegateGateBody(ClientMessage):
    """Whom a gate is handed to: a person's name, or `role:NAME` for everybody with that role.

    A name that nobody is known by here is taken with `unknown` alone.
    """

    to: DelegateName
    reason: str = Field(default="", max_length=2_000)
    unknown: bool = False


@router.get("", response_model=GatePage, responses=documented(), summary="List gates")
async def list_gates(
    dependencies: Dependencies,
    principal: GatesReader,
    status: Annotated[Literal[GateStatus, "all"], Query(description="`all` for every status")] = "pending",
    run_id: UUID | None = None,
    root_run_id: Annotated[
        UUID | None, Query(description="of this run, which a caller submitted, and of every run below it")
    ] = None,
    paused: Annotated[bool, Query(description="with those of pauses, which only a resume opens")] = True,
    after: Annotated[UUID | None, Query(description="`next_after` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    tool: Annotated[str | None, Query(max_length=200, description="of this tool's calls")] = None,
    rule: Annotated[str | None, Query(max_length=200, description="of this rule")] = None,
    network: Annotated[str | None, Query(max_length=200)] = None,
    assigned_to: Annotated[
        str | None, Query(max_length=254, description="handed to this name; `me`: to the caller, or a role of theirs")
    ] = None,
    order: Annotated[
        Literal["oldest", "newest"], Query(description="`newest`: closed gates, the last first")
    ] = "oldest",
) -> Response:
    """Return the project's gates, oldest first; or closed ones, those first that were closed last.

    A page of closed ones is chosen from the newest 2,000; with a tool and a rule alone from all.
    """
    if order == "newest" and (status == "pending" or root_run_id is not None or assigned_to is not None):
        detail = "order=newest lists closed gates: give status=all, or the status of some, and run_id for one run"
        raise ProblemError(problem("request_invalid", detail))
    wanted = None if status == "all" else status
    request = ListGates(
        project=principal.project,
        status=wanted,
        run_id=run_id,
        root_run_id=root_run_id,
        paused=paused,
        after=after,
        limit=limit,
        tool=tool,
        rule=rule,
        network=network,
        newest=order == "newest",
        assigned_to=_names(principal) if assigned_to == "me" else None if assigned_to is None else (assigned_to,),
    )
    return json_answer(await dependencies.platform.request(rpc.LIST_GATES, request))


@router.get("/{gate_id}", response_model=GateView, responses=documented("gate_not_found"), summary="Look at a gate")
async def get_gate(gate_id: UUID, dependencies: Dependencies, principal: GatesReader) -> Response:
    """Return what waits, why, and until when."""
    return json_answer(await _gate(dependencies, principal, gate_id))


@router.post("/{gate_id}/approve", response_model=ActionDone, responses=documented(*_REFUSALS), summary="Approve")
async def approve_gate(
    gate_id: UUID, dependencies: Dependencies, principal: GatesResolver, vote: ApproveGateBody | None = None
) -> Response:
    """Say yes; the run goes on once the quorum is reached."""
    given = vote or ApproveGateBody()
    return await _resolve(dependencies, principal, gate_id, "approved", given.reason, given.digest)


@router.post(
    "/{gate_id}/deny", response_model=ActionDone, responses=documented(*_REFUSALS, "reason_required"), summary="Deny"
)
async def deny_gate(
    gate_id: UUID, dependencies: Dependencies, principal: GatesResolver, vote: DenyGateBody | None = None
) -> Response:
    """Say no, with a reason."""
    given = vote or DenyGateBody()
    return await _resolve(dependencies, principal, gate_id, "denied", given.reason, given.digest)


@router.post(
    "/{gate_id}/resolve",
    response_model=ActionDone,
    responses=documented(*_REFUSALS, "reason_required", "retry_refused"),
    summary="Resolve",
)
async def resolve_gate(
    gate_id: UUID, vote: ResolveGateBody, dependencies: Dependencies, principal: GatesResolver
) -> Response:
    """Settle a gate with any verdict it takes.

    An unknown effect takes happened, did_not_happen or retry; a run that waits takes approved, denied or stop.
    """
    return await _resolve(dependencies, principal, gate_id, vote.verdict, vote.reason, vote.digest)


@router.post(
    "/{gate_id}/edit",
    response_model=ActionDone,
    responses=documented(*_REFUSALS, "edit_refused", "revisions_used_up"),
    summary="Change the call",
)
async def edit_gate(
    gate_id: UUID, edit: EditGateBody, dependencies: Dependencies, principal: GatesResolver
) -> Response:
    """Put other arguments in the place of those that wait; whoever does has approved them, as one of the quorum."""
    return await _resolve(dependencies, principal, gate_id, "edit", edit.reason, edit.digest, edit.args)


@router.post(
    "/{gate_id}/delegate",
    response_model=GateView,
    responses=documented(
        "gate_not_found",
        "gate_settled",
        "verdict_invalid",
        "role_missing",
        "delegate_may_not_decide",
        "delegate_unknown",
    ),
    summary="Hand a gate to somebody",
)
async def delegate_gate(
    gate_id: UUID, dependencies: Dependencies, principal: GatesResolver, given: DelegateGateBody
) -> Response:
    """Say whose it is to decide. Everybody who may decide there still may, and nobody else.

    Refused for a name that never had a key of the project, nor signed in (`delegate_unknown`), unless confirmed.
    """
    gate = await _gate(dependencies, principal, gate_id)
    if not given.unknown and not await _is_known(dependencies, principal, given.to):
        raise ProblemError(problem("delegate_unknown", f"nobody here is known as {given.to}"))
    known = None if given.to.startswith(ROLE_PREFIX) else await dependencies.keys.roles_of(given.to, principal.project)
    request = DelegateGate(
        project=principal.project,
        gate_id=gate_id,
        to=given.to,
        known_roles=None if known is None else tuple(sorted(known)),
        reason=given.reason,
        actor=principal.actor,
        caller=principal.caller,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
        roles=tuple(sorted(principal.roles if gate.approval_id is not None else non_approval_roles(principal))),
    )
    return json_answer(await dependencies.platform.request(rpc.DELEGATE_GATE, request))


async def _is_known(dependencies: GatewayDependencies, principal: Principal, to: str) -> bool:
    if to.startswith(ROLE_PREFIX) or to in {principal.caller, principal.actor}:
        return True
    return await dependencies.keys.is_known(to, principal.project)


def _names(principal: Principal) -> tuple[str, ...]:
    """Return the names under which a gate may have been handed to *principal*."""
    roles = (f"{ROLE_PREFIX}{role}" for role in sorted(principal.roles | non_approval_roles(principal)))
    return tuple(dict.fromkeys((principal.caller, principal.actor, *roles)))


async def _gate(dependencies: GatewayDependencies, principal: Principal, gate_id: UUID) -> GateView:
    request = ListGates(project=principal.project, status=None, gate_id=gate_id, limit=1)
    page: GatePage = await dependencies.platform.request(rpc.LIST_GATES, request)
    if not page.gates:
        raise ProblemError(problem("gate_not_found", f"{gate_id} is no gate of this project"))
    return page.gates[0]


async def _check_plan(dependencies: GatewayDependencies, gate: GateView, args: JsonObject) -> None:
    """Raise ProblemError where a plan that a person writes could not be carried out: nobody would see it later."""
    run = await dependencies.platform.run(gate.project, gate.run_id)
    asked = PreviewPrompt(project=gate.project, network=run.network, version=run.version)
    version: NetworkVersion = await dependencies.platform.request(rpc.GET_NETWORK, asked)
    agents = frozenset[str]() if version.snapshot is None else version.snapshot.plan_members
    bindings = args.get("bindings")
    known = bindings if isinstance(bindings, dict) else {}
    _plan, faults = check_plan(args["plan"], agents=agents, bindings=known, self_contained=True)
    if faults:
        placed = tuple(one.model_copy(update={"pointer": f"/args/plan{one.pointer}"}) for one in faults)
        raise ProblemError(problem("edit_refused", "; ".join(one.detail for one in faults), errors=placed))


async def _resolve(
    dependencies: GatewayDependencies,
    principal: Principal,
    gate_id: UUID,
    verdict: Verdict | Literal["edit"],
    reason: str,
    digest: str | None,
    args: JsonObject | None = None,
) -> Response:
    if verdict == "denied" and not reason.strip():
        raise ProblemError(problem("reason_required", "a denial without a reason teaches the model nothing"))
    gate = await _gate(dependencies, principal, gate_id)
    if gate.detail.get("tool") == ORCHESTRATE and isinstance((args or {}).get("plan"), dict):
        await _check_plan(dependencies, gate, args or {})
    roles = principal.roles if gate.approval_id is not None else non_approval_roles(principal)
    vote = ResolveGate(
        project=principal.project,
        gate_id=gate_id,
        approval_id=gate.approval_id,
        verdict=verdict,
        args=args,
        reason=reason,
        actor=principal.actor,
        caller=principal.caller,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
        roles=tuple(sorted(roles)),
        digest=digest,
    )
    method = rpc.RESOLVE_GATE if gate.approval_id is None else rpc.RESOLVE_APPROVAL
    return json_answer(await dependencies.platform.request(method, vote))
