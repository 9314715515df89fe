"""Records the spans of a run when it has ended: the run, its steps, its tool calls.

Off the hot path and never in the way. A run whose spans could not be read is simply not traced.
"""

import asyncio
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.events.log import LogEntry
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import Telemetry
from towpath_orchestrator.adapters.run_store import QUERIES, read_entry
from towpath_readings.run_spans import run_spans

PAGE = 500
"""Events read at a time."""

AT_ONCE = 2
"""Runs whose logs are read at the same time; a flood of ended runs waits its turn."""


class RunTracing:
    """Reads the logs of ended runs in the background and records their spans."""

    def __init__(self, pool: Any, telemetry: Telemetry, log: Logger) -> None:
        self._pool = pool
        self._telemetry = telemetry
        self._log = log
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def ended(self, run_id: UUID) -> None:
        """Trace a run that has just ended; costs nothing where spans go nowhere."""
        if self._telemetry.enabled:
            task = asyncio.create_task(self._record(run_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _record(self, run_id: UUID) -> None:
        async with self._room:
            try:
                entries = await self._entries(run_id)
                self._telemetry.record(run_id, *run_spans(run_id, entries))
            except (*DATABASE_DOWN, ValidationError) as error:
                self._log.info("a run is not traced", run_id=str(run_id), error=str(error))

    async def _entries(self, run_id: UUID) -> list[LogEntry]:
        entries: list[LogEntry] = []
        while True:
            after = entries[-1].seq if entries else 0
            rows = await self._pool.fetch(QUERIES.events_page, run_id, after, PAGE)
            entries.extend(read_entry(row) for row in rows)
            if len(rows) < PAGE:
                return entries
