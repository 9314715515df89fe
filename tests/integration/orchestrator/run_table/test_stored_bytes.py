"""What projects store is counted once; blobs of those with a limit by one replica for all, from an index."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl

from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.telemetry.logs import get_logger
from towpath_orchestrator.app.stored_bytes import StoredBytesCounter, StoredBytesLoop
from towpath_orchestrator.metrics import StorageMetrics

QUOTA = "INSERT INTO runs.project_quota (project, stored_bytes, set_by, set_at) VALUES ($1, $2, 'ann', now())"
BLOBS = (
    "INSERT INTO runs.blob (project, digest, data, size)"
    " SELECT $1, 'sha256:' || n, convert_to(repeat('x', 500), 'UTF8'), 500 FROM generate_series(1, $2::int) AS n"
)
MEASURED = "SELECT blob_bytes FROM runs.project_storage WHERE project = $1"
LATER = "UPDATE runs.project_storage SET measured_at = measured_at - interval '1 minute'"
PLAN = "EXPLAIN SELECT sum(b.size) FROM runs.blob b WHERE b.project = 'shop'"


class Replica:
    """What counts in one process, with the gauge that it shows."""

    def __init__(self, pool: Any) -> None:
        self.metrics = StorageMetrics(CollectorRegistry())
        self.loop = StoredBytesLoop(pool, StoredBytesCounter(), self.metrics, get_logger("test"))

    def shown(self) -> dict[str, float]:
        return {
            sample.labels["project"]: sample.value
            for metric in self.metrics.stored_bytes.collect()
            for sample in metric.samples
        }


async def test_one_replica_measures_for_all(database: DatabaseUrl) -> None:
    owner = await asyncpg.connect(database())
    pool = await open_pool(database("orchestrator"), 2, "test")
    first, second = Replica(pool), Replica(pool)
    await owner.execute(QUOTA, "shop", 1_000_000)
    await owner.execute(QUOTA, "free", None)
    await owner.execute(BLOBS, "shop", 10)
    await owner.execute(BLOBS, "free", 10)
    await first.loop.measure()
    await owner.execute("INSERT INTO runs.blob (project, digest, data, size) VALUES ('shop', 'new', '', 7)")
    await second.loop.measure()
    assert [first.shown(), second.shown()] == [{"shop": 5_000.0}] * 2
    await owner.execute(LATER)
    await second.loop.measure()
    assert (second.shown(), await owner.fetchval(MEASURED, "shop")) == ({"shop": 5_007.0}, 5_007)
    pool.terminate()
    await owner.close()


async def test_blobs_are_measured_from_an_index(database: DatabaseUrl) -> None:
    """Two million blobs would be a gigabyte to read, each minute."""
    owner = await asyncpg.connect(database())
    for project, blobs in (("shop", 3_000), ("other", 3_000)):
        await owner.execute(BLOBS, project, blobs)
    await owner.execute("VACUUM ANALYZE runs.blob")
    plan = [row[0] for row in await owner.fetch(PLAN)]
    assert any("Index Only Scan using blob_size" in line for line in plan), plan
    await owner.close()


class SlowDatabase:
    """A database that stores at once, or not at all, and answers only when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.stored: Counter[str] = Counter()
        self.asked, self.answers, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._error = error

    async def execute(self, _: str, projects: list[str], sizes: list[int]) -> None:
        error, self._error = self._error, None
        if error is None:
            self.stored.update(dict(zip(projects, sizes, strict=True)))
        self.asked.set()
        await self.answers.wait()
        self.answered.set()
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "error",
    [None, asyncpg.CannotConnectNowError("it starts"), asyncpg.UndefinedTableError("it is migrated")],
    ids=["stored", "away", "refused"],
)
async def test_bytes_that_were_being_stored_at_the_end_are_counted_once(error: Exception | None) -> None:
    database: Any = SlowDatabase(error)
    counter = StoredBytesCounter()
    loop = StoredBytesLoop(database, counter, StorageMetrics(CollectorRegistry()), get_logger("test"))
    counter.add("shop", ["x" * 100])
    storing = asyncio.create_task(loop.store())
    await database.asked.wait()
    storing.cancel()
    await asyncio.sleep(0)
    database.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await storing
    await loop.store()
    assert database.stored == {"shop": 100}


async def test_a_second_cancellation_ends_no_statement_that_stores() -> None:
    database: Any = SlowDatabase()
    counter = StoredBytesCounter()
    loop = StoredBytesLoop(database, counter, StorageMetrics(CollectorRegistry()), get_logger("test"))
    counter.add("shop", ["x" * 100])
    storing = asyncio.create_task(loop.store())
    await database.asked.wait()
    for _ in range(2):
        storing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await storing
    database.answers.set()
    await asyncio.wait_for(database.answered.wait(), 60)
