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
from structlog.testing import capture_logs
from tests.conftest import DatabaseUrl
from tests.support.waiting import eventually

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric.nats.pull_consumer import PullConsumer, nak
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.redelivery import poison_messages
from towpath_fabric.redelivery.poison_messages import HandlingTurn, PoisonGuard

SPEC = replace(INBOX_CONSUMER, ack_wait_s=0.3)

PROGRAM = """
import asyncio, dataclasses, os, sys

import nats, structlog

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_fabric.redelivery.poison_messages import HandlingTurn, PoisonGuard
from towpath_fabric.nats.pull_consumer import PullConsumer, ack, term
from towpath_fabric.postgres.pool import open_pool

URL, DSN = sys.argv[1:]
SPEC = dataclasses.replace(INBOX_CONSUMER, ack_wait_s=0.3)


async def serve():
    nc = await nats.connect(URL)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    consumer = PullConsumer(nc, SPEC)
    pool, log = await open_pool(DSN, 1, "test"), structlog.get_logger()
    guard = PoisonGuard(pool, HandlingTurn(), log, SPEC, consumer, max_deaths=1)
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
        together, watched = guard.apart(await consumer.take(64))
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
    """One message on a real broker, and what the guards of processes say each time that it comes."""

    def __init__(self, pool: Any, consumer: PullConsumer) -> None:
        self.pool = pool
        self.consumer = consumer
        self.refused: list[tuple[str, bool]] = []
        self.reading_ends_the_process = False

    def guard(self, pool: Any = None, **options: Any) -> PoisonGuard:
        """Return the guard of a new process."""
        turn = options.pop("turn", None) or HandlingTurn()
        log = structlog.get_logger()
        return PoisonGuard(pool or self.pool, turn, log, SPEC, self.consumer, max_deaths=2, **options)

    async def refuse(self, message: Msg, reason: str, reads: bool) -> None:
        self.refused.append((reason, reads))
        if reads and self.reading_ends_the_process:
            raise RuntimeError(reason)
        await nak(message, 0)

    async def message(self) -> Msg:
        (message,) = await asyncio.wait_for(self.consumer.take(1), 60)
        return message

    async def come(self, error: BaseException | None = None, guard: PoisonGuard | None = None) -> bool:
        """Have the message come to a new process, or that of *guard*; returns whether it was admitted.

        The process gives it back, or ends by *error*: then it comes again after the ack wait.
        """
        message = await self.message()
        admitted = False
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):
            async with (guard or self.guard()).alone(message, self.refuse) as admitted:
                if error is not None:
                    raise error
                await nak(message, 0)
        return admitted

    async def stop_at(self, guard: PoisonGuard, reached: asyncio.Event) -> None:
        """Have the message come, and ask its process to stop when *reached* is set."""
        message = await self.message()

        async def handle() -> None:
            async with guard.alone(message, self.refuse) as admitted:
                if admitted:
                    await nak(message, 0)

        task = asyncio.create_task(handle())
        await asyncio.wait_for(reached.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def marks(self) -> list[tuple[int, bool]]:
        """Return deaths, and whether there is a mark, of every message."""
        rows = await self.pool.fetch("SELECT deaths, begun_by IS NOT NULL AS marked FROM runs.handling_failure")
        return [(row["deaths"], row["marked"]) for row in rows]


class LosesAnswers:
    """A database that does what it is asked for, and whose first answers are lost."""

    def __init__(self, pool: Any, lost: int, pause_s: float = 0) -> None:
        self.pool = pool
        self.pause_s = pause_s
        self.lost = {"fetchval": lost, "execute": lost}

    async def _answer(self, method: str, *query: Any) -> Any:
        answer = await getattr(self.pool, method)(*query)
        if self.lost[method]:
            self.lost[method] -= 1
            await asyncio.sleep(self.pause_s)
            raise ConnectionResetError("the answer was lost")
        return answer

    async def fetchval(self, *query: Any) -> Any:
        return await self._answer("fetchval", *query)

    async def execute(self, *query: Any) -> Any:
        return await self._answer("execute", *query)


class Unreachable:
    """A database that can't be reached for the first times that it is asked for something of one kind."""

    def __init__(self, pool: Any, times: int, method: str) -> None:
        self.pool = pool
        self.left = {method: times}

    async def _ask(self, method: str, *query: Any) -> Any:
        if self.left.get(method, 0):
            self.left[method] -= 1
            raise ConnectionRefusedError("the database is away")
        return await getattr(self.pool, method)(*query)

    async def fetchval(self, *query: Any) -> Any:
        return await self._ask("fetchval", *query)

    async def execute(self, *query: Any) -> Any:
        return await self._ask("execute", *query)


class Hangs:
    """A database that does what it is asked for, and whose first answer of one kind never comes."""

    def __init__(self, pool: Any, method: str) -> None:
        self.pool = pool
        self.method = method
        self.reached = asyncio.Event()

    async def _answer(self, method: str, *query: Any) -> Any:
        answer = await getattr(self.pool, method)(*query)
        if method == self.method and not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()
        return answer

    async def fetchval(self, *query: Any) -> Any:
        return await self._answer("fetchval", *query)

    async def execute(self, *query: Any) -> Any:
        return await self._answer("execute", *query)


@pytest.fixture
async def watched(database: DatabaseUrl, nc: Any) -> AsyncIterator[Watched]:
    pool = await open_pool(database("tas"), 2, "test")
    consumer = PullConsumer(nc, SPEC)
    await nc.jetstream().publish("run.inbox.x", b"a")
    await consumer.start()
    yield Watched(pool, consumer)
    await consumer.stop()
    pool.terminate()


async def test_a_message_that_is_given_back_is_never_refused_and_one_that_fails_its_loop_is(watched: Watched) -> None:
    assert all([await watched.come() for _ in range(5)]), "the database is away, the run is contested"
    assert all([await watched.come(asyncio.CancelledError()) for _ in range(3)]), "the process is asked to stop"
    assert all([await watched.come(error) for error in (RuntimeError(), None) * 3]), "one that is handled was no cause"
    assert [await watched.come(RuntimeError()) for _ in range(3)] == [True, True, False], "the loop ends its process"
    assert not await watched.come(), "it stays refused until it is stored"
    assert watched.refused == [("poison_message: handling it alone ended the process 2 times", True)] * 2


async def test_a_message_whose_refusal_ends_the_process_is_refused_unread(watched: Watched) -> None:
    for _ in range(2):
        await watched.come(RuntimeError())
    watched.reading_ends_the_process = True
    for _ in range(3):
        await watched.come()
    assert [reads for _, reads in watched.refused] == [True, True, False]


async def test_what_replicas_are_at_is_no_death_of_the_others(watched: Watched) -> None:
    """Each has a copy, as after an outage of the database; all begin at once, and again before any has ended."""
    message = await watched.message()
    all_at_work = asyncio.Barrier(6)

    async def handle() -> bool:
        async with watched.guard().alone(message, watched.refuse) as admitted:
            await all_at_work.wait()
        return admitted

    assert all(await asyncio.wait_for(asyncio.gather(*(handle() for _ in range(6))), SPEC.ack_wait_s / 2 + 10))
    assert await watched.marks() == [(0, False)]


async def test_a_mark_whose_answer_was_lost_is_no_death(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poison_messages, "RETRY_S", 0.01)
    for _ in range(3):
        forgetful = LosesAnswers(watched.pool, 2, pause_s=SPEC.ack_wait_s)
        assert await watched.come(guard=watched.guard(forgetful))
        assert await watched.marks() == [(0, False)], "however long the outage was after it"


async def test_a_death_is_counted_though_the_next_process_can_store_nothing_at_first(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison_messages, "RETRY_S", 0.01)
    await watched.come(RuntimeError())
    await watched.come(RuntimeError(), watched.guard(Unreachable(watched.pool, 3, "fetchval")))
    assert not await watched.come(), "two deaths, and three tries that stored nothing between them"


async def test_a_mark_that_could_not_be_removed_is_removed_when_the_database_is_back(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison_messages, "RETRY_S", 0.01)
    for _ in range(3):
        assert await watched.come(guard=watched.guard(Unreachable(watched.pool, 2, "execute")))


async def test_no_message_is_fetched_while_one_waits_for_its_mark(watched: Watched) -> None:
    away = Unreachable(watched.pool, 10_000, "fetchval")
    coming = asyncio.create_task(watched.come(guard=watched.guard(away)))
    await eventually(lambda: watched.consumer.paused)
    away.left.clear()
    assert await coming
    assert not watched.consumer.paused


@pytest.mark.parametrize("place", ["fetchval", "execute"], ids=["at its first write", "at its last write"])
async def test_a_process_that_stops_at_a_write_leaves_no_mark(watched: Watched, place: str) -> None:
    hanging = Hangs(watched.pool, place)
    await watched.stop_at(watched.guard(hanging), hanging.reached)
    assert await watched.marks() == [(0, False)]


async def test_a_process_that_stops_while_it_refuses_counts_no_further_death(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await watched.come(RuntimeError())
    reached, refuse = asyncio.Event(), watched.refuse

    async def hang(message: Msg, _reason: str, _reads: bool) -> None:
        reached.set()
        await asyncio.sleep(2 * SPEC.ack_wait_s)
        await nak(message, 0)

    for _ in range(3):
        reached.clear()
        monkeypatch.setattr(watched, "refuse", hang)
        await watched.stop_at(watched.guard(), reached)
        assert await watched.marks() == [(2, False)]
    monkeypatch.setattr(watched, "refuse", refuse)
    await watched.come()
    assert watched.refused == [("poison_message: handling it alone ended the process 2 times", True)]


async def test_a_stop_while_the_database_is_away_ends_soon(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poison_messages, "UNMARK_S", 0.1)
    hanging = Hangs(watched.pool, "execute")
    message = await watched.message()
    entered = asyncio.Event()

    async def handle() -> None:
        async with watched.guard(hanging).alone(message, watched.refuse):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(handle())
    await asyncio.wait_for(entered.wait(), 60)
    task.cancel()
    _, waiting = await asyncio.wait({task}, timeout=60)
    assert not waiting
    assert task.cancelled()


async def test_a_message_that_yields_holds_up_no_other_consumer_and_goes_on_without_its_mark(watched: Watched) -> None:
    turn = HandlingTurn()
    slow, quick = watched.guard(turn=turn, yields=True), watched.guard(turn=turn)
    message = await watched.message()
    entered, end = asyncio.Event(), asyncio.Event()

    async def handle() -> None:
        async with slow.alone(message, watched.refuse):
            entered.set()
            await end.wait()

    handling = asyncio.create_task(handle())
    await asyncio.wait_for(entered.wait(), 60)
    assert await watched.marks() == [(0, True)]
    other = Msg(
        _client=message._client, subject=message.subject, reply=message.reply.replace(".1.1.", ".1.99."), data=b"b"
    )
    async with asyncio.timeout(60), quick.alone(other, watched.refuse):
        assert sorted(await watched.marks()) == [(0, False), (0, True)], "one is accused, if the process ends now"
    end.set()
    await handling


async def test_what_this_process_answered_is_not_watched(watched: Watched) -> None:
    guard = watched.guard()
    for _ in range(5):
        message = await watched.message()
        assert guard.apart([message]) == ([message], [])
        await guard.give_back(message, 0)
    message = await watched.message()
    other = watched.guard()
    with capture_logs() as logs:
        for _ in range(3):
            assert other.apart([message]) == ([], [message]), "another process knows of no answer"
    assert [(line["stream"], line["messages"]) for line in logs] == [("INBOX", 1)], "once a minute"
    await guard.settle(message)
    async with guard.alone(message, watched.refuse) as admitted:
        assert not admitted, "a copy of what this process has settled"
    assert (await watched.marks(), watched.refused) == ([], [])
