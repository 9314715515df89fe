"""Worker processes: which are there, and draining one.

Whoever may read runs may see who takes their calls; who drains is the credential's person, who needs the role
`operator`. A credential sees and drains nothing outside its own project.
"""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.switches import OPERATOR
from towpath_contracts.tools.workers import DrainWorker, ListWorkers, WorkerDrained, WorkerId, WorkerList
from towpath_gateway.app.dependencies import (
    Dependencies,
    RunsOperator,
    RunsReader,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/workers", route_class=BoundedJsonRoute, tags=["workers"])


class DrainWorkerBody(ClientMessage):
    """Why; it stands in the audit."""

    reason: Annotated[str, Field(max_length=2_000)] = ""


@router.get("", response_model=WorkerList, responses=documented(), summary="Who works")
async def list_workers(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the worker processes of the project, by what they said last; one that is gone for ten minutes longer."""
    return json_answer(await dependencies.platform.request(rpc.LIST_WORKERS, ListWorkers(project=principal.project)))


@router.post(
    "/{worker_id}/drain",
    response_model=WorkerDrained,
    responses=documented("role_missing", "not_found"),
    summary="Drain a worker",
)
async def drain_worker(
    worker_id: WorkerId,
    dependencies: Dependencies,
    principal: RunsOperator,
    wanted: DrainWorkerBody | None = None,
) -> Response:
    """Let this process take no new calls; those that it has go on (needs the role `operator`).

    It hears of it within five seconds, and holds to it until it is started again.
    """
    require_role(principal, OPERATOR)
    request = DrainWorker(
        project=principal.project,
        worker_id=worker_id,
        roles=tuple(sorted(principal.roles)),
        reason=wanted.reason if wanted is not None else "",
        **principal.named(),
    )
    return json_answer(await dependencies.platform.request(rpc.DRAIN_WORKER, request))
