"""What a process that died had committed and not yet sent is said again when the next one starts.

It decides nothing. The attempt stays the same, so the broker drops what it has already, and whoever gets something
twice answers it once. Without this an unsent decision request would wait for the end of its lease.
"""

import asyncio

from towpath_engine.requests.effects import message_of, sayable_again
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES, RunTables
from towpath_orchestrator.app.loop.effect_dispatcher import Sender

RECENT_S = 60
"""Runs that moved within this time are looked at. It is less than the broker's memory of message ids (120 s); what is
older is close to its own resend."""

AWAY_S = 1.0


class Resuming:
    """Runs once at the start of a process."""

    def __init__(self, pool: Database, tables: RunTables, sender: Sender, log: Logger, *, most: int) -> None:
        """Look at *most* runs, the latest first."""
        self._pool = pool
        self._tables = tables
        self._sender = sender
        self._log = log
        self._most = most

    async def run(self) -> None:
        """Say everything again that is pending in runs that moved lately; waits while Postgres is away."""
        while True:
            try:
                await self._say_again()
            except DATABASE_DOWN as error:
                self._log.info("postgres is away, nothing is resumed yet", error=str(error))
                await asyncio.sleep(AWAY_S)
            else:
                return

    async def _say_again(self) -> None:
        for row in await self._pool.fetch(QUERIES.moved_lately, float(RECENT_S), self._most):
            try:
                state = await self._tables.load(row["run_id"])
            except DATABASE_DOWN:
                raise
            except Exception as error:  # noqa: BLE001 - a log that can't be read is the commit loop's business
                self._log.warning("a run is not resumed", run_id=str(row["run_id"]), error=type(error).__name__)
                continue
            if state is not None:
                for pending in sayable_again(state):
                    await self._sender.send(message_of(state, pending), state)
