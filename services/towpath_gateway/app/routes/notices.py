"""Notices of gates to webhooks: which were not taken, and sending one again. Where they go is the operator's file."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from towpath_contracts import rpc
from towpath_contracts.gate_notices import GateNoticePage, ListGateNotices, RetryGateNotice
from towpath_contracts.runs.views import ActionDone
from towpath_gateway.app.dependencies import Dependencies, GatesReader, RunsOperator, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/notices", route_class=BoundedJsonRoute, tags=["gates"])


@router.get("", response_model=GateNoticePage, responses=documented(), summary="List gate notices")
async def list_notices(
    dependencies: Dependencies,
    principal: GatesReader,
    status: Annotated[Literal["pending", "sent", "dead", "obsolete", "all"], Query()] = "dead",
    before: Annotated[AwareDatetime | None, Query(description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Return the project's notices, newest first; by default those that no webhook has taken."""
    wanted = None if status == "all" else status
    request = ListGateNotices(project=principal.project, status=wanted, before=before, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.LIST_NOTICES, request))


@router.post(
    "/{notice_id}/retry", response_model=ActionDone, responses=documented("not_found"), summary="Send a notice again"
)
async def retry_notice(notice_id: UUID, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Send a dead notice again, from its first try on."""
    request = RetryGateNotice(project=principal.project, notice_id=notice_id)
    return json_answer(await dependencies.platform.request(rpc.RETRY_NOTICE, request))
