"""The quota of a project: how many runs it may have under way and begin on one day, and its tool calls a minute.

Whoever may read runs may read it; who sets it is the credential's person, who needs the role `operator`. A credential
sees and limits nothing outside its own project.
"""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.budgets import ProjectQuota, QuotaStatus, SetQuota, ShowQuota
from towpath_contracts.switches import OPERATOR
from towpath_gateway.app.dependencies import (
    Dependencies,
    RunsOperator,
    RunsReader,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/quota", route_class=BoundedJsonRoute, tags=["budgets"])


class SetQuotaBody(ClientMessage):
    """The quota in place of the one before. Without a `quota` it is lifted."""

    quota: ProjectQuota | None = None
    reason: Annotated[str, Field(max_length=2_000)] = ""


@router.get("", response_model=QuotaStatus, responses=documented(), summary="The project's quota")
async def show_quota(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return each limit of the credential's project, what is used of it and when it is free again."""
    return json_answer(await dependencies.platform.request(rpc.SHOW_QUOTA, ShowQuota(project=principal.project)))


@router.post("", response_model=QuotaStatus, responses=documented("role_missing"), summary="Set the project's quota")
async def set_quota(wanted: SetQuotaBody, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Set or lift the quota of the credential's project (needs the role `operator`)."""
    require_role(principal, OPERATOR)
    request = SetQuota(
        project=principal.project,
        quota=wanted.quota,
        roles=tuple(sorted(principal.roles)),
        reason=wanted.reason,
        **principal.named(),
    )
    return json_answer(await dependencies.platform.request(rpc.SET_QUOTA, request))
