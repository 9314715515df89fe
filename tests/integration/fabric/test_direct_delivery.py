"""A directly delivered message is handled by the task that reads the connection, and nothing ends that task.

A version of nats-py that resolves the future of a subscription only once, or in another way, fails here.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_embedded.processes.child_process import became_ready
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.direct_delivery import DirectDelivery


class Recorder:
    """Keeps what it is handed, and who handed it over; raises ValueError for a body that is `bad`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.tasks: set[asyncio.Task[Any] | None] = set()
        self._arrived = asyncio.Event()

    def handle(self, message: Msg) -> None:
        self.bodies.append(message.data)
        self.tasks.add(asyncio.current_task())
        self._arrived.set()
        if message.data == b"bad":
            raise ValueError(message.subject)

    async def wait_for(self, *bodies: bytes) -> None:
        async with asyncio.timeout(60):
            while len(self.bodies) < len(bodies):
                self._arrived.clear()
                await self._arrived.wait()
        assert self.bodies == list(bodies)


@pytest.fixture
async def client(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url(), max_reconnect_attempts=-1, reconnect_time_wait=0.05)
    yield client
    await client.close()


async def send(client: Client, subject: str, *bodies: bytes) -> None:
    for body in bodies:
        await client.publish(subject, body)


async def test_every_message_is_handled_in_order_by_the_reader(client: Client) -> None:
    one, two = Recorder(), Recorder()
    await client.subscribe("one", future=DirectDelivery(one.handle))
    await client.subscribe("two", future=DirectDelivery(two.handle))
    await send(client, "one", b"1", b"2", b"3")
    await send(client, "two", b"4")
    await one.wait_for(b"1", b"2", b"3")
    await two.wait_for(b"4")
    assert len(one.tasks | two.tasks) == 1


async def test_a_handler_that_raises_is_reported_and_goes_on(client: Client) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    recorder = Recorder()
    await client.subscribe("one", future=DirectDelivery(recorder.handle))
    await send(client, "one", b"1", b"bad", b"2")
    await recorder.wait_for(b"1", b"bad", b"2")
    assert client.stats["reconnects"] == 0
    assert [str(complaint["exception"]) for complaint in complaints] == ["one"]
    assert complaints[0]["message"] == "a message on one could not be handled"


async def test_no_number_of_unread_messages_is_too_many(client: Client) -> None:
    recorder = Recorder()
    future = DirectDelivery(recorder.handle)
    await client.subscribe("one", future=future, pending_msgs_limit=1, pending_bytes_limit=1)
    bodies = [b"%d" % number for number in range(200)]
    await send(client, "one", *bodies)
    await recorder.wait_for(*bodies)
    assert not future.done()


async def test_an_ended_subscription_hands_over_nothing_more(client: Client) -> None:
    recorder, other = Recorder(), Recorder()
    subscription = await client.subscribe("one", future=DirectDelivery(recorder.handle))
    await client.subscribe("two", future=DirectDelivery(other.handle))
    await send(client, "one", b"1")
    await recorder.wait_for(b"1")
    await subscription.unsubscribe()
    await send(client, "one", b"2")
    await send(client, "two", b"3")
    await other.wait_for(b"3")
    assert recorder.bodies == [b"1"]


async def test_a_drained_connection_hands_over_what_was_sent_before(nats_server: Nats) -> None:
    client = await nats.connect(nats_server.url())
    recorder = Recorder()
    await client.subscribe("one", future=DirectDelivery(recorder.handle))
    await send(client, "one", b"1", b"2")
    async with asyncio.timeout(60):
        await client.drain()
    assert recorder.bodies == [b"1", b"2"]
    assert client.is_closed


async def test_a_new_connection_hands_over_messages_again(nats_server: Nats, client: Client) -> None:
    recorder = Recorder()
    await client.subscribe("one", future=DirectDelivery(recorder.handle))
    await send(client, "one", b"before")
    await recorder.wait_for(b"before")
    reconnected = client.stats["reconnects"] + 1
    assert nats_server.process is not None
    nats_server.process.kill()
    nats_server.process.wait()
    nats_server.spawn()
    assert await became_ready(nats_server, timeout_s=60)
    async with asyncio.timeout(60):
        while client.stats["reconnects"] < reconnected or not client.is_connected:  # noqa: ASYNC110 - without an event
            await asyncio.sleep(0.02)
    await send(client, "one", b"after")
    await recorder.wait_for(b"before", b"after")
