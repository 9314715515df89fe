"""Retention of the audit: segments that are old enough go as a whole.

A segment ends at a checkpoint, and the checkpoint stays: from it the rest of the tree is proved as before. What
was dropped stands in the log itself.
"""

import asyncio
from typing import Any

import asyncpg

from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.app.audit.sealer import QUERIES

EVERY_S = 3_600
AT_ONCE = 50_000
"""Leaves dropped in one transaction."""


class Retention:
    """Drops segments older than *keep_days* days about once an hour; 0 keeps everything."""

    def __init__(self, pool: Any, log: Logger, *, keep_days: int) -> None:
        self._pool = pool
        self._log = log
        self._keep_days = keep_days

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.drop()
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("old segments of the audit were not dropped", error=str(error))

    async def drop(self) -> int:
        """Drop what is old enough, and return how many leaves went."""
        dropped = 0
        while self._keep_days > 0:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(QUERIES.seal_lock)  # nobody seals, exports or drops meanwhile
                cut = await connection.fetchval(QUERIES.droppable, self._keep_days, AT_ONCE)
                if cut is None:
                    break
                gone = await connection.fetchval(QUERIES.drop_segments, cut, "retention")
            dropped += gone
            self._log.info("dropped old segments of the audit", before_leaf=cut, leaves=gone)
        return dropped
