"""Keeping house: partitions ahead of time, pieces of blobs that were never completed.

Nothing here decides anything; a day on which it fails costs speed or space, never truth.
"""

import asyncio
from typing import Any

import asyncpg

from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES

EVERY_S = 3_600


class House:
    """Does the chores about once an hour."""

    def __init__(self, pool: Any, log: Logger) -> None:
        self._pool = pool
        self._log = log

    async def run(self) -> None:
        """Do the chores for ever."""
        while True:
            await self.once()
            await asyncio.sleep(EVERY_S)

    async def once(self) -> None:
        """Make partitions and drop what was left lying about."""
        for chore in (QUERIES.ensure_partitions, QUERIES.drop_old_pieces):
            try:
                await self._pool.execute(chore)
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("a chore was not done", error=str(error))
