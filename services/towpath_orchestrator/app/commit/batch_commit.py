"""Commits the transitions of a batch in one statement; runs that can't be committed don't hold up the others.

A value that Postgres can't store is raised for the whole batch, also where it can't even be written down for it: the
commit loop weighs the facts of the batch then, since the one at fault may be any of its run's.
"""

import time
from datetime import datetime
from uuid import UUID

import asyncpg

from towpath_fabric.crash_points import crash_point
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import VALUE_REFUSED
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.budget_store import BudgetBatchResult
from towpath_orchestrator.adapters.run_store import commit_batch
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.commit.workspace_texts import WorkspaceTextStore
from towpath_orchestrator.core.transitions import Transition
from towpath_orchestrator.metrics import OrchestratorMetrics


class BatchCommitter:
    """Commits batches on one connection. One per process."""

    def __init__(
        self,
        lane: PinnedDatabaseConnection,
        accounting: BudgetAccounting,
        texts: WorkspaceTextStore,
        metrics: OrchestratorMetrics,
        log: Logger,
    ) -> None:
        self._lane = lane
        self._accounting = accounting
        self._texts = texts
        self._metrics = metrics
        self._log = log
        self._errors: dict[UUID, str] = {}

    async def commit(self, batch: list[Transition], now: datetime) -> BudgetBatchResult:
        """Commit a batch; accounts are opened and texts stored before the statement that names them.

        Raises what VALUE_REFUSED lists where a value of the batch can't be stored.
        """
        started = time.perf_counter()
        await self._accounting.open_accounts(self._lane, batch)
        await self._texts.store(batch)
        crash_point("orchestrator.before_commit")
        result = await self._commit_rows(batch, now)
        crash_point("orchestrator.committed")
        self._metrics.commit_seconds.observe(time.perf_counter() - started)
        self._metrics.batch.observe(len(batch))
        return result

    def take_error(self, run_id: UUID) -> str | None:
        """Return why Postgres refused the last transition of a run, once; None where another replica moved it."""
        return self._errors.pop(run_id, None)

    async def _commit_rows(self, batch: list[Transition], now: datetime) -> BudgetBatchResult:
        """Commit a batch; where Postgres refuses it each run is committed alone: only the one at fault stays back."""
        try:
            return await commit_batch(self._lane, batch, now, self._accounting.version)
        except (ValueError, OverflowError, RecursionError) as error:
            raise asyncpg.DataError(f"no row: {error}") from error
        except asyncpg.PostgresError as error:
            if isinstance(error, (*DATABASE_DOWN, *VALUE_REFUSED)):
                raise
            if len(batch) == 1:
                run_id = batch[0].state.run_id
                self._log.error("postgres refuses a transition", run_id=str(run_id), error=str(error))
                self._errors[run_id] = f"{type(error).__name__}: {error}"
                return BudgetBatchResult()
        result = BudgetBatchResult()
        for transition in batch:
            result.add(await self._commit_rows([transition], now))
        return result
