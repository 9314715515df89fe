"""Stores states from time to time, so that a reload folds a tail and not a whole log.

A convenience: it is never waited for, and what is not stored is folded.
"""

import asyncio

from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import INVALID_DATA
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.core.transitions import Transition


class SnapshotSaver:
    """Stores the state of a run once in *every* events."""

    def __init__(self, store: RunStore, every: int, log: Logger) -> None:
        self._store = store
        self._every = every
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def save_if_due(self, transition: Transition) -> None:
        """Store the state after a committed transition, where it is the next one to be stored."""
        state = transition.state
        if state.is_final or transition.before_seq // self._every == state.seq // self._every:
            return
        task = asyncio.create_task(self._save(state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _save(self, state: RunState) -> None:
        try:
            await self._store.save_snapshot(state)
        except (*DATABASE_DOWN, *INVALID_DATA):
            self._log.info("a state was not saved; a reload will fold more", run_id=str(state.run_id))
