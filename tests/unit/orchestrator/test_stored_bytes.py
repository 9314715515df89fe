"""What projects store is counted once, also where the process ends while it is stored."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from towpath_fabric.telemetry.logs import get_logger
from towpath_orchestrator.app.stored_bytes import StoredBytesCounter, StoredBytesLoop
from towpath_orchestrator.metrics import StorageMetrics


class SlowDatabase:
    """A database that stores at once, or not at all, and answers only when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.stored: Counter[str] = Counter()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self._error = error

    async def execute(self, _: str, projects: list[str], sizes: list[int]) -> None:
        error, self._error = self._error, None
        if error is None:
            self.stored.update(dict(zip(projects, sizes, strict=True)))
        self.asked.set()
        await self.answers.wait()
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, asyncpg.CannotConnectNowError("it starts")], ids=["stored", "away"])
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
