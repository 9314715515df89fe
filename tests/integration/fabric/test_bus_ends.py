"""A bus connects until it is told to end, and then ends in time, whatever answers at the broker's port."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

BUSES = 60
"""Of the attempts that are cancelled at such moments nats-py forgets one in five."""

GRACE_S = 0.5
SOON_S = 20
LARGE = b"x" * 900_000


async def test_connecting_ends_when_it_is_cancelled_at_any_moment() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x"}\r\n')
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        settings = Settings.model_validate({"nats_url": f"nats://127.0.0.1:{port}", "nats_owner": os.geteuid() + 1})
        tasks = [asyncio.create_task(Bus("tas", settings).connect()) for _ in range(BUSES)]
        moments = random.Random(7)
        for task in tasks:
            await asyncio.sleep(moments.random() * 0.02)
            task.cancel()
        _, going_on = await asyncio.wait(tasks, timeout=SOON_S)
        for task in going_on:
            task.cancel()
        assert not going_on
        assert all(task.cancelled() for task in tasks)


async def test_a_task_that_was_cancelled_before_may_still_connect(nats_server: Nats) -> None:
    connected: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(SOON_S)
        finally:
            bus = Bus("tas", Settings.model_validate({"nats_url": nats_server.url()}))
            await bus.connect()
            connected.append(bus.connected)
            await bus.close()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=SOON_S)
    assert connected == [True]


@pytest.fixture
async def stuck(nats_server: Nats) -> AsyncIterator[tuple[Bus, Client]]:
    """A bus whose broker stands still and has not taken all that was sent."""
    bus = Bus("tas", Settings.model_validate({"nats_url": nats_server.url(), "stop_grace_s": GRACE_S}))
    nc = await bus.connect()
    assert nats_server.process is not None
    nats_server.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(20):
            await bus.publish("run.inbox.1", LARGE)
            await asyncio.sleep(0)
        yield bus, nc
    finally:
        nats_server.process.send_signal(signal.SIGCONT)


async def test_a_bus_is_closed_in_time_while_its_broker_stands_still(stuck: tuple[Bus, Client]) -> None:
    bus, nc = stuck
    begun = time.monotonic()
    await asyncio.wait_for(bus.close(), GRACE_S + SOON_S)
    assert time.monotonic() - begun >= GRACE_S
    assert nc.is_closed
    assert not [task for task in asyncio.all_tasks() if "nats" in repr(task.get_coro())]


async def test_closing_a_bus_ends_when_it_is_cancelled(stuck: tuple[Bus, Client]) -> None:
    bus, nc = stuck
    closing = asyncio.create_task(bus.close())
    await asyncio.sleep(GRACE_S / 5)
    assert not closing.done()
    closing.cancel()
    await asyncio.wait([closing], timeout=SOON_S)
    assert closing.cancelled()
    assert nc.is_closed


async def test_a_request_is_cancelled_also_where_its_answer_comes_at_the_same_time(nats_server: Nats) -> None:
    bus = Bus("tas", Settings(nats_url=nats_server.url()))
    await bus.connect()
    answered = bus.nc._request_sub_callback

    async def answer(message: Msg) -> None:
        await message.respond(b"answer")

    async def cancel_with_the_answer(message: Msg) -> None:
        await answered(message)
        asking.cancel()

    await bus.nc.subscribe("question", cb=answer)
    bus.nc._request_sub_callback = cancel_with_the_answer  # type: ignore[method-assign]
    asking = asyncio.create_task(bus.nc.request("question", b"", timeout=SOON_S))
    await asyncio.wait([asking], timeout=SOON_S)
    assert asking.cancelled()
    await bus.close()


async def test_what_cleans_up_in_a_task_that_was_cancelled_may_still_ask(nats_server: Nats) -> None:
    bus = Bus("tas", Settings(nats_url=nats_server.url()))
    await bus.connect()
    told: list[bytes] = []

    async def answer(message: Msg) -> None:
        await message.respond(b"answer")

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append((await bus.nc.request("question", b"", timeout=SOON_S)).data)

    await bus.nc.subscribe("question", cb=answer)
    task = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=SOON_S)
    assert (task.cancelled(), told) == (True, [b"answer"])
    await bus.close()
