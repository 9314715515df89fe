"""Dead letters of a batch are one statement, and none where there are too many; each message leaves its stream."""

import asyncio
from typing import Any
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Counter
from tests.support.orchestrator.orchestrator_peers import connected

from towpath_contracts import subjects
from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric import dead_letters
from towpath_fabric.dead_letters import MAX_OPEN, DeadLetterOwner, DeadLetters, UndeliverableMessage
from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.postgres.pool import open_pool

BATCH = 256


class CountedPool:
    """A pool that counts statements."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.asked = 0

    async def fetch(self, statement: str, *values: Any) -> Any:
        self.asked += 1
        return await self._pool.fetch(statement, *values)


async def test_a_batch_is_one_statement_and_none_for_a_project_without_room(
    database: Any, nats_server: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(dead_letters, "LOOK_AGAIN_S", 1.0)
    pool = await open_pool(database("orchestrator"), 1, "test")
    asked: Any = CountedPool(pool)
    counter = Counter("dead", "Dead.", ["stream"], registry=CollectorRegistry())
    letters = DeadLetters(asked, "INBOX", counter, structlog.get_logger())
    async with connected(nats_server.url()) as nc:
        await ensure_streams(nc)
        feed = PullConsumer(nc, INBOX_CONSUMER)
        await feed.start()

        async def batch(project: str | None, count: int = BATCH) -> int:
            """Set *count* messages aside; return how many statements that took."""
            for _ in range(count):
                await nc.publish(subjects.run_inbox("tas", uuid4()), b"{}")
            taken: list[Any] = []
            while len(taken) < count:
                taken += await feed.take(count - len(taken))
            before, owner = asked.asked, DeadLetterOwner(project=project)
            dead = [UndeliverableMessage(message=message, reason="r", owner=owner) for message in taken]
            assert all(await letters.set_aside_all(dead))
            return int(asked.asked - before)

        try:
            assert [await batch("theirs") for _ in range(5)] == [1, 1, 1, 1, 0]
            assert await batch("mine", 3) == 1, "another project has its own room"
            kept = "SELECT count(*) FROM runs.dead_letter WHERE project = $1"
            assert [await pool.fetchval(kept, name) for name in ("theirs", "mine")] == [MAX_OPEN, 3]
            await pool.execute("DELETE FROM runs.dead_letter WHERE project = 'theirs'")
            await asyncio.sleep(1.1)  # what is waited for is the time itself
            assert await batch("theirs", 3) == 1
            assert await pool.fetchval(kept, "theirs") == 3, "it is looked at again"
            info = await nc.jetstream().consumer_info("INBOX", INBOX_CONSUMER.durable)
            assert info.num_pending == 0
            assert counter.labels("INBOX")._value.get() == 5 * BATCH + 6, "each is counted"
        finally:
            await feed.stop()
            pool.terminate()
