"""Queues: what waits for workers and for the platform's own services, and whether anybody takes it.

A credential sees the queues of its own project's toolsets. Those that all projects share are shown to whoever operates
the platform.
"""

from fastapi import APIRouter, Response

from towpath_contracts import rpc
from towpath_contracts.tools.queues import ListQueues, QueueList
from towpath_gateway.app.dependencies import Dependencies, RunsReader, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import OPERATE_PLATFORM

router = APIRouter(prefix="/v1/queues", route_class=BoundedJsonRoute, tags=["queues"])


@router.get("", response_model=QueueList, responses=documented(), summary="What waits in queues")
async def list_queues(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the queue of each toolset of the project; with the scope `platform:operate` the shared ones too."""
    request = ListQueues(project=principal.project, platform=OPERATE_PLATFORM in principal.scopes)
    return json_answer(await dependencies.platform.request(rpc.LIST_QUEUES, request, timeout_s=10.0))
