"""Work that a broker does not confirm is sent again until it is stored, and is stored once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import MaxPayloadError
from tests.support.waiting import all_sent

from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats import stream_publisher
from towpath_fabric.nats.clusters import is_clustered
from towpath_fabric.nats.stream_publisher import StreamPublisher
from towpath_fabric.nats.streams import ask_broker, ensure_streams

NAMED = {"Nats-Msg-Id": "one"}


@pytest.fixture
async def client(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    yield client
    await client.close()


@pytest.fixture
async def publisher(client: Client) -> AsyncIterator[StreamPublisher]:
    publisher = StreamPublisher()
    await publisher.open(client)
    yield publisher
    publisher.close()


async def stored(client: Client, stream: str = "DECIDE") -> int:
    return int((await ask_broker(client, f"STREAM.INFO.{stream}"))["state"]["messages"])


async def confirmed(publisher: StreamPublisher) -> None:
    async with asyncio.timeout(20):
        while publisher.unconfirmed:  # noqa: ASYNC110 - a number
            await asyncio.sleep(0.01)


async def test_a_post_without_a_stream_is_stored_once_there_is_one(client: Client, publisher: StreamPublisher) -> None:
    await publisher.post("decide.default", b"1", NAMED)
    await all_sent(client)
    assert publisher.unconfirmed == 1
    await ensure_streams(client)
    await confirmed(publisher)
    assert await stored(client) == 1
    await publisher.post("decide.default", b"1", NAMED)  # the same id: a repeat whose confirmation was lost
    await confirmed(publisher)
    assert await stored(client) == 1


async def test_store_waits_for_the_confirmation_and_says_where_none_came(
    client: Client, publisher: StreamPublisher
) -> None:
    assert not await publisher.store("decide.default", b"1", None, 2.0), "without a stream the broker refuses at once"
    await ensure_streams(client)
    assert await publisher.store("decide.default", b"1", None, 2.0)
    assert await stored(client) == 1


async def test_a_post_is_given_up_in_time_and_no_more_than_a_number_is_held(
    client: Client, publisher: StreamPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_publisher, "AGAIN_S", 0.05)
    monkeypatch.setattr(stream_publisher, "GIVEN_UP_S", 0.2)
    monkeypatch.setattr(stream_publisher, "MAX_POSTS", 2)
    for number in range(3):
        await publisher.post("decide.default", b"%d" % number, None)
    assert publisher.unconfirmed == 2, "the third was sent once"
    await confirmed(publisher)
    monkeypatch.setattr(stream_publisher, "MAX_POSTED_BYTES", 3)
    for _ in range(2):
        await publisher.post("decide.default", b"12", None)
    assert publisher.unconfirmed == 1


async def test_what_can_be_no_message_is_not_held(client: Client, publisher: StreamPublisher) -> None:
    with pytest.raises(MaxPayloadError):
        await publisher.post("decide.default", bytes(client.max_payload + 1), None)
    assert publisher.unconfirmed == 0


async def test_a_lone_broker_is_told_from_a_node_of_a_cluster(client: Client) -> None:
    assert not is_clustered(client)
    told: dict[str, Any] = {**client._server_info, "cluster": "towpath"}
    client._server_info = told
    assert is_clustered(client)
