"""Counts what projects store: the bytes of their runs' events, as they are written, and of their blobs.

A row of each project that every commit changed would be what all replicas wait for. So bytes are added up in memory,
and to the row every few seconds; a process that is killed loses what it has not added yet. Blobs have two writers and
say their sizes themselves: they are measured, and only where a project's quota limits what it stores.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.app.project_quotas import QUOTAS
from towpath_orchestrator.metrics import StorageMetrics

EVERY_S = 5.0
"""How late a limit of stored bytes may be noticed, for one statement of each replica."""

MEASURED_EVERY = 12
"""Every replica looks with every so many of these whether blobs are to be measured: once a minute."""

MEASURED_AGAIN_S = 50.0
"""Blobs that another replica measured within this time are left alone."""


class StoredBytesCounter:
    """What was stored since it was last added to the projects' rows. One per process."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    def add(self, project: str, texts: Iterable[str]) -> None:
        """Count texts of events that are committed."""
        self._waiting[project] += sum(len(text) if text.isascii() else len(text.encode()) for text in texts)

    def take(self) -> Counter[str]:
        """Return what was counted, and begin anew."""
        taken, self._waiting = self._waiting, Counter()
        return taken

    def put_back(self, taken: Counter[str]) -> None:
        """Count again what could not be stored."""
        self._waiting.update(taken)


class StoredBytesLoop:
    """Stores what the counter has, and tells what projects with a limit have stored. One per process."""

    def __init__(self, pool: Database, counter: StoredBytesCounter, metrics: StorageMetrics, log: Logger) -> None:
        self._pool = pool
        self._counter = counter
        self._metrics = metrics
        self._log = log

    async def run(self) -> None:
        """Store until the process stops; while the database is away the counter keeps what it has."""
        looks = 0
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                try:
                    await self.store()
                    if not looks % MEASURED_EVERY:
                        await self.measure()
                except DATABASE_DOWN as error:
                    self._log.debug("postgres is away, what is stored is counted later", error=str(error))
                looks += 1
        finally:
            await self._store_last()

    async def _store_last(self) -> None:
        """Store what the process has counted before its end, after the loops that end with this one."""
        await asyncio.sleep(0)
        try:
            await self.store()
        except DATABASE_DOWN as error:
            self._log.warning("postgres is away, what was stored last is not counted", error=str(error))

    async def store(self) -> None:
        """Add what was counted to the rows of its projects."""
        taken = self._counter.take()
        if not taken:
            return
        storing = asyncio.ensure_future(self._pool.execute(QUOTAS.add_stored, list(taken), list(taken.values())))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            # The statement may be done already, and only its answer be on the way: counted again it would count twice.
            # What it fails with is not raised in the place of the cancellation, and a second one doesn't end it.
            await asyncio.wait([storing])
            if storing.cancelled() or storing.exception() is not None:
                self._counter.put_back(taken)
            raise
        except DATABASE_DOWN:
            self._counter.put_back(taken)
            raise

    async def measure(self) -> None:
        """Measure the blobs of projects with a limit, one replica for all, and set the gauges of all of them."""
        due = [row["project"] for row in await self._pool.fetch(QUOTAS.claim_measures, MEASURED_AGAIN_S)]
        if due:
            await self._pool.execute(QUOTAS.measure_blobs, due)
        rows = await self._pool.fetch(QUOTAS.stored_of_limited)
        self._metrics.stored_bytes.clear()
        for row in rows:
            self._metrics.stored_bytes.labels(row["project"]).set(row["bytes"])
