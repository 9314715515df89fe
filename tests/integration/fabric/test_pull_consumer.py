"""A pull consumer gets its messages again whatever was lost, though it never looks whether anything was.

Where a test sets `LOST_S` to hours, silence can't be what made the consumer ask again.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_embedded.processes.child_process import became_ready
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats import pull_consumer
from towpath_fabric.nats.pull_consumer import PullConsumer, ack, deliveries, flush, nak
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams

HOURS = 10_000.0
SOON = replace(INBOX_CONSUMER, durable="soon", ack_wait_s=0.6)
"""What nobody answers is delivered again while a test waits."""


class ForgetfulClient(Client):
    """Loses the first *lose* pull requests on their way."""

    lose = 0

    async def publish(self, subject: str, *args: Any, **values: Any) -> None:
        if self.lose and subject.startswith("$JS.API.CONSUMER.MSG.NEXT."):
            self.lose -= 1
            return
        await super().publish(subject, *args, **values)


@pytest.fixture
async def client(nats_server: Nats) -> AsyncIterator[ForgetfulClient]:
    client = ForgetfulClient()
    await client.connect(nats_server.url(), max_reconnect_attempts=-1, reconnect_time_wait=0.05)
    await ensure_streams(client)
    yield client
    await client.close()


@pytest.fixture
async def consumer(client: Client) -> AsyncIterator[PullConsumer]:
    consumer = PullConsumer(client, INBOX_CONSUMER, window=8, rebind=partial(ensure_streams, client))
    yield consumer
    await consumer.stop()


async def store(nats_server: Nats, body: bytes) -> None:
    """Store a message, through another connection, as soon as there is a stream."""
    sender = await nats.connect(nats_server.url())
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    await sender.jetstream().publish("run.inbox.a", body, timeout=1)
                except (TimeoutError, nats.errors.Error):
                    await asyncio.sleep(0.05)
                else:
                    return
    finally:
        await sender.close()


async def take(consumer: PullConsumer) -> bytes:
    async with asyncio.timeout(60):
        message = (await consumer.take(1))[0]
    await ack(message)
    await flush(message)  # a broker that is killed before it has the ack delivers the message again
    return bytes(message.data)


async def restart(nats_server: Nats, while_down: Callable[[], object]) -> None:
    assert nats_server.process is not None
    nats_server.process.kill()
    nats_server.process.wait()
    while_down()
    nats_server.spawn()
    assert await became_ready(nats_server, timeout_s=60)


async def test_a_new_connection_is_asked_at_once(
    nats_server: Nats, consumer: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", HOURS)
    await consumer.start()
    await store(nats_server, b"first")
    assert await take(consumer) == b"first"
    await restart(nats_server, lambda: None)
    await store(nats_server, b"second")
    assert await take(consumer) == b"second"


async def test_an_emptied_broker_is_given_its_streams_again(
    nats_server: Nats, consumer: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", HOURS)
    await consumer.start()
    await restart(nats_server, lambda: shutil.rmtree(nats_server.store))
    await store(nats_server, b"after")
    assert await take(consumer) == b"after"


@pytest.mark.parametrize("delete", [("delete_consumer", "INBOX", INBOX_CONSUMER.durable), ("delete_stream", "INBOX")])
async def test_what_was_deleted_is_declared_again(
    delete: tuple[str, ...],
    nats_server: Nats,
    client: Client,
    consumer: PullConsumer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", HOURS)
    await consumer.start()
    js = client.jetstream()
    async with asyncio.timeout(60):  # while its request is not there nobody is told that the consumer is deleted
        while not (await js.consumer_info("INBOX", INBOX_CONSUMER.durable)).num_waiting:  # noqa: ASYNC110 - nor this
            await asyncio.sleep(0.02)
    remove: Callable[..., Awaitable[bool]] = getattr(js, delete[0])
    await remove(*delete[1:])
    await store(nats_server, b"after")
    assert await take(consumer) == b"after"


async def test_a_consumer_that_can_not_be_declared_is_tried_again(
    nats_server: Nats, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", HOURS)
    monkeypatch.setattr(pull_consumer, "LONGEST_PAUSE_S", 0.3)
    tries = 0

    async def rebind() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise TimeoutError
        await ensure_streams(client)

    consumer = PullConsumer(client, INBOX_CONSUMER, window=8, rebind=rebind)
    await client.jetstream().delete_stream("INBOX")
    await consumer.start()
    await store(nats_server, b"late")
    assert await take(consumer) == b"late"
    assert tries == 4
    await consumer.stop()


async def test_a_request_that_was_lost_is_sent_again(
    nats_server: Nats, client: ForgetfulClient, consumer: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", 0.5)
    monkeypatch.setattr(pull_consumer, "HEARTBEAT_S", 0.2)
    client.lose = 2
    await consumer.start()
    await store(nats_server, b"late")
    assert await take(consumer) == b"late"
    assert client.lose == 0


async def test_heartbeats_of_an_idle_request_keep_it(
    client: ForgetfulClient, consumer: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LOST_S", 3.0)
    monkeypatch.setattr(pull_consumer, "HEARTBEAT_S", 0.2)
    await consumer.start()
    client.lose = 1
    await asyncio.sleep(5)
    assert client.lose == 1, "the request was taken as lost"


async def test_messages_come_after_a_pause(nats_server: Nats, consumer: PullConsumer) -> None:
    consumer.paused = True
    await consumer.start()
    for number in range(16):
        await store(nats_server, str(number).encode())
    assert consumer.waiting == 0
    consumer.paused = False
    assert [await take(consumer) for _ in range(16)] == [str(number).encode() for number in range(16)]


async def test_every_listener_of_a_connection_hears_of_a_new_one(nats_server: Nats, client: Client) -> None:
    heard, also, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    on_reconnect(client, heard.set)
    on_reconnect(client, also.set)
    on_reconnect(client, gone.set)()
    await restart(nats_server, lambda: None)
    async with asyncio.timeout(60):
        await heard.wait()
        await also.wait()
    assert not gone.is_set()


@pytest.fixture
async def holding(client: Client) -> AsyncIterator[PullConsumer]:
    """A consumer that says of what it has that it is not lost; of a stream in which only it reads."""
    await client.jetstream().delete_consumer("INBOX", INBOX_CONSUMER.durable)
    await ensure_consumer(client, SOON)
    consumer = PullConsumer(client, SOON, window=8, extends=True)
    await consumer.start()
    yield consumer
    await consumer.stop()


async def redelivered(client: Client) -> int:
    return int((await client.jetstream().consumer_info("INBOX", SOON.durable)).num_redelivered or 0)


async def test_what_waits_here_or_is_at_work_is_not_delivered_again(
    nats_server: Nats, client: Client, holding: PullConsumer
) -> None:
    for body in (b"at work", b"waits"):
        await store(nats_server, body)
    at_work = (await holding.take(1))[0]
    await asyncio.sleep(2 * SOON.ack_wait_s)
    assert holding.waiting == 1
    assert await redelivered(client) == 0
    await ack(at_work)
    assert await take(holding) == b"waits"
    await asyncio.sleep(2 * SOON.ack_wait_s)
    assert (holding.waiting, await redelivered(client)) == (0, 0)


@pytest.mark.parametrize("at_work_for", [0, 1.5], ids=["at once", "after it was extended"])
async def test_what_was_given_up_without_an_answer_comes_again(
    nats_server: Nats, holding: PullConsumer, at_work_for: float
) -> None:
    await store(nats_server, b"given up")
    given_up = await holding.take(1)
    await asyncio.sleep(at_work_for * SOON.ack_wait_s)
    given_up.clear()  # and nobody refers to it any more
    async with asyncio.timeout(20):  # far below LONGEST_HELD_S
        again = (await holding.take(1))[0]
    assert (again.data, deliveries(again)) == (b"given up", 2)
    await ack(again)


async def answer_some(nats_server: Nats, holding: PullConsumer, *, waiting: int = 0) -> None:
    """Answer one of three that wait, or of as many more as are *waiting*, each half ack wait, and store another."""
    for number in range(8):
        await store(nats_server, b"%d" % number)
        await asyncio.sleep(SOON.ack_wait_s / 2)
        if number + waiting >= 3:
            await ack((await holding.take(1))[0])


@pytest.mark.parametrize("paused", [False, True], ids=["at work", "while the database is away"])
async def test_a_process_that_stood_still_keeps_what_waits_once_it_answers_again(
    nats_server: Nats, holding: PullConsumer, paused: bool
) -> None:
    await asyncio.sleep(SOON.ack_wait_s)
    for _ in range(4):  # something is held all the time
        await store(nats_server, b"stands still")
    stands_still = await holding.take(1)
    holding.paused = paused
    await asyncio.sleep((pull_consumer.STALLED_WAITS + 2) * SOON.ack_wait_s)
    holding.paused = False
    await ack(stands_still.pop())  # no name is left by which it would still be seen as answered
    await answer_some(nats_server, holding, waiting=holding.waiting)
    waiting = [message for message in holding.take_now(8) if message.data != b"stands still"]
    assert len(waiting) >= 3 and {deliveries(message) for message in waiting} == {1}


async def test_where_nothing_is_answered_any_more_others_get_what_waits(
    nats_server: Nats, client: Client, holding: PullConsumer
) -> None:
    await answer_some(nats_server, holding)
    assert (holding.waiting, await redelivered(client)) == (3, 0), "as long as some are answered, the others wait here"
    hangs = (await holding.take(1))[0]
    other = PullConsumer(client, SOON, window=8)
    await other.start()
    async with asyncio.timeout(30):  # half of LONGEST_HELD_S
        again: set[bytes] = set()
        while len(again) < 3:  # the one that hangs comes more than once, to either
            message = (await other.take(1))[0]
            again.add(message.data)
            await ack(message)
    assert again == {b"5", b"6", b"7"} and not hangs.is_acked
    await other.stop()


async def test_what_is_held_too_long_comes_again(
    nats_server: Nats, holding: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "LONGEST_HELD_S", 1.0)
    await store(nats_server, b"forgotten")
    forgotten = (await holding.take(1))[0]
    async with asyncio.timeout(60):
        again = (await holding.take(1))[0]
    assert (again.data, deliveries(again), deliveries(forgotten)) == (b"forgotten", 2, 1)
    await ack(again)


async def test_what_was_given_back_is_not_extended(nats_server: Nats, client: Client, holding: PullConsumer) -> None:
    await store(nats_server, b"later")
    first = (await holding.take(1))[0]
    await nak(first, 0.1)
    async with asyncio.timeout(60):
        again = (await holding.take(1))[0]
    assert deliveries(again) == 2
    await ack(again)
    await asyncio.sleep(2 * SOON.ack_wait_s)
    assert holding.waiting == 0


async def test_what_waits_for_a_database_that_is_away_goes_to_others(
    nats_server: Nats, client: Client, holding: PullConsumer
) -> None:
    await store(nats_server, b"kept")
    kept = (await holding.take(1))[0]
    holding.paused = True
    other = PullConsumer(client, SOON, window=8)
    await other.start()
    async with asyncio.timeout(20):  # far below LONGEST_HELD_S
        again = (await other.take(1))[0]
    assert again.data == b"kept" and deliveries(again) > deliveries(kept)
    await ack(again)
    await other.stop()
