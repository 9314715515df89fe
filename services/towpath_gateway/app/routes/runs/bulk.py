"""Many runs at once: first which a filter gives, with nothing changed, then exactly those that are named.

Each run is cancelled, retried or labelled by the same request as one alone, audited as that, and refused for itself.
So what began to match in between is never touched, and nothing is undone because another run was refused.
"""

import asyncio
from collections import Counter
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field, model_validator

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.bulk import (
    MAX_AT_ONCE,
    MAX_LABELS,
    MAX_SELECTED,
    BulkAction,
    BulkDone,
    BulkResult,
    BulkSelection,
    LabelKey,
    LabelRun,
    Labels,
    RunFilter,
)
from towpath_contracts.runs.forks import ForkOptions, ForkRun
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import CancelRun, ListRuns, RunPage, RunView
from towpath_contracts.tasks import RunAccepted
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    RunsReader,
    RunsWriter,
    documented,
    json_answer,
    require_scope,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal

router = APIRouter(prefix="/v1/runs/bulk", route_class=BoundedJsonRoute, tags=["runs"])

PAGE = 200
MAX_LOOKED_AT = 5_000
"""Runs that are looked at for one selection: where few of many fit, it is not whole."""

MAX_PAGES = 50
"""Requests for one selection: pages are empty where the newest 10,000 runs have none that fits."""

AT_ONCE = 8
ACT_WAIT_S = 15.0


class SelectRunsBody(ClientMessage):
    """What is to be done, and to which runs."""

    action: BulkAction
    filter: RunFilter = RunFilter()


class BulkRunsBody(ClientMessage):
    """What is to be done to these runs. A retry with a `key` that was used before begins nothing anew."""

    action: Annotated[str, Field(pattern=r"^(cancel|retry|label)$")]
    run_ids: tuple[UUID, ...] = Field(min_length=1, max_length=MAX_AT_ONCE)
    reason: str = Field(default="", max_length=2_000)
    labels: Labels = Field(default_factory=dict)
    remove: tuple[LabelKey, ...] = Field(default=(), max_length=MAX_LABELS)
    key: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")] | None = None

    @model_validator(mode="after")
    def _labels_are_named(self) -> "BulkRunsBody":
        if (self.action == "label") != bool(self.labels or self.remove):
            msg = "labels, or names of labels to remove, go with the action label, and with no other"
            raise ValueError(msg)
        return self


def is_possible(action: BulkAction, run: RunView) -> bool:
    """Say whether *action* is possible for *run*: what goes on is cancelled, what ended without success is retried."""
    if run.erased_at is not None:
        return False
    if action == "cancel":
        return run.status not in FINAL_STATUSES and run.status != "cancelling"
    if action == "retry":
        return run.status in FINAL_STATUSES and run.status != "completed"
    return True


@router.post("/select", response_model=BulkSelection, responses=documented(), summary="Count runs for a bulk action")
async def select_runs(wanted: SelectRunsBody, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the runs that *filter* gives and *action* is possible for, at most 500; nothing is changed."""
    given = wanted.filter
    depth = 0 if given.parent_run_id is None and given.root_run_id is None else None
    found: list[RunView] = []
    looked_at, before, whole = 0, None, True
    for number in range(1, MAX_PAGES + 1):
        request = ListRuns(project=principal.project, depth=depth, before=before, limit=PAGE, **given.model_dump())
        page: RunPage = await dependencies.platform.request(rpc.LIST_RUNS, request)
        fitting = [run for run in page.runs if is_possible(wanted.action, run)]
        looked_at += len(page.runs)
        whole = len(found) + len(fitting) <= MAX_SELECTED
        found += fitting[: MAX_SELECTED - len(found)]
        before = page.next_before
        if before is None or not whole:
            break
        if looked_at >= MAX_LOOKED_AT or number == MAX_PAGES or len(found) == MAX_SELECTED:
            whole = False
            break
    selection = BulkSelection(
        action=wanted.action,
        count=len(found),
        whole=whole,
        by_status=dict(sorted(Counter(run.status for run in found).items())),
        run_ids=tuple(run.run_id for run in found),
    )
    return json_answer(selection)


@router.post("", response_model=BulkDone, responses=documented(), summary="Cancel, retry or label runs")
async def act_on_runs(wanted: BulkRunsBody, dependencies: Dependencies, principal: RunsWriter) -> Response:
    """Do it to each of these runs, a few at a time, and say what became of each.

    A retry is a new run of the same task and network version, forked from the first step with a budget of its own.
    """
    if wanted.action == "retry":
        require_scope(principal, "runs:read")  # it knows what the other run knew
    room = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: UUID) -> BulkResult:
        async with room:
            try:
                return await _act(dependencies, principal, wanted, run_id)
            except ProblemError as error:
                return BulkResult(run_id=run_id, code=error.problem.code, detail=error.problem.detail or "")

    results = await asyncio.gather(*map(one, dict.fromkeys(wanted.run_ids)))
    action: BulkAction = wanted.action  # type: ignore[assignment]  # the pattern of the field allows no other
    return json_answer(BulkDone(action=action, done=sum(not one.code for one in results), results=tuple(results)))


async def _act(
    dependencies: GatewayDependencies, principal: Principal, wanted: BulkRunsBody, run_id: UUID
) -> BulkResult:
    place = {"project": principal.project, "run_id": run_id, **principal.named()}
    if wanted.action == "cancel":
        await dependencies.platform.request(rpc.CANCEL_RUN, CancelRun(**place, reason=wanted.reason), ACT_WAIT_S)
        return BulkResult(run_id=run_id)
    if wanted.action == "label":
        labelling = LabelRun(**place, labels=wanted.labels, remove=wanted.remove, reason=wanted.reason)
        await dependencies.platform.request(rpc.LABEL_RUN, labelling, ACT_WAIT_S)
        return BulkResult(run_id=run_id)
    key = None if wanted.key is None else f"retry:{wanted.key}:{run_id}"
    options = ForkOptions(from_step=1, note=wanted.reason, fresh_budget=True, idempotency_key=key)
    accepted: RunAccepted = await dependencies.platform.request(
        rpc.FORK_RUN, ForkRun(**place, caller=principal.caller, options=options), ACT_WAIT_S
    )
    return BulkResult(run_id=run_id, new_run_id=accepted.run_id)
