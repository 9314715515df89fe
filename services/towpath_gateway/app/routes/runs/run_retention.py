"""Pruning old runs by hand: counted first, then chosen in batches, each of which the owners of tables carry out.

It needs the scope `platform:operate`: nothing that is pruned comes back, and nobody confirms it. The audit keeps who
did it.
"""

from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.tools.retention import MAX_KEEP_DAYS, MIN_KEEP_DAYS, EndedStatus, PrunedRuns, PruneRuns
from towpath_gateway.app.dependencies import Dependencies, PlatformOperator, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/runs/prune", route_class=BoundedJsonRoute, tags=["runs"])


class PruneRunsBody(ClientMessage):
    """Which runs: those that ended more than so many days ago, of some statuses or a network where these are named.

    With `dry_run`, as it is unless it is false, they are only counted. `behind` is `next_behind` of the answer before.
    """

    older_than_days: int = Field(ge=MIN_KEEP_DAYS, le=MAX_KEEP_DAYS)
    statuses: tuple[EndedStatus, ...] = ()
    network: str | None = Field(default=None, max_length=128)
    dry_run: bool = True
    behind: UUID | None = None
    reason: str = Field(default="", max_length=2_000)


@router.post("", response_model=PrunedRuns, responses=documented("prune_under_way"), summary="Prune old runs")
async def prune_runs(wanted: PruneRunsBody, dependencies: Dependencies, principal: PlatformOperator) -> Response:
    """Count the project's old runs, or have up to 5,000 pruned; each goes with the runs below it and its thread.

    What is chosen is carried out like an erasure, `erasure_id`, which says how far it is. While it is under way nothing
    more is chosen.
    """
    request = PruneRuns(
        project=principal.project,
        actor=principal.actor,
        key_prefix=principal.key_prefix or "",
        key_commitment=principal.key_commitment,
        **wanted.model_dump(),
    )
    return json_answer(await dependencies.platform.request(rpc.PRUNE_RUNS, request))
