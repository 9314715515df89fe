"""Gauges of queues, workers and the audit: what waits for whom, how long the oldest has, what is not sealed yet.

Every replica reads them on an interval, so that a scrape costs no query and no question to the broker; all of them say
the same. Of toolsets there may be any number, so at most MAX_POOLS are told, and how many were left out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.js.errors import APIError

from towpath_contracts.base import JsonObject
from towpath_contracts.streams import STREAMS, ConsumerSpec, exec_consumer
from towpath_contracts.tools.workers import GONE_S
from towpath_fabric.clock import wall
from towpath_fabric.nats.streams import ask_broker
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.app.queue_queries import AT_ONCE, PLATFORM_CONSUMERS
from towpath_tas.metrics import QueueMetrics

QUERIES = Queries.load("towpath_tas.adapters", "operating.sql")

EVERY_S = 15.0
"""As often as Prometheus scrapes by the example of the documents."""

MAX_POOLS = 200
"""Toolsets of all projects that are told: each is some series, and questions to the broker."""

NOT_FOUND = 404
"""The broker's code for a message that is not there."""

BROKER_AWAY = (TimeoutError, APIError, nats_errors.Error)


class QueueGauges:
    """Asks the broker and Postgres, and sets the gauges of one replica."""

    def __init__(
        self,
        pool: Database,
        nc: Client,
        metrics: QueueMetrics,
        log: Logger,
        clock: Callable[[], datetime] = wall,
    ) -> None:
        self._pool = pool
        self._nc = nc
        self._metrics = metrics
        self._log = log
        self._clock = clock

    async def run(self) -> None:
        """Look for ever; a server that is away only delays the next look."""
        while True:
            try:
                await self.look()
            except (*DATABASE_DOWN, *BROKER_AWAY) as error:
                self._log.debug("a server is away, gauges stand still", error=str(error))
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Set every gauge anew."""
        await self._look_at_audit()
        toolsets = [(row["project"], row["toolset"]) for row in await self._pool.fetch(LEDGER.toolsets)]
        told = sorted(toolsets)[:MAX_POOLS]
        self._metrics.left_out.set(len(toolsets) - len(told))
        heard = await self._pool.fetch(QUERIES.workers, GONE_S)
        workers = Counter({(row["project"], row["toolset"]): row["workers"] for row in heard})
        room = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(self._pool_state(room, exec_consumer(*place)) for place in told))
        metrics = self._metrics
        for gauge in (metrics.pool_waiting, metrics.pool_in_flight, metrics.pool_oldest, metrics.pool_workers):
            gauge.clear()  # of toolsets that are gone; nothing is awaited until all are set again
        for place, state in zip(told, found, strict=True):
            metrics.pool_workers.labels(*place).set(workers[place])
            if state is not None:
                waiting, in_flight, oldest_s = state
                metrics.pool_waiting.labels(*place).set(waiting)
                metrics.pool_in_flight.labels(*place).set(in_flight)
                metrics.pool_oldest.labels(*place).set(oldest_s)
        await self._look_at_streams()

    async def _look_at_audit(self) -> None:
        [audit] = await self._pool.fetch(QUERIES.audit)
        self._metrics.unsealed.set(audit["unsealed"])
        self._metrics.unsealed_oldest.set(max(0.0, audit["oldest_s"]))
        self._metrics.clock_offset.set((self._clock() - audit["at"]).total_seconds())

    async def _pool_state(self, room: asyncio.Semaphore, consumer: ConsumerSpec) -> tuple[int, int, float] | None:
        """Return what waits, what is under way, and how old the oldest is that waits; None where there is no queue."""
        async with room:
            try:
                found = await ask_broker(self._nc, f"CONSUMER.INFO.{consumer.stream}.{consumer.durable}")
                waiting = found.get("num_pending", 0)
                oldest_s = await self._oldest_s(consumer, found["delivered"]["stream_seq"]) if waiting else 0.0
            except BROKER_AWAY:
                return None
        return waiting, found.get("num_ack_pending", 0), oldest_s

    async def _oldest_s(self, consumer: ConsumerSpec, delivered: int) -> float:
        """Return the age of the first message behind those that were delivered; 0 where it was taken just now."""
        asked: JsonObject = {"seq": delivered + 1, "next_by_subj": consumer.filter_subject}
        try:
            found = await ask_broker(self._nc, f"STREAM.MSG.GET.{consumer.stream}", asked)
        except APIError as error:
            if error.code == NOT_FOUND:
                return 0.0
            raise
        return self._age_s(found["message"]["time"])

    async def _look_at_streams(self) -> None:
        for consumer in PLATFORM_CONSUMERS:
            try:
                found = await ask_broker(self._nc, f"CONSUMER.INFO.{consumer.stream}.{consumer.durable}")
            except APIError:  # its service, such as the decider, was never started
                continue
            names = (consumer.stream, consumer.durable)
            self._metrics.waiting.labels(*names).set(found.get("num_pending", 0))
            self._metrics.in_flight.labels(*names).set(found.get("num_ack_pending", 0))
        for stream in STREAMS:
            state = (await ask_broker(self._nc, f"STREAM.INFO.{stream.name}"))["state"]
            self._metrics.filled.labels(stream.name).set(state["bytes"] / stream.max_bytes)
            if stream.retention == "workqueue":
                oldest_s = self._age_s(state["first_ts"]) if state["messages"] else 0.0
                self._metrics.stream_oldest.labels(stream.name).set(oldest_s)

    def _age_s(self, since: Any) -> float:
        return max(0.0, (self._clock() - datetime.fromisoformat(since)).total_seconds())
