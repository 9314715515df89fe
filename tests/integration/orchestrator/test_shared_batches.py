"""The inbox on a real broker: a caller who comes into another's flood is in the next batch."""

import asyncio
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl
from tests.support.orchestrator.orchestrator_peers import connected
from tests.support.poison_marks import deliver_unanswered

from towpath_contracts import subjects
from towpath_contracts.facts import DecisionFailedFact, RunAdmittedFact
from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric.dead_letters import DeadLetters
from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.redelivery.poison_messages import HandlingTurn, PoisonGuard
from towpath_orchestrator.app.commit.inbox import FEW, Inbox, InboxFact
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.metrics import OrchestratorMetrics

FLOOD, OTHER = 1, 1_000
"""Ids of the two callers' runs begin there."""


def caller_of(run_id: UUID | None) -> str:
    return "other" if run_id is not None and run_id.int >= OTHER else "flood"


async def take(inbox: Inbox) -> list[InboxFact]:
    async with inbox.next_batch() as batch:
        return batch


def callers(batch: list[InboxFact]) -> list[str]:
    return [caller_of(item.fact.run_id) for item in batch]


async def decide(nc: Any, first: int, count: int) -> None:
    """Let the deciders say something about *count* runs."""
    for number in range(first, first + count):
        run_id = UUID(int=number)
        fact = DecisionFailedFact(
            run_id=run_id, request_id=run_id, attempt=1, code="model_timeout", message="no answer", model="m"
        )
        await nc.jetstream().publish(subjects.run_inbox("decider", run_id), fact.model_dump_json().encode())


async def received(feed: PullConsumer, count: int) -> None:
    for _ in range(6_000):
        if feed.waiting >= count:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"{feed.waiting} of {count} messages")


async def test_a_newcomers_facts_are_in_the_next_batch_and_batches_stay_small_while_it_is_there(
    database: DatabaseUrl, nats_server: Any
) -> None:
    pool = await open_pool(database("orchestrator"), 1, "test")
    metrics, log = OrchestratorMetrics(CollectorRegistry()), structlog.get_logger()
    async with connected(nats_server.url()) as nc:
        await ensure_streams(nc)
        arrived = asyncio.Event()
        local_facts = LocalFactQueue(arrived)
        feed = PullConsumer(nc, INBOX_CONSUMER, arrived=arrived)
        letters = DeadLetters(pool, "INBOX", metrics.dead, log)
        guard = PoisonGuard(pool, HandlingTurn(), log, INBOX_CONSUMER, feed, max_deaths=3)
        inbox = Inbox(feed, local_facts, letters, metrics, caller_of, guard, batch_size=64)
        await feed.start()
        try:
            await decide(nc, FLOOD, 100)
            await received(feed, 100)
            assert callers(await take(inbox)) == ["flood"] * 64, "a caller alone has whole batches"

            await decide(nc, OTHER, 1)
            await received(feed, 37)
            assert callers(await take(inbox)).count("other") == 1

            await decide(nc, FLOOD + 100, 60)
            await decide(nc, OTHER + 1, 2)
            for number in range(20):
                local_facts.add(RunAdmittedFact(run_id=UUID(int=FLOOD + 200 + number)))
            await received(feed, 62)
            batch = callers(await take(inbox))
            assert batch == ["flood"] * FEW + ["flood", "other"] * 2 + ["flood"] * (FEW - 2), "few of each, in turns"
        finally:
            await feed.stop()
            pool.terminate()


async def test_what_may_be_poison_comes_alone_in_turns_with_this_processs_own_facts(
    database: DatabaseUrl, nats_server: Any
) -> None:
    """After an outage there are many, and copies of them: of one that was settled none is handled again."""
    pool = await open_pool(database("orchestrator"), 1, "test")
    metrics, log = OrchestratorMetrics(CollectorRegistry()), structlog.get_logger()
    async with connected(nats_server.url()) as nc:
        await ensure_streams(nc)
        await decide(nc, FLOOD, 3)
        await deliver_unanswered(nc, INBOX_CONSUMER, messages=3)
        arrived = asyncio.Event()
        local_facts = LocalFactQueue(arrived)
        feed = PullConsumer(nc, INBOX_CONSUMER, arrived=arrived)
        letters = DeadLetters(pool, "INBOX", metrics.dead, log)
        guard = PoisonGuard(pool, HandlingTurn(), log, INBOX_CONSUMER, feed, max_deaths=3)
        inbox = Inbox(feed, local_facts, letters, metrics, caller_of, guard, batch_size=64)
        await feed.start()
        try:
            await received(feed, 3)
            seen: list[set[str]] = []
            for number in range(7):
                local_facts.add(RunAdmittedFact(run_id=UUID(int=OTHER + number)))
                async with inbox.next_batch() as batch:
                    seen.append({item.fact.type for item in batch})
                    await inbox.acknowledge(batch)
                    if number == 1:
                        copy = batch[0].message
                        assert copy is not None
                        inbox._watched.append(copy)
            alone, own = {"decision.failed"}, {"run.admitted"}
            assert seen == [own, alone, own, alone, own, alone, own]
            async with inbox.next_batch() as batch:
                assert batch == [], "a copy of what is settled"
            assert not inbox._watched
        finally:
            await feed.stop()
            pool.terminate()
