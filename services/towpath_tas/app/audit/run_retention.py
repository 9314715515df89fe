"""Retention of runs: chooses what goes, says so in the audit, and leaves the rest to the owners of the tables.

What is chosen is a row beside those of erasures and an entry of the log, in one transaction. From then on each owner
prunes its part in batches of its own, the run log first, and whoever dies leaves the rest to the next look of any
replica (`towpath_fabric.postgres.run_erasures`). So a run is never half there for longer than an owner is down.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import truncate
from towpath_contracts.tools.retention import MAX_REASON_CHARS, PrunedRuns, PruneRuns
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.core.call import key_detail
from towpath_tas.core.prune_rules import PruneRules, RunKeepDays, StoredRun, choose
from towpath_tas.metrics import TasMetrics

QUERIES = Queries.load("towpath_tas.adapters", "pruning.sql")

FAMILIES_AT_ONCE = 500
"""Families that one request looks at."""

MAX_MEASURED_RUNS = 100
"""Of the runs of one dry run: others count as much as these do on average."""

PRUNE_EVERY_S = 3_600.0

PASS_EVERY_S = 86_400.0
"""From the begin of one pass over a project to that of the next: periods are days, and a pass reads all that is kept
for longer."""

AGAIN_S = 60.0
"""Where something was pruned, there may be more of the same pass."""

STANDS_STILL_S = 7_200.0
"""A batch that is not gone by then stands still; one of which blobs wait takes an hour."""

TELL_S = 3_600.0

RETENTION_FAILED = (*DATABASE_DOWN, asyncpg.PostgresError)

ACTOR = "retention"
PARTS = ("runs", "blobs", "history", "tas")
_FIRST = UUID(int=0)


class RunPruning:
    """Answers requests to prune runs, or to count what would go."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def prune(self, request: PruneRuns) -> PrunedRuns:
        """Choose what goes of the next families; raises ProblemError while what was chosen before is not gone."""
        return await self.prune_by(request, None)

    async def prune_by(self, request: PruneRuns, keep: RunKeepDays | None) -> PrunedRuns:
        """Do the same, and with *keep* by periods of the families' own."""
        async with self._pool.acquire() as connection, connection.transaction():
            if not request.dry_run:
                await self._take_turn(connection, request.project)
            now = await connection.fetchval(QUERIES.now)
            before = now - timedelta(days=request.older_than_days)
            rules = PruneRules(
                project=request.project,
                before=before,
                network=request.network,
                statuses=frozenset(map(str, request.statuses)),
                keep=keep,
                now=now,
            )
            rows = await connection.fetch(
                QUERIES.oldest_families, request.project, before, request.behind or _FIRST, FAMILIES_AT_ONCE
            )
            runs = [StoredRun(**dict(row)) for row in rows]
            choice = choose(runs, rules)
            looked_at = len({run.family for run in runs})
            more = looked_at == FAMILIES_AT_ONCE or bool(runs and runs[-1].family != choice.last)
            answer = PrunedRuns(
                before=before,
                runs=len(choice.run_ids),
                families=choice.families,
                kept=choice.kept,
                next_behind=choice.last if more else None,
            )
            if request.dry_run:
                return answer.model_copy(update={"bytes": await self._bytes_of(connection, choice.run_ids)})
            if not choice.run_ids:
                return answer
            erasure_id = new_run_id()
            await connection.execute(
                QUERIES.add,
                *(erasure_id, request.project, before, request.reason, request.actor, now, list(choice.run_ids)),
            )
            detail = {
                "erasure_id": str(erasure_id),
                "kind": "prune",
                "what": {"before": before.isoformat()},
                "reason": request.reason,
                "runs": [str(run_id) for run_id in choice.run_ids],
                **key_detail(request.key_prefix, request.key_commitment),
            }
            entry = platform_audit_row(
                request.project, "audit.pruned", "pruned", actor=request.actor, run_id=None, detail=detail
            )
            await connection.execute(LEDGER.add_audit, [entry])
            return answer.model_copy(update={"erasure_id": erasure_id})

    async def _bytes_of(self, connection: Any, run_ids: Sequence[UUID]) -> int:
        """Return about how many bytes go with runs: what some of them have, which are spread over all."""
        measured = run_ids[:: -(-len(run_ids) // MAX_MEASURED_RUNS) or 1]
        if not measured:
            return 0
        found: int = await connection.fetchval(QUERIES.stored_bytes, list(measured))
        return found * len(run_ids) // len(measured)

    async def _take_turn(self, connection: Any, project: str) -> None:
        free = await connection.fetchval(QUERIES.turn, project)
        if not free or await connection.fetchval(QUERIES.unfinished, project):
            raise ProblemError(problem("prune_under_way", f"runs of {project} are being pruned now"))


@dataclass(slots=True)
class _Pass:
    """How far the pass over a project is, when it goes on, and when the one after it begins."""

    due_s: float
    behind: UUID | None = None
    next_s: float = 0.0


class RunRetention:
    """Prunes runs of every project that ended longer ago than *keep* says, in batches.

    A pass looks at all families of a project that are old enough for some period, most of which others may keep: so one
    begins once a day.
    """

    def __init__(self, pool: Any, log: Logger, metrics: TasMetrics, *, keep: RunKeepDays) -> None:
        self._pool = pool
        self._pruning = RunPruning(pool)
        self._log = log
        self._metrics = metrics
        self._keep = keep
        self._passes: dict[str, _Pass] = {}
        self._told: dict[UUID, float] = {}
        self._has_told_periods = False
        """Whether periods that may be misspelt were told."""

    async def run(self) -> None:
        """Look for ever, about once an hour; sooner while a pass goes on. Ends where all is kept."""
        if not self._keep.shortest:
            return
        succeeded = self._metrics.housekept.labels("retention")
        succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
        while True:
            if await self.look():
                succeeded.set(wall().timestamp())
            goes_on = any(one.due_s <= monotonic() for one in self._passes.values())
            await asyncio.sleep(AGAIN_S if goes_on else PRUNE_EVERY_S)

    async def look(self) -> bool:
        """Choose what goes now; returns whether nothing fails or stands still."""
        try:
            failed = await self._prune_projects()
            return not await self._tell_what_stands_still() and not failed
        except RETENTION_FAILED as error:
            self._log.warning("old runs were not pruned", error=f"{type(error).__name__}: {error}")
            return False

    async def _prune_projects(self) -> bool:
        """Choose the next batch of each project whose pass is due; returns whether one failed, which waits an hour."""
        failed = False
        found = {row["project"] for row in await self._pool.fetch(QUERIES.projects)}
        self._passes = {project: self._passes.get(project) or _Pass(monotonic()) for project in sorted(found)}
        if not self._has_told_periods and (strange := self._keep.of_no_project(found)):
            said = (
                "periods are set for networks of projects without runs: they hold for networks of that whole name alone"
            )
            self._log.warning(said, networks=strange)
        self._has_told_periods = True
        for project, one in self._passes.items():
            if one.due_s > monotonic():
                continue
            try:
                await self._prune(project, one)
            except RETENTION_FAILED as error:
                failed, one.due_s = True, monotonic() + PRUNE_EVERY_S
                reason = f"{type(error).__name__}: {error}"
                self._log.warning("old runs were not pruned", project=project, error=reason)
        return failed

    async def _prune(self, project: str, now: _Pass) -> None:
        """Choose the next batch of one project: behind families that stay there may be some that go.

        A look goes on behind the batch before, so that what is kept for longer is not read again for each batch.
        """
        keep = self._keep.of_project(project, self._passes)
        if now.behind is None:
            now.next_s = monotonic() + PASS_EVERY_S
        while keep.shortest:
            request = PruneRuns(
                project=project,
                actor=ACTOR,
                older_than_days=keep.shortest,
                dry_run=False,
                behind=now.behind,
                reason=_reason(keep),
            )
            try:
                found = await self._pruning.prune_by(request, keep)
            except ProblemError:
                return
            now.behind = found.next_behind
            if found.runs:
                self._log.info("old runs are pruned", project=project, runs=found.runs, before=str(found.before))
            if now.behind is None:
                break
            if found.runs:
                return
        now.due_s = now.next_s

    async def _tell_what_stands_still(self) -> bool:
        """Log which prunings are not carried out, each once an hour; returns whether there are any."""
        rows = await self._pool.fetch(QUERIES.standing_still, timedelta(seconds=STANDS_STILL_S))
        for row in rows:
            if self._told.get(row["erasure_id"], -TELL_S) > monotonic() - TELL_S:
                continue
            self._log.warning(
                "runs that were chosen to be pruned are not gone; their project is not pruned meanwhile",
                project=row["project"],
                erasure_id=str(row["erasure_id"]),
                since=str(row["requested_at"]),
                missing=[part for part in PARTS if part not in row["parts"]],
            )
            self._told[row["erasure_id"]] = monotonic()
        self._told = {row["erasure_id"]: self._told[row["erasure_id"]] for row in rows}
        return bool(rows)


def _reason(keep: RunKeepDays) -> str:
    """Return the settings by which runs go, as the audit has them; names of networks may be many."""
    said = {"": keep.days, "_BY_STATUS": dict(keep.by_status), "_BY_NETWORK": dict(keep.by_network)}
    texts = (f"TOWPATH_RUN_KEEP_DAYS{name}={json.dumps(value)}" for name, value in said.items() if value or not name)
    return truncate(" ".join(texts), MAX_REASON_CHARS)
