"""Erasures: ask for payloads of the audit or for a run to be erased, confirm it, withdraw it.

Looking needs the scope `audit:read`, all else `audit:erase`. Who asks and who confirms are the credentials' persons,
never fields of a body.
"""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.tools.erasures import (
    MAX_REASON,
    DecideErasure,
    ErasureList,
    ErasureStatus,
    ErasureView,
    ListErasures,
    RequestErasure,
)
from towpath_gateway.app.dependencies import (
    AuditEraser,
    AuditReader,
    Dependencies,
    GatewayDependencies,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal

router = APIRouter(route_class=BoundedJsonRoute, tags=["tool access"])

CARRY_OUT_TIMEOUT_S = 60.0
"""The answer to a confirmation comes when most of it is carried out."""


class RequestErasureBody(ClientMessage):
    """Whose audit payloads to erase: all that is given must fit, and something must be.

    Whose payloads: all that is given must fit, and something must be. The reason stands in the log for ever.
    """

    reason: str = Field(min_length=1, max_length=MAX_REASON)
    run_id: UUID | None = None
    execution_id: UUID | None = None
    caller: str | None = Field(default=None, max_length=128)
    before: AwareDatetime | None = None


class EraseRunBody(ClientMessage):
    """Why a run is to be erased; it stands in the log for ever, so it should name nobody."""

    reason: str = Field(min_length=1, max_length=MAX_REASON)


@router.post(
    "/v1/runs/{run_id}/erase",
    status_code=201,
    response_model=ErasureView,
    responses=documented("run_not_found", "run_erased", "run_not_ended", "limit_exceeded"),
    summary="Ask for a run to be erased",
)
async def request_run_erasure(
    run_id: UUID, wanted: EraseRunBody, dependencies: Dependencies, principal: AuditEraser
) -> Response:
    """Ask for all that is stored of an ended run, and of every run below it, to be erased.

    Nothing is, until another person confirms it, as with payloads of the audit. The answer names the runs, and these
    are all that is erased.
    """
    request = RequestErasure(
        project=principal.project,
        actor=principal.actor,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
        kind="run",
        run_id=run_id,
        reason=wanted.reason,
    )
    return await _request(dependencies, request)


@router.post(
    "/v1/erasures",
    status_code=201,
    response_model=ErasureView,
    responses=documented("limit_exceeded"),
    summary="Ask for payloads to be erased",
)
async def request_erasure(wanted: RequestErasureBody, dependencies: Dependencies, principal: AuditEraser) -> Response:
    """Ask for details and argument digests to be erased; nothing is, until another person confirms it."""
    request = RequestErasure(
        project=principal.project,
        actor=principal.actor,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
        **wanted.model_dump(exclude_unset=True),
    )
    return await _request(dependencies, request)


async def _request(dependencies: GatewayDependencies, request: RequestErasure) -> Response:
    view: ErasureView = await dependencies.platform.request(rpc.REQUEST_ERASURE, request)
    return json_answer(view, status=201, headers={"Location": f"/v1/erasures/{view.erasure_id}"})


@router.get("/v1/erasures", response_model=ErasureList, responses=documented(), summary="List erasures")
async def list_erasures(
    dependencies: Dependencies,
    principal: AuditReader,
    status: ErasureStatus | None = None,
    before: Annotated[UUID | None, Query(description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Return the project's erasures, newest first."""
    request = ListErasures(project=principal.project, status=status, before=before, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.LIST_ERASURES, request))


@router.get(
    "/v1/erasures/{erasure_id}",
    response_model=ErasureView,
    responses=documented("erasure_not_found"),
    summary="Look at an erasure",
)
async def get_erasure(erasure_id: UUID, dependencies: Dependencies, principal: AuditReader) -> Response:
    """Return what is to be erased, who asked, and how far it is."""
    request = ListErasures(project=principal.project, erasure_id=erasure_id)
    found: ErasureList = await dependencies.platform.request(rpc.LIST_ERASURES, request)
    return json_answer(found.erasures[0])


@router.post(
    "/v1/erasures/{erasure_id}/confirm",
    response_model=ErasureView,
    responses=documented("erasure_not_found", "erasure_settled", "erasure_changed", "second_person_required"),
    summary="Confirm an erasure",
)
async def confirm_erasure(erasure_id: UUID, dependencies: Dependencies, principal: AuditEraser) -> Response:
    """Have it carried out; entries and proofs stay, and the erasing is in the log itself. Nothing brings it back."""
    return await _decide(dependencies, principal, erasure_id, "confirm")


@router.post(
    "/v1/erasures/{erasure_id}/withdraw",
    response_model=ErasureView,
    responses=documented("erasure_not_found", "erasure_settled"),
    summary="Withdraw an erasure",
)
async def withdraw_erasure(erasure_id: UUID, dependencies: Dependencies, principal: AuditEraser) -> Response:
    """Drop a request that nobody has confirmed."""
    return await _decide(dependencies, principal, erasure_id, "withdraw")


async def _decide(
    dependencies: GatewayDependencies, principal: Principal, erasure_id: UUID, verdict: Literal["confirm", "withdraw"]
) -> Response:
    request = DecideErasure(
        project=principal.project,
        erasure_id=erasure_id,
        verdict=verdict,
        actor=principal.actor,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
    )
    return json_answer(await dependencies.platform.request(rpc.DECIDE_ERASURE, request, CARRY_OUT_TIMEOUT_S))
