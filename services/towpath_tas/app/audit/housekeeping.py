"""Hourly housekeeping: partitions ahead of time, unfinished uploads, old segments of the audit.

Nothing here decides about a call: an hour in which a task fails costs speed or space and is made up for by the next.
A segment of the audit ends at a checkpoint, and the checkpoint stays, so the rest of the tree is proved as before. The
log itself records what was dropped.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import asyncpg

from towpath_contracts.tools.retention import GetRetention, TasRetention
from towpath_fabric.clock import wall
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.app.audit.sealer import QUERIES as AUDIT
from towpath_tas.core.seal_times import MAX_CLOCK_DIFFERENCE, clock_problem
from towpath_tas.metrics import TasMetrics

INTERVAL_S = 3_600
MAX_DROPPED_LEAVES = 50_000
"""Leaves dropped in one transaction: sealing waits for it."""


class DatabaseMaintenance:
    """Creates partitions and deletes unfinished uploads, about once an hour."""

    def __init__(self, pool: Any, log: Logger, metrics: TasMetrics) -> None:
        self._pool = pool
        self._log = log
        self._succeeded = metrics.housekept.labels("calls")

    async def run(self) -> None:
        self._succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
        while True:
            await self.run_once()
            await asyncio.sleep(INTERVAL_S)

    async def run_once(self) -> None:
        failed = False
        for statement in (LEDGER.ensure_partitions, LEDGER.drop_old_pieces):
            try:
                await self._pool.execute(statement)
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                failed = True
                self._log.warning("a housekeeping statement failed", error=str(error))
        if not failed:
            self._succeeded.set(wall().timestamp())


class RetentionQueries:
    """Answers for how long this replica keeps the audit: *found*, which is fixed at the start like every setting."""

    def __init__(self, found: TasRetention) -> None:
        self._found = found

    async def get(self, request: GetRetention) -> TasRetention:
        """Return the period and where it came from; it is of no project."""
        del request
        return self._found


class AuditRetention:
    """Drops segments older than *keep_days* days, about once an hour; 0 keeps everything.

    Postgres tells how old they are, so nothing is dropped while its clock is not this replica's.
    """

    def __init__(
        self, pool: Any, log: Logger, metrics: TasMetrics, *, keep_days: int, clock: Callable[[], datetime] = wall
    ) -> None:
        self._clock = clock
        self._succeeded = metrics.housekept.labels("audit")
        self._pool = pool
        self._log = log
        self._keep_days = keep_days

    async def run(self) -> None:
        self._succeeded.set(self._clock().timestamp())
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.drop_old_segments()
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("old segments of the audit were not dropped", error=str(error))

    async def drop_old_segments(self) -> int:
        """Drop what is old enough, and return how many leaves were dropped."""
        dropped = 0
        while self._keep_days > 0:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(AUDIT.seal_lock)  # no sealing, export or other drop meanwhile
                wrong = clock_problem(self._clock(), await connection.fetchval(AUDIT.now))
                if wrong is not None:
                    self._log.error("old segments of the audit were not dropped", problem=wrong)
                    return dropped
                cut = await connection.fetchval(
                    AUDIT.droppable, self._keep_days, MAX_DROPPED_LEAVES, MAX_CLOCK_DIFFERENCE
                )
                if cut is None:
                    break
                leaves = await connection.fetchval(AUDIT.drop_segments, cut, "retention")
            dropped += leaves
            self._log.info("dropped old segments of the audit", before_leaf=cut, leaves=leaves)
        self._succeeded.set(self._clock().timestamp())
        return dropped
