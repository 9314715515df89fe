"""Retention of runs: chooses what goes, says so in the audit, and leaves the rest to the owners of the tables.

What is chosen is a row beside those of erasures and an entry of the log, in one transaction. From then on each owner
prunes its part in batches of its own, the run log first, and whoever dies leaves the rest to the next look of any
replica (`towpath_fabric.postgres.run_erasures`). So a run is never half there for longer than an owner is down.
"""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.retention import PrunedRuns, PruneRuns
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.core.call import key_detail
from towpath_tas.core.prune_rules import PruneRules, StoredRun, choose

QUERIES = Queries.load("towpath_tas.adapters", "pruning.sql")

FAMILIES_AT_ONCE = 500
"""Families that one request looks at."""

PRUNE_EVERY_S = 3_600.0
AGAIN_S = 60.0
"""Where something was pruned, there may be more."""

ACTOR = "retention"
_FIRST = UUID(int=0)


class RunPruning:
    """Answers requests to prune runs, or to count what would go."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def prune(self, request: PruneRuns) -> PrunedRuns:
        """Choose what goes of the next families; raises ProblemError while what was chosen before is not gone."""
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
            if request.dry_run or not choice.run_ids:
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

    async def _take_turn(self, connection: Any, project: str) -> None:
        free = await connection.fetchval(QUERIES.turn, project)
        if not free or await connection.fetchval(QUERIES.unfinished, project):
            raise ProblemError(problem("prune_under_way", f"runs of {project} are being pruned now"))


class RunRetention:
    """Prunes runs of every project that ended more than *keep_days* days ago, in batches; 0 keeps everything."""

    def __init__(self, pool: Any, log: Logger, *, keep_days: int) -> None:
        self._pool = pool
        self._pruning = RunPruning(pool)
        self._log = log
        self._keep_days = keep_days

    async def run(self) -> None:
        """Look for ever, about once an hour; sooner while there is something to prune."""
        while self._keep_days > 0:
            pruned = 0
            try:
                pruned = await self.prune_projects()
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("old runs were not pruned", error=str(error))
            await asyncio.sleep(AGAIN_S if pruned else PRUNE_EVERY_S)

    async def prune_projects(self) -> int:
        """Choose the next batch of each project; returns how many runs go."""
        pruned = 0
        for row in await self._pool.fetch(QUERIES.projects):
            pruned += await self._prune(row["project"])
        return pruned

    async def _prune(self, project: str) -> int:
        """Choose the next batch of one project: behind families that stay there may be some that go."""
        behind = None
        while True:
            request = PruneRuns(
                project=project,
                actor=ACTOR,
                older_than_days=self._keep_days,
                dry_run=False,
                behind=behind,
                reason=f"TOWPATH_RUN_KEEP_DAYS={self._keep_days}",
            )
            try:
                found = await self._pruning.prune(request)
            except ProblemError:
                return 0
            if found.runs:
                self._log.info("old runs are pruned", project=project, runs=found.runs, before=str(found.before))
            if found.runs or found.next_behind is None:
                return found.runs
            behind = found.next_behind
