"""Retention of runs: chooses what goes, says so in the audit, and leaves the rest to the owners of the tables.

What is chosen is a row beside those of erasures and an entry of the log, in one transaction. From then on each owner
prunes its part in batches of its own, the run log first, and whoever dies leaves the rest to the next look of any
replica (`towpath_fabric.postgres.run_erasures`). So a run is never half there for longer than an owner is down.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import truncate
from towpath_contracts.tools.retention import MAX_REASON_CHARS, PrunedRuns, PruneRuns
from towpath_fabric.clock import wall
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


class RunRetention:
    """Prunes runs of every project that ended longer ago than *keep* says, in batches."""

    def __init__(self, pool: Any, log: Logger, metrics: TasMetrics, *, keep: RunKeepDays) -> None:
        self._pool = pool
        self._pruning = RunPruning(pool)
        self._log = log
        self._metrics = metrics
        self._keep = keep
        self._behind: dict[str, UUID] = {}
        self._under_way = False

    async def run(self) -> None:
        """Look for ever, about once an hour; sooner while there is something to prune. Ends where all is kept."""
        if not self._keep.shortest:
            return
        succeeded = self._metrics.housekept.labels("retention")
        succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
        while True:
            pruned = 0
            try:
                pruned = await self.prune_projects()
                if not self._under_way:
                    succeeded.set(wall().timestamp())
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("old runs were not pruned", error=str(error))
            await asyncio.sleep(AGAIN_S if pruned or self._under_way else PRUNE_EVERY_S)

    async def prune_projects(self) -> int:
        """Choose the next batch of each project; returns how many runs go."""
        pruned = 0
        self._under_way = False
        for row in await self._pool.fetch(QUERIES.projects):
            pruned += await self._prune(row["project"])
        return pruned

    async def _prune(self, project: str) -> int:
        """Choose the next batch of one project: behind families that stay there may be some that go.

        A look goes on behind the batch before, so that what is kept for longer is not read again for each batch.
        """
        while True:
            request = PruneRuns(
                project=project,
                actor=ACTOR,
                older_than_days=self._keep.shortest,
                dry_run=False,
                behind=self._behind.get(project),
                reason=_reason(self._keep),
            )
            try:
                found = await self._pruning.prune_by(request, self._keep)
            except ProblemError:
                self._under_way = True
                return 0
            self._behind.pop(project, None)
            if found.next_behind is not None:
                self._behind[project] = found.next_behind
            if found.runs:
                self._log.info("old runs are pruned", project=project, runs=found.runs, before=str(found.before))
            if found.runs or found.next_behind is None:
                return found.runs


def _reason(keep: RunKeepDays) -> str:
    """Return the settings by which runs go, as the audit has them; names of networks may be many."""
    said = {"": keep.days, "_BY_STATUS": dict(keep.by_status), "_BY_NETWORK": dict(keep.by_network)}
    texts = (f"TOWPATH_RUN_KEEP_DAYS{name}={json.dumps(value)}" for name, value in said.items() if value or not name)
    return truncate(" ".join(texts), MAX_REASON_CHARS)
