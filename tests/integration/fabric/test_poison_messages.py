"""A message that ends every process which handles it is set aside, and no other message is."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import nats
import pytest
import structlog
from nats.aio.msg import Msg
from tests.conftest import DatabaseUrl

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric.nats.pull_consumer import PullConsumer, nak, term
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.redelivery import poison_messages
from towpath_fabric.redelivery.poison_messages import PoisonGuard

SPEC = replace(INBOX_CONSUMER, ack_wait_s=0.3)

PROGRAM = """
import asyncio, dataclasses, os, sys

import nats, structlog

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric.redelivery.poison_messages import PoisonGuard, apart
from towpath_fabric.nats.pull_consumer import PullConsumer, ack, term
from towpath_fabric.postgres.pool import open_pool

URL, DSN = sys.argv[1:]
SPEC = dataclasses.replace(INBOX_CONSUMER, ack_wait_s=0.3)


async def serve():
    nc = await nats.connect(URL)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    guard = PoisonGuard(await open_pool(DSN, 1, "test"), SPEC, asyncio.Lock(), structlog.get_logger(), max_deaths=1)
    consumer = PullConsumer(nc, SPEC)
    await consumer.start()

    async def handle(messages):
        if any(message.data == b"poison" for message in messages):
            os._exit(70)
        for message in messages:
            await ack(message)
            print("handled", message.data.decode(), flush=True)
        await nc.flush()

    async def refuse(message, reason, reads):
        print("refused", message.data.decode(), reason, flush=True)
        await term(message)
        await nc.flush()

    while True:
        together, watched = apart(await consumer.take(64))
        if together:
            await handle(together)
        for message in watched:
            async with guard.alone(message, refuse) as admitted:
                if admitted:
                    await handle([message])
        left = await nc.jetstream().consumer_info(SPEC.stream, SPEC.durable)
        if not left.num_pending and not left.num_ack_pending:
            os._exit(0)


for life in range(10):
    child = os.fork()
    if not child:
        asyncio.run(serve())
    if os.waitpid(child, 0)[1] == 0:
        break
    print("died", flush=True)
"""


@pytest.fixture
async def nc(nats_server: Any) -> AsyncIterator[Any]:
    client = await nats.connect(nats_server.url())
    await ensure_streams(client)
    await ensure_consumer(client, SPEC)
    yield client
    await client.close()


async def test_a_message_that_ends_every_process_is_set_aside_and_the_others_are_handled_once(
    database: DatabaseUrl, nats_server: Any, nc: Any
) -> None:
    for body in ("a", "b", "poison", "c", "d"):
        await nc.jetstream().publish("run.inbox.x", body.encode())
    command = (sys.executable, "-c", PROGRAM, nats_server.url(), database("orchestrator"))
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=True)
    lines = ran.stdout.splitlines()
    assert lines.count("died") == 3, "twice in a batch, once alone"
    assert [line for line in lines if line.startswith("refused")] == [
        "refused poison poison_message: handling it alone ended the process 1 times"
    ]
    assert sorted(line for line in lines if line.startswith("handled")) == [f"handled {one}" for one in "abcd"]


class Watched:
    """One message on a real broker, and what its guard says each time that it comes."""

    def __init__(self, guard: PoisonGuard, consumer: PullConsumer) -> None:
        self.guard = guard
        self.consumer = consumer
        self.refused: list[tuple[str, bool]] = []

    async def refuse(self, message: Msg, reason: str, reads: bool) -> None:
        self.refused.append((reason, reads))
        await nak(message, 0)

    async def come(self, error: BaseException | None = None) -> bool:
        """Have the message come and give it back, or end its handling with *error*; returns whether it was admitted."""
        (message,) = await asyncio.wait_for(self.consumer.take(1), 10)
        admitted = False
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):
            async with self.guard.alone(message, self.refuse) as admitted:
                if error is not None:
                    raise error
        await nak(message, 0)
        return admitted


class LosesAnswers:
    """A database that does what it is asked for, and whose first answers are lost."""

    def __init__(self, pool: Any, lost: int) -> None:
        self.pool = pool
        self.lost = {"fetchval": lost, "execute": lost}

    async def _answer(self, method: str, *query: Any) -> Any:
        answer = await getattr(self.pool, method)(*query)
        if self.lost[method]:
            self.lost[method] -= 1
            raise ConnectionResetError("the answer was lost")
        return answer

    async def fetchval(self, *query: Any) -> Any:
        return await self._answer("fetchval", *query)

    async def execute(self, *query: Any) -> Any:
        return await self._answer("execute", *query)


class Unreachable:
    """A database that stores marks, and can't be reached when the first are to be removed."""

    def __init__(self, pool: Any, times: int) -> None:
        self.fetchval = pool.fetchval
        self.pool = pool
        self.times = times

    async def execute(self, *query: Any) -> Any:
        if self.times:
            self.times -= 1
            raise ConnectionRefusedError("the database is away")
        return await self.pool.execute(*query)


@pytest.fixture
async def watched(database: DatabaseUrl, nc: Any) -> AsyncIterator[Watched]:
    pool = await open_pool(database("tas"), 1, "test")
    guard = PoisonGuard(pool, SPEC, asyncio.Lock(), structlog.get_logger(), max_deaths=2)
    consumer = PullConsumer(nc, SPEC)
    await nc.jetstream().publish("run.inbox.x", b"a")
    await consumer.start()
    yield Watched(guard, consumer)
    await consumer.stop()
    pool.terminate()


async def test_a_message_that_is_given_back_is_never_refused_and_one_that_fails_its_loop_is(watched: Watched) -> None:
    assert all([await watched.come() for _ in range(5)]), "the database is away, the run is contested"
    assert all([await watched.come(asyncio.CancelledError()) for _ in range(3)]), "the process is asked to stop"
    assert [await watched.come(RuntimeError()) for _ in range(3)] == [True, True, False], "the loop ends its process"
    assert not await watched.come(), "it stays refused until it is stored"
    assert watched.refused == [("poison_message: handling it alone ended the process 2 times", True)] * 2


async def test_a_message_whose_refusal_ends_the_process_is_refused_unread(watched: Watched) -> None:
    for _ in range(2):
        await watched.come(RuntimeError())

    async def die(message: Msg, reason: str, reads: bool) -> None:
        watched.refused.append((reason, reads))
        if reads:
            raise RuntimeError(reason)
        await term(message)

    watched.refuse = die  # type: ignore[method-assign]
    for _ in range(3):
        await watched.come()
    assert [reads for _, reads in watched.refused] == [True, True, False]


async def test_a_mark_whose_answer_was_lost_is_no_death(
    watched: Watched, database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison_messages, "RETRY_S", 0.01)
    pool = await open_pool(database("tas"), 1, "test")
    try:
        watched.guard = PoisonGuard(LosesAnswers(pool, 3), SPEC, asyncio.Lock(), structlog.get_logger(), max_deaths=2)
        deaths = [await watched.come(RuntimeError()) for _ in range(3)]
    finally:
        pool.terminate()
    assert deaths == [True, True, False], "two deaths accuse it, and nothing else does"


async def test_a_mark_that_could_not_be_removed_is_removed_when_the_database_is_back(
    watched: Watched, database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison_messages, "RETRY_S", 0.01)
    pool = await open_pool(database("tas"), 1, "test")
    try:
        for _ in range(3):
            broken = Unreachable(pool, 2)
            watched.guard = PoisonGuard(broken, SPEC, asyncio.Lock(), structlog.get_logger(), max_deaths=2)
            assert await watched.come()
    finally:
        pool.terminate()
