"""Replicas at a ranked consumer: the first with room gets the messages, whoever is next what it has no room for."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import nats
import pytest
from nats.aio.client import Client

from towpath_contracts.streams import INBOX_CONSUMER
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.pull_consumer import LAST_PRIORITY, NEAR, PullConsumer, ack
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams

WINDOW = 4 * NEAR
PATIENT = dataclasses.replace(INBOX_CONSUMER, ack_wait_s=600)
"""However slow the machine is, nothing comes a second time before it is counted."""


class Replica(NamedTuple):
    client: Client
    consumer: PullConsumer


@pytest.fixture
async def sender(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    await ensure_streams(client)
    await ensure_consumer(client, PATIENT)
    yield client
    await client.close()


@pytest.fixture
async def replicas(nats_server: Nats, sender: Client) -> AsyncIterator[list[Replica]]:
    """Two replicas, by their ranks; connections made one after the other have different ones."""
    clients = [await nats.connect(nats_server.url()) for _ in range(2)]
    clients.sort(key=lambda client: (client.client_id or 0) % LAST_PRIORITY)
    made = [Replica(client, PullConsumer(client, INBOX_CONSUMER, window=WINDOW)) for client in clients]
    for client, consumer in made:
        await consumer.start()
        await client.flush()
    yield made
    for client, consumer in made:
        await consumer.stop()
        await client.close()


async def send(sender: Client, count: int) -> None:
    for number in range(count):
        await sender.jetstream().publish("run.inbox.a", str(number).encode())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - messages arrive unannounced
            await asyncio.sleep(0.01)


def waiting(replicas: list[Replica]) -> list[int]:
    return [replica.consumer.waiting for replica in replicas]


async def test_a_replica_with_room_gets_every_message(sender: Client, replicas: list[Replica]) -> None:
    for _ in range(3 * NEAR):
        await send(sender, 1)
        await until(lambda: sum(waiting(replicas)) == 1)
        assert waiting(replicas) == [1, 0]
        for message in replicas[0].consumer.take_now(1):
            await ack(message)


async def test_the_next_replica_gets_what_the_first_has_no_room_for(sender: Client, replicas: list[Replica]) -> None:
    await send(sender, NEAR + 10)
    await until(lambda: sum(waiting(replicas)) == NEAR + 10)
    assert waiting(replicas) == [NEAR, 10]


async def test_replicas_that_all_have_much_to_do_share_what_follows(sender: Client, replicas: list[Replica]) -> None:
    await send(sender, 2 * WINDOW + 10)
    await until(lambda: sum(waiting(replicas)) == 2 * WINDOW)
    assert waiting(replicas) == [WINDOW, WINDOW]
    found: set[bytes] = set()
    while len(found) < 2 * WINDOW + 10:
        await until(lambda: any(waiting(replicas)))
        for replica in replicas:
            for message in replica.consumer.take_now(NEAR // 2):
                found.add(message.data)
                await ack(message)


async def test_the_next_replica_goes_on_where_the_first_ends(sender: Client, replicas: list[Replica]) -> None:
    await ensure_consumer(sender, INBOX_CONSUMER)  # what reaches the first on its way out comes again
    await replicas[0].client.close()
    await send(sender, 3)
    found: set[bytes] = set()
    while len(found) < 3:
        await until(lambda: replicas[1].consumer.waiting > 0)
        for message in replicas[1].consumer.take_now(3):
            found.add(message.data)
            await ack(message)


async def test_a_consumer_that_was_made_without_ranks_gets_them(sender: Client, replicas: list[Replica]) -> None:
    await ensure_consumer(sender, dataclasses.replace(PATIENT, ranked=False))
    await send(sender, 1)
    await until(lambda: sum(waiting(replicas)) == 1)
    await ensure_consumer(sender, PATIENT)
    await send(sender, NEAR)
    await until(lambda: sum(waiting(replicas)) == NEAR + 1)
