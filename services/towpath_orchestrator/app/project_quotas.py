"""Keeps projects to their quotas, and answers `svc.orchestrator.set_quota` and `show_quota`.

A batch of tasks without any of a project with a quota costs no statement more. Where there are some, the rows of these
quotas are held from the count until the runs are committed, so that all replicas together accept no run too many.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from towpath_contracts.budgets import QUOTA_NAMES, QuotaStatus, SetQuota, ShowQuota
from towpath_contracts.facts import QuotaChangedFact
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.switches import OPERATOR
from towpath_fabric.ports import Database, DatabaseConnection, MessageBus
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.audited_actions import record_action
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.core.quota_limits import (
    IdempotencyKey,
    QuotaTask,
    busy_quota,
    project_use,
    quota_uses,
    refuse_above_quota,
)
from towpath_orchestrator.metrics import OrchestratorMetrics

QUOTAS = Queries.load("towpath_orchestrator.adapters", "quotas.sql")

LOCK_WAIT_MS = 1_000
"""So long tasks wait for their turn with a quota. A replica holds one for a few ms, unless it stands still."""


class ProjectQuotas:
    """Which projects have a quota, as last read, and what is accepted of them. One per process."""

    def __init__(
        self, pool: Database, bus: MessageBus, metrics: OrchestratorMetrics, local_facts: LocalFactQueue
    ) -> None:
        self._pool = pool
        self._local_facts = local_facts
        self._bus = bus
        self._metrics = metrics
        self._version = 0
        self._projects: frozenset[str] = frozenset()
        self._busy: frozenset[str] = frozenset()

    async def limited(self, connection: DatabaseConnection, projects: Iterable[str], version: int) -> list[str]:
        """Return those of *projects* that have a quota; *version* is that of the quotas as they are stored."""
        if version != self._version:
            rows = await connection.fetch(QUOTAS.projects)
            self._version = rows[0]["version"]
            self._projects = frozenset(row["project"] for row in rows if row["project"] is not None)
        return sorted(self._projects.intersection(projects))

    async def refusals(
        self, connection: DatabaseConnection, limited: Sequence[str], tasks: Sequence[QuotaTask], now: datetime
    ) -> list[Problem | None]:
        """Return for each task of a batch why it is refused; holds the quotas until the commit.

        Which keys are known is read where a task would be refused: as long as all have room, repeats take nobody's.
        """
        await self._hold(connection, limited)
        rows = await connection.fetch(QUOTAS.uses, limited, now)
        uses = {row["project"]: project_use(row) for row in rows}
        found = refuse_above_quota(tasks, uses, (), now)
        keys = [task.key for task in tasks if task.key is not None]
        if keys and any(found):
            asked = zip(*keys, strict=True)
            known = await connection.fetch(QUOTAS.known_keys, *map(list, asked))
            found = refuse_above_quota(tasks, uses, {IdempotencyKey(*row) for row in known}, now)
        self._metrics.quota_refusals.inc(sum(refusal is not None for refusal in found))
        return [
            busy_quota(task.project) if task.project in self._busy else why
            for task, why in zip(tasks, found, strict=True)
        ]

    async def _hold(self, connection: DatabaseConnection, limited: Sequence[str]) -> None:
        """Hold the quotas of *limited* until the commit, but for those that others hold for long: they are `_busy`.

        For those it is not waited again until they were found free once.
        """
        if self._busy.isdisjoint(limited):
            try:
                async with connection.transaction():
                    await connection.fetch(QUOTAS.lock, limited, str(LOCK_WAIT_MS))
            except asyncpg.LockNotAvailableError:
                pass
            else:
                return
        rows = await connection.fetch(QUOTAS.lock_free, limited)
        self._busy = self._busy.union(limited).difference(row["project"] for row in rows)

    async def count(
        self, connection: DatabaseConnection, limited: Sequence[str], begun: Iterable[str], now: datetime
    ) -> None:
        """Count the runs that have *begun* of the projects *limited*, each given by its project."""
        counts = Counter(project for project in begun if project in limited)
        if counts:
            await connection.fetch(QUOTAS.count_runs, list(counts), list(counts.values()), now)

    async def set(self, request: SetQuota) -> QuotaStatus:
        """Set the project's quota in place of the one before, or lift it; needs the role `operator`."""
        if OPERATOR not in request.roles:
            raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {OPERATOR}"))
        quota = request.quota
        limits: dict[str, Any] = {} if quota is None else quota.model_dump(mode="json", exclude_none=True)
        action = "quota.lifted" if quota is None else "quota.set"
        await record_action(self._bus, request, action, reason=request.reason, quota=limits)
        calls = None if quota is None else quota.tool_calls_per_minute
        async with self._pool.acquire() as connection, connection.transaction():
            before = await connection.fetchval(QUOTAS.calls_a_minute, request.project)
            await connection.execute(QUOTAS.raise_version)
            if quota is None:
                await connection.execute(QUOTAS.lift_quota, request.project)
            else:
                given = (getattr(quota, name) for name in QUOTA_NAMES)
                await connection.execute(QUOTAS.set_quota, request.project, *given, request.actor, request.reason)
        if quota is not None and quota.stored_bytes is not None:
            await self._pool.execute(QUOTAS.measure_blobs, [request.project])
        if before is not None and (calls is None or calls > before):
            await self._wake_postponed(request.project)
        return await self.show(ShowQuota(project=request.project))

    async def _wake_postponed(self, project: str) -> None:
        """Have the runs ask at once that were told a later minute; if the process dies before, they ask in that one."""
        for row in await self._pool.fetch(QUOTAS.postponed_runs, project):
            self._local_facts.add(QuotaChangedFact(run_id=row["run_id"]))

    async def show(self, request: ShowQuota) -> QuotaStatus:
        """Return the project's quota and what is used of it."""
        now = (await self._pool.fetchrow(QUERIES.now_and_budgets))["now"]
        row = await self._pool.fetchrow(QUOTAS.uses, [request.project], now)
        if row is None:
            return QuotaStatus(project=request.project)
        calls = await self._pool.fetchval(QUOTAS.calls_of_minute, request.project, now)
        use = project_use({**row, "tool_calls_per_minute_used": calls or 0})
        uses = tuple(quota_uses(use, QUOTA_NAMES, now))
        by = {name: row[name] for name in ("set_by", "set_at", "reason")}
        return QuotaStatus(project=request.project, uses=uses, **by)
