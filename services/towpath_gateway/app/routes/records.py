"""Stored runs as material: replay them, take their record along, fork them from a step."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.forks import ForkOptions, ForkRun
from towpath_contracts.runs.records import GetRunRecord, ReplayPage, ReplayResult, ReplayRuns, RunRecordPiece
from towpath_contracts.tasks import RunAccepted
from towpath_gateway.app.dependencies import (
    Dependencies,
    RunsOperator,
    RunsWriter,
    documented,
    json_answer,
    require_scope,
)
from towpath_gateway.app.routes.runs.submission import IdempotencyKey, run_headers
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.headers import idempotency_key

router = APIRouter(prefix="/v1", route_class=BoundedJsonRoute, tags=["records"])

REPLAY_WAIT_S = 60.0
"""How long the replay of one run, or of one page, may take: replays take turns."""


@router.get("/replays", response_model=ReplayPage, responses=documented(), summary="Replay stored runs")
async def replay_runs(
    dependencies: Dependencies,
    principal: RunsOperator,
    network: Annotated[str | None, Query(max_length=128)] = None,
    since: Annotated[datetime | None, Query(description="Runs created since, with a zone")] = None,
    after: Annotated[UUID | None, Query(description="`next_after` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Replay a page of runs, oldest first; `results` holds those that are not identical."""
    if since is not None and since.tzinfo is None:
        raise ProblemError(problem("request_invalid", "since needs a zone, e.g. 2026-01-31T00:00:00Z"))
    request = ReplayRuns(project=principal.project, network=network, since=since, after=after, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.REPLAY_RUNS, request, timeout_s=REPLAY_WAIT_S))


@router.get(
    "/runs/{run_id}/replay",
    response_model=ReplayResult,
    responses=documented("run_not_found", "run_erased"),
    summary="Replay a run",
)
async def replay_run(run_id: UUID, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Feed the run's facts to the engine again and compare its events byte for byte; changes nothing."""
    request = ReplayRuns(project=principal.project, run_id=run_id)
    page: ReplayPage = await dependencies.platform.request(rpc.REPLAY_RUNS, request, timeout_s=REPLAY_WAIT_S)
    return json_answer(page.results[0])


@router.get(
    "/runs/{run_id}/record",
    response_model=RunRecordPiece,
    responses=documented("run_not_found", "run_erased"),
    summary="Take a run's record along",
)
async def get_record(
    run_id: UUID,
    dependencies: Dependencies,
    principal: RunsOperator,
    cursor: Annotated[str, Query(max_length=64, description="`next` of the piece before")] = "",
) -> Response:
    """Return the next piece of the record as JSON lines: its snapshot, facts and events, as they are stored."""
    request = GetRunRecord(project=principal.project, run_id=run_id, cursor=cursor)
    return json_answer(await dependencies.platform.request(rpc.RECORD, request))


@router.post(
    "/runs/{run_id}/fork",
    status_code=202,
    response_model=RunAccepted,
    responses=documented(
        "run_not_found", "run_erased", "fork_refused", "version_not_found", "script_not_allowed", "overloaded"
    ),
    summary="Fork a run from a step",
)
async def fork_run(
    run_id: UUID, options: ForkOptions, dependencies: Dependencies, principal: RunsWriter, key: IdempotencyKey = None
) -> Response:
    """Start a new run that shares what happened before the step; no call before it is made again."""
    require_scope(principal, "runs:read")  # it knows what the other run knew
    chosen = idempotency_key(key, options.idempotency_key)
    request = ForkRun(
        project=principal.project,
        run_id=run_id,
        caller=principal.caller,
        options=options.model_copy(update={"idempotency_key": chosen}),
        **principal.named(),
    )
    accepted: RunAccepted = await dependencies.platform.request(rpc.FORK_RUN, request, timeout_s=15.0)
    return json_answer(accepted, status=202, headers=run_headers(accepted.run_id, accepted.trace_id))
