"""A watched message while the database of one replica is away: where it goes before its mark, and where it stays."""

import asyncio
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.integration.fabric.test_poison_messages import SPEC, Unreachable, Watched, nc, watched
from tests.support.waiting import eventually

from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_fabric.redelivery import poison_messages

__all__ = ["nc", "watched"]


async def test_one_that_waits_for_its_mark_goes_to_a_replica_that_has_a_database(watched: Watched, nc: Any) -> None:
    away = Unreachable(watched.pool, 10_000, "fetchval")
    coming = asyncio.create_task(watched.come(guard=watched.guard(away)))
    await eventually(lambda: watched.consumer.paused)
    other = PullConsumer(nc, SPEC)
    await other.start()
    (copy,) = await asyncio.wait_for(other.take(1), 60)
    async with watched.guard().alone(copy, watched.refuse) as admitted:
        assert admitted
    assert await watched.marks() == [(0, False)]
    away.left.clear()
    assert await coming
    await other.stop()


async def test_one_that_is_marked_is_kept_though_its_mark_can_not_be_removed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    extended: list[Msg] = []

    async def in_progress(message: Msg) -> None:
        extended.append(message)

    monkeypatch.setattr(poison_messages, "in_progress", in_progress)
    away = Unreachable(watched.pool, 10_000, "execute")
    coming = asyncio.create_task(watched.come(guard=watched.guard(away)))
    await eventually(lambda: watched.consumer.paused)
    extended.clear()
    await eventually(lambda: len(extended) >= 3)
    away.left.clear()
    assert await coming
