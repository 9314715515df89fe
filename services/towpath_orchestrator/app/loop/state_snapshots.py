"""Stores states from time to time, so that a reload folds a tail and not a whole log.

A convenience: it is never waited for, and what is not stored is folded.
"""

import asyncio

from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import Moved, RunTables


class Saving:
    """Stores the state of a run once in *every* events."""

    def __init__(self, tables: RunTables, every: int, log: Logger) -> None:
        self._tables = tables
        self._every = every
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def moved(self, moved: Moved) -> None:
        """Take note of a committed transition."""
        if moved.state.is_final or moved.before_seq // self._every == moved.state.seq // self._every:
            return
        task = asyncio.create_task(self._save(moved.state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _save(self, state: RunState) -> None:
        try:
            await self._tables.save_snapshot(state)
        except DATABASE_DOWN:
            self._log.info("a state was not saved; a reload will fold more", run_id=str(state.run_id))
