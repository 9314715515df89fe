"""What operators see of queues, workers and the audit, as the broker and Postgres have it."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.integration.tas.worker_instances.test_worker_instances import beat
from tests.support.tas.tas_caller import tool
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts.streams import exec_consumer
from towpath_fabric.clock import wall
from towpath_tas.app import queue_gauges
from towpath_tas.app.queue_gauges import QueueGauges
from towpath_tas.metrics import QueueMetrics

__all__ = ["shared_tas", "tas"]


class Seen:
    """The gauges of a replica beside the one that runs."""

    def __init__(self, place: Running, pool: Any) -> None:
        self.registry = CollectorRegistry()
        self.ahead = timedelta()
        self._project = place.caller.project
        metrics, log = QueueMetrics(self.registry), structlog.get_logger()
        self.gauges = QueueGauges(pool, place.caller.nc, metrics, log, self._now)

    def _now(self) -> datetime:
        return wall() + self.ahead

    async def pool(self, name: str, toolset: str = "orders") -> float | None:
        await self.gauges.look()
        return self.told(name, project=self._project, toolset=toolset)

    def told(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def pools(self) -> int:
        [workers] = [one for one in self.registry.collect() if one.name == "towpath_pool_workers"]
        return len(workers.samples)


@pytest.fixture
async def seen(tas: Running) -> AsyncIterator[Seen]:
    pool = await asyncpg.connect(tas.dsn)
    try:
        yield Seen(tas, pool)
    finally:
        await pool.close()


async def test_calls_that_wait_for_a_worker_are_counted_with_the_age_of_the_oldest(tas: Running, seen: Seen) -> None:
    assert await seen.pool("towpath_pool_waiting") == 0
    assert seen.told("towpath_pool_oldest_seconds", project=tas.caller.project, toolset="orders") == 0
    await tas.caller.call("orders.find")
    await tas.caller.call("orders.find")
    seen.ahead = timedelta(minutes=10)
    assert await seen.pool("towpath_pool_waiting") == 2
    oldest = await seen.pool("towpath_pool_oldest_seconds")
    assert oldest is not None and 600 <= oldest < 1_200
    offset = seen.told("towpath_clock_offset_seconds")
    assert offset is not None and 550 < offset < 650
    assert (seen.told("towpath_stream_oldest_seconds", stream="TOOLEXEC") or 0) >= 600
    durable = exec_consumer(tas.caller.project, "orders").durable
    subscription = await tas.caller.nc.jetstream().pull_subscribe_bind(durable, "TOOLEXEC")
    await subscription.fetch(1)
    assert await seen.pool("towpath_pool_in_flight") == 1
    assert await seen.pool("towpath_pool_waiting") == 1


async def test_workers_are_those_that_are_heard_of_and_take_calls(tas: Running, seen: Seen) -> None:
    caller, one = tas.caller, uuid.uuid4().hex
    assert await seen.pool("towpath_pool_workers") == 0, "a toolset that nobody serves is told"
    await beat(caller, one)
    await beat(caller, uuid.uuid4().hex)
    assert await seen.pool("towpath_pool_workers") == 2
    owner = await asyncpg.connect(tas.dsn)
    try:
        await owner.execute("UPDATE tas.worker SET heard_at = now() - interval '1 minute' WHERE worker_id = $1", one)
        assert await seen.pool("towpath_pool_workers") == 1
        await owner.execute("UPDATE tas.worker SET drained_at = now() WHERE project = $1", caller.project)
    finally:
        await owner.close()
    assert await seen.pool("towpath_pool_workers") == 0


async def test_so_many_toolsets_are_told_and_no_more(tas: Running, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert queue_gauges.MAX_POOLS == 200, "a look asks the broker about each"
    await tas.caller.register(tool("zoo.read", "pure", operation="read", toolset="zoo"))
    await seen.gauges.look()
    everything = seen.pools()
    assert seen.told("towpath_pools_left_out") == 0 and everything > 1
    monkeypatch.setattr(queue_gauges, "MAX_POOLS", 1)
    await seen.gauges.look()
    assert (seen.pools(), seen.told("towpath_pools_left_out")) == (1, everything - 1)


async def test_what_is_not_sealed_yet_is_counted_with_its_age(tas: Running, seen: Seen) -> None:
    owner = await asyncpg.connect(tas.dsn)
    try:
        async with owner.transaction():
            await owner.execute("LOCK TABLE tas.audit_leaf IN ACCESS EXCLUSIVE MODE")  # sealing waits for it
            await tas.caller.call("orders.find")
            await seen.gauges.look()
            assert (seen.told("towpath_audit_unsealed") or 0) > 0
            assert 0 < (seen.told("towpath_audit_unsealed_oldest_seconds") or 0) < 600
    finally:
        await owner.close()


async def test_a_service_that_was_never_started_has_no_queue_and_hides_no_other(seen: Seen) -> None:
    await seen.gauges.look()
    assert seen.told("towpath_queue_waiting", stream="TOOLREQ", consumer="tas") == 0
    assert seen.told("towpath_stream_used_ratio", stream="TOOLEXEC") is not None


async def test_the_running_service_has_the_rights_that_its_gauges_need(tas: Running) -> None:
    until = time.monotonic() + 60
    while 'towpath_stream_used_ratio{stream="TOOLEXEC"}' not in await tas.service.metrics():  # the last that is asked
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
