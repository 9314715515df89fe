"""Gauges of what the whole platform has waiting: gates, dead letters, quarantined runs, budgets.

Every replica reads them for itself on an interval, so that a scrape costs no query, and all of them say the same: take
the maximum. While Postgres is away they stand still, which `towpath_server_up` tells.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from towpath_contracts.streams import STREAMS
from towpath_fabric.clock import wall
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.metrics import OperatingMetrics

QUERIES = Queries.load("towpath_orchestrator.adapters", "operating.sql")

EVERY_S = 15.0
"""As often as Prometheus scrapes by the example of the documents."""

UNITS = ("usd", "tokens", "model_calls", "tool_calls")


class OperatingGauges:
    """Reads what waits, and sets the gauges of one replica."""

    def __init__(
        self, pool: Database, metrics: OperatingMetrics, log: Logger, clock: Callable[[], datetime] = wall
    ) -> None:
        self._pool = pool
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._gate_types: set[str] = set()

    async def run(self) -> None:
        """Look for ever; a database that is away only delays the next look."""
        while True:
            try:
                await self.look()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, gauges stand still", error=str(error))
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Set every gauge anew."""
        metrics = self._metrics
        self._set_gates(await self._pool.fetch(QUERIES.gates))
        open_letters = {row["stream"]: row["open"] for row in await self._pool.fetch(QUERIES.dead_letters)}
        for stream in {*(one.name for one in STREAMS), *open_letters}:
            metrics.dead_open.labels(stream).set(open_letters.get(stream, 0))
        [budgets] = await self._pool.fetch(QUERIES.budgets)
        for unit in UNITS:
            metrics.budget_used.labels(unit).set(budgets[unit] or 0.0)
        [quarantined] = await self._pool.fetch(QUERIES.quarantined)
        metrics.quarantined.set(quarantined["runs"])
        metrics.clock_offset.set((self._clock() - quarantined["at"]).total_seconds())

    def _set_gates(self, rows: list[Any]) -> None:
        """Set what waits of each type; a type that waits no more is 0, so that an alert about it ends at once."""
        pending = {row["gate_type"]: row for row in rows}
        self._gate_types |= pending.keys()
        for gate_type in self._gate_types:
            row = pending.get(gate_type)
            self._metrics.gates.labels(gate_type).set(row["pending"] if row else 0)
            self._metrics.gate_oldest.labels(gate_type).set(max(0.0, row["oldest_s"]) if row else 0.0)
