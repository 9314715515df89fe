"""Replays many stored runs, page by page: the regression gate of a new version.

Read only. Pages are bounded in runs, bytes and time: an answer fits one message, and no hot loop waits long.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.records import GetRunRecord, ReplayPage, ReplayResult, ReplayRuns, RunRecordPiece
from towpath_engine import ENGINE_VERSION
from towpath_fabric.clock import monotonic
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.app.api.run_export import QUERIES, DatabaseRecord
from towpath_orchestrator.core.replay_check import ReplayCheck

MOST_WAITING = 8
MOST_OF_PROJECT = 4
"""Replays that wait for their turn, in all and of one project."""

WAIT_S = 60.0
"""How long a replay waits for its turn: the gateway waits as long for its answer."""

RETRY_AFTER_S = 5

LOOKED_AT = 10_000
"""Runs that a page is chosen from: a filter that hardly any run passes is looked for so many at a time."""

ID_TIME_SLACK = timedelta(days=1)
"""How far the time in the id of a run may be from when it was created: ids are made by the clocks of processes."""

PAGE_BYTES = 400_000
"""A page ends with the run whose result goes beyond this; one result has some 50 KB, and a message may have 1 MiB."""


class ReplayRequests:
    """Answers `svc.orchestrator.replay_runs` and `svc.orchestrator.record`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._waiting: Counter[str] = Counter()
        # Replays take the processor from live runs: one at a time, in turns of projects.
        self._turns = WorkTurns(1, lambda _: 1, WAIT_S)

    async def record(self, request: GetRunRecord) -> RunRecordPiece:
        """Return the next piece of a run's record."""
        record = await DatabaseRecord.open(self._pool, request.run_id, request.project)
        return await record.piece(request.cursor)

    async def replay(self, request: ReplayRuns) -> ReplayPage:
        """Replay one run, or the next page of many; raises ProblemError.

        `run_not_found` for one that is not there, `overloaded` where too many replays wait for their turn.
        """
        project = request.project
        if self._waiting.total() >= MOST_WAITING or self._waiting[project] >= MOST_OF_PROJECT:
            detail = f"{self._waiting.total()} replays wait already, {self._waiting[project]} of this project"
            raise ProblemError(problem("overloaded", detail, retry_after_s=RETRY_AFTER_S))
        self._waiting[project] += 1
        try:
            async with self._turns.held(project):
                return await self._replay(request)
        finally:
            self._waiting[project] -= 1
            if not self._waiting[project]:
                del self._waiting[project]

    async def _replay(self, request: ReplayRuns) -> ReplayPage:
        if request.run_id is not None:
            record = await DatabaseRecord.open(self._pool, request.run_id, request.project or None)
            return _page([await ReplayCheck(record).run()], always=True)
        return await self._many(request)

    async def runs_to_replay(self, request: ReplayRuns) -> list[Any]:
        """Return the runs of a page, and behind them the last one that was looked at if there may be more."""
        filters = (request.project or None, request.network, request.since, request.after, request.limit)
        statement = QUERIES.runs_of_project_to_replay if request.project else QUERIES.runs_to_replay
        return list(await self._pool.fetch(statement, *filters, _first_id(request.since), LOOKED_AT))

    async def _many(self, request: ReplayRuns) -> ReplayPage:
        until = monotonic() + request.budget_ms / 1_000
        found = await self.runs_to_replay(request)
        wanted = [row["run_id"] for row in found if row["wanted"]]
        results: list[ReplayResult] = []
        size, last = 0, None
        for last in wanted:
            result = await self._one(last)
            if result is not None:
                results.append(result)
                size += 0 if result.verdict == "identical" else len(result.model_dump_json().encode())
            if monotonic() > until or size > PAGE_BYTES:
                break
        if wanted and (last != wanted[-1] or len(wanted) == request.limit):
            return _page(results, next_after=last)
        return _page(results, next_after=None if len(found) == len(wanted) else found[-1]["run_id"])

    async def _one(self, run_id: UUID) -> ReplayResult | None:
        """Replay one run of a page; None where it was deleted or erased since the page was begun."""
        try:
            record = await DatabaseRecord.open(self._pool, run_id, None)
        except ProblemError as error:
            if error.problem.code not in {"run_not_found", "run_erased"}:
                raise
            return None
        return await ReplayCheck(record).run()


def _first_id(since: datetime | None) -> UUID:
    """Return an id that is before those of all runs created *since*: a UUIDv7 begins with its milliseconds."""
    milliseconds = 0 if since is None else int((since.timestamp() - ID_TIME_SLACK.total_seconds()) * 1_000)
    return UUID(int=min(max(0, milliseconds), (1 << 48) - 1) << 80)


def _page(results: list[ReplayResult], *, always: bool = False, **more: Any) -> ReplayPage:
    shown = [result for result in results if always or result.verdict != "identical"]
    return ReplayPage(
        engine_version=ENGINE_VERSION,
        runs=len(results),
        events=sum(result.events for result in results),
        identical=sum(result.verdict == "identical" for result in results),
        results=tuple(shown),
        **more,
    )
