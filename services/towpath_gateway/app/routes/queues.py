"""Queues: what waits for workers and for the platform's own services, and whether anybody takes it.

A credential sees the queues of its own project's toolsets. Those that all projects share are shown to whoever operates
the platform.
"""

from fastapi import APIRouter, Response

from towpath_contracts import rpc
from towpath_contracts.base import Token
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.queues import ListQueues, PoolDemand, QueueList
from towpath_gateway.app.dependencies import Dependencies, RunsReader, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import OPERATE_PLATFORM

router = APIRouter(prefix="/v1", route_class=BoundedJsonRoute, tags=["queues"])


@router.get("/queues", response_model=QueueList, responses=documented(), summary="What waits in queues")
async def list_queues(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the queue of each toolset of the project; with the scope `platform:operate` the shared ones too."""
    request = ListQueues(project=principal.project, platform=OPERATE_PLATFORM in principal.scopes)
    return json_answer(await dependencies.platform.request(rpc.LIST_QUEUES, request, timeout_s=10.0))


@router.get(
    "/scaling/{pool}",
    response_model=PoolDemand,
    responses=documented("not_found", "unavailable"),
    summary="How much work a pool of workers has",
)
async def show_demand(pool: Token, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return how many calls of the toolset *pool* wait or run, for an autoscaler; 503 where the broker does not say.

    A call that runs counts: else whoever runs the last ones would be stopped as soon as nothing waits.
    """
    request = ListQueues(project=principal.project, toolset=pool)
    found: QueueList = await dependencies.platform.request(rpc.LIST_QUEUES, request, timeout_s=10.0)
    if not found.queues:
        detail = f"no worker has offered a tool of the toolset {pool}"
        raise ProblemError(problem("not_found", detail, remedy="List the toolsets: towpath queues list."))
    [queue] = found.queues
    if queue.missing:
        raise ProblemError(problem("unavailable", f"the broker says nothing of the queue of {pool}"))
    return json_answer(PoolDemand(pool=pool, value=queue.waits + queue.in_flight))
