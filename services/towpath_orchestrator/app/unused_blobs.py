"""Deletes blobs that nothing has named within a week: what was stored for a task that was refused, or a lost result.

A blob is stored before the transaction that names it, so that a log never names what is not there. Where that
transaction never comes, the blob is nobody's, and no erasure of a run would find it. Which blobs may go is decided in
Postgres (`runs.find_unused_blobs`); whoever uses one of them meanwhile keeps it.
"""

import asyncio
from collections.abc import Sequence

import asyncpg

from towpath_fabric.clock import wall
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.metrics import OrchestratorMetrics

QUERIES = Queries.load("towpath_orchestrator.adapters", "unused_blobs.sql")

LOOK_S = 3_600.0
"""The first look comes so long after the start, too: workers report first what they could not while all was down."""

FOUND_AT_ONCE = 50_000
"""In one transaction, which reads the logs once: who stores the same bytes may wait for its end. Then come the next."""

DELETED_AT_ONCE = 100
"""In one transaction: who stores the same bytes waits for it."""

FIND_TIMEOUT_S = 600.0
"""Of one look at what the runs of a project have written since the last one."""

FAILED = (*DATABASE_DOWN, asyncpg.PostgresError)


class UnusedBlobLoop:
    """Looks about once an hour; of a project about once a day, since its logs are read."""

    def __init__(self, pool: Database, metrics: OrchestratorMetrics, log: Logger) -> None:
        self._pool = pool
        self._log = log
        self._succeeded = metrics.housekept.labels("blobs")

    async def run(self) -> None:
        """Look for ever; a database that is away only delays it."""
        self._succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Delete what is unused, project by project; one that fails keeps none of the others from its turn."""
        failed = False
        try:
            due = [row["project"] for row in await self._pool.fetch(QUERIES.due_projects)]
        except FAILED as error:
            self._log.warning("unused blobs were not looked for", error=f"{type(error).__name__}: {error}")
            return
        for project in due:
            try:
                await self._clean(project)
            except FAILED as error:
                failed, reason = True, f"{type(error).__name__}: {error}"
                self._log.warning("unused blobs were not deleted", project=project, error=reason)
        if not failed:
            self._succeeded.set(wall().timestamp())

    async def _clean(self, project: str) -> None:
        looked_at = FOUND_AT_ONCE
        while looked_at >= FOUND_AT_ONCE:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(
                    f"SET LOCAL statement_timeout = '{FIND_TIMEOUT_S:.0f}s'"
                )  # the role's is shorter
                [found] = await connection.fetch(QUERIES.find, project, FOUND_AT_ONCE, timeout=FIND_TIMEOUT_S)
            await self._delete(project, found["unused"])
            looked_at = found["looked_at"]

    async def _delete(self, project: str, unused: Sequence[str]) -> None:
        blobs = size = 0
        for first in range(0, len(unused), DELETED_AT_ONCE):
            [gone] = await self._pool.fetch(QUERIES.delete, project, unused[first : first + DELETED_AT_ONCE])
            blobs, size = blobs + gone["blobs"], size + gone["bytes"]
        if blobs:
            self._log.info("unused blobs were deleted", project=project, blobs=blobs, bytes=size)
