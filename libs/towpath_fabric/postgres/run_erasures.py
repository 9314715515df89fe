"""Erasing one owner's part of runs whose erasure is confirmed: asked of Postgres now and then, and finished there.

The request is a row that says which owners are done, and each batch is one transaction that notes what it did. So
whoever dies leaves the rest to the next look, of any replica, and a part that is done twice is done once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from nats import errors as nats_errors

from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger

LOOK_S = 2.0
"""How late the owners of tables take up what was confirmed, each after the one before."""

RUNS_AT_ONCE = 50

ERASE_TIMEOUT_S = 600.0
"""Of one batch: whether another run names a blob is looked for in the logs of the whole project."""


PurgeRuns = Callable[[Sequence[UUID]], Awaitable[None]]

BROKER_DOWN = (TimeoutError, nats_errors.Error)
"""What a purge raises where the broker is away or refuses."""


class ErasureStatements(NamedTuple):
    """The statements of one owner: which erasures wait for it (with their `run_ids`), and erasing the next runs of one.

    The second takes its id and how many runs, and returns how many were erased.
    """

    due: str
    erase: str


class RunErasureLoop:
    """Erases what one service owns. `run` never returns."""

    def __init__(
        self, pool: Any, statements: ErasureStatements, log: Logger, *, purge: PurgeRuns | None = None
    ) -> None:  # fmt: skip
        """*purge* takes what messages say of runs, before rows go; what it raises is logged, and all is tried again."""
        self._pool = pool
        self._statements = statements
        self._log = log
        self._purge = purge

    async def run(self) -> None:
        """Look for ever; a database that is away only delays it."""
        while True:
            try:
                await self.finish()
            except (*DATABASE_DOWN, *BROKER_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("a confirmed erasure of a run was not finished", error=str(error))
            await asyncio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Erase this service's part of every run whose erasure is confirmed."""
        for row in await self._pool.fetch(self._statements.due):
            if self._purge is not None:
                await self._purge(row["run_ids"])
            await self._erase(row["erasure_id"])

    async def _erase(self, erasure_id: UUID) -> None:
        while True:
            try:
                erased = await self._pool.fetchval(
                    self._statements.erase, erasure_id, RUNS_AT_ONCE, timeout=ERASE_TIMEOUT_S
                )
            except asyncpg.RaiseError as error:  # not in the log, or done meanwhile by another replica
                self._log.warning("an erasure is not carried out", erasure_id=str(erasure_id), error=str(error))
                return
            if erased < RUNS_AT_ONCE:
                return
