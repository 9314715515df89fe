"""The only timer of the platform: overdue runs get a `timer.fired`, queued runs are admitted.

It claims what is overdue, so that replicas share the work; the engine decides what that means.
"""

import asyncio

import asyncpg

from towpath_contracts.facts import TimerFiredFact
from towpath_fabric import dead_letters
from towpath_fabric.clock import wall
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.budget_store import BUDGETS
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.admission import AdmissionController
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.run_activity import RunActivity
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings

CLAIM_LIMIT = 256
"""Overdue runs claimed at a time; the next look is 250 ms later."""

CLEAN_UP_S = 600

CLEAN_UP = (
    QUERIES.ensure_partitions,
    QUERIES.drop_empty_partitions,
    QUERIES.forget_old_keys,
    QUERIES.forget_failures,
    dead_letters.QUERIES.forget_letters,
    BUDGETS.forget_past_days,
)
"""What makes partitions ahead of time, drops emptied ones, and forgets old keys, dead letters and accounts of days."""


class Reconciler:
    """Looks every `reconcile_ms` while there are unfinished runs, else less often, and once at start."""

    def __init__(
        self,
        pool: Database,
        local_facts: LocalFactQueue,
        admission: AdmissionController,
        settings: OrchestratorSettings,
        log: Logger,
        limits: BudgetLimitCache,
        activity: RunActivity,
        metrics: OrchestratorMetrics,
    ) -> None:
        self._pool = pool
        self._local_facts = local_facts
        self._admission = admission
        self._settings = settings
        self._log = log
        self._limits = limits
        self._activity = activity
        self._metrics = metrics

    async def run(self) -> None:
        """Look for ever; a database that is away only delays the next look."""
        while True:
            try:
                await self.look()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, nothing is overdue meanwhile", error=str(error))
            await self._activity.pause(self._settings.reconcile_ms / 1000)

    async def look(self) -> None:
        """Claim overdue runs and admit queued ones."""
        for row in await self._pool.fetch(QUERIES.claim_overdue, CLAIM_LIMIT):
            crash_point("orchestrator.overdue_claimed")
            self._local_facts.add(TimerFiredFact(run_id=row["run_id"]))
        await self._limits.use_version(await self._admission.admit())

    async def clean_up(self) -> None:
        """Execute CLEAN_UP for ever; one statement that fails keeps none of the others from it."""
        succeeded = self._metrics.housekept.labels("runs")
        succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
        while True:
            failed = False
            for statement in CLEAN_UP:
                try:
                    await self._pool.execute(statement)
                except DATABASE_DOWN as error:
                    failed = True
                    self._log.debug("postgres is away, old rows are removed later", error=str(error))
                except asyncpg.PostgresError as error:
                    # Runs go on without it for months; each replica would end at each start.
                    failed = True
                    self._log.error("a housekeeping statement failed", error=str(error))
            if not failed:
                succeeded.set(wall().timestamp())
            await asyncio.sleep(CLEAN_UP_S)
