"""Erasing one owner's part of runs whose erasure is confirmed: asked of Postgres now and then, and finished there.

The request is a row that says which owners are done, and each batch is one transaction that notes what it did. So
whoever dies leaves the rest to the next look, of any replica, and a part that is done twice is done once. An erasure
that fails is left for a while, and the others go on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from nats import errors as nats_errors

from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger

LOOK_S = 2.0
"""How late the owners of tables take up what was confirmed, each after the one before."""

RUNS_AT_ONCE = 50

ERASE_TIMEOUT_S = 600.0
"""Of one batch: whether another run names a blob is looked for in the logs of the whole project."""

AGAIN_AFTER_S = 60.0
"""An erasure that failed, or of which blobs wait, is left for so long: others come first."""

PurgeRuns = Callable[[Sequence[UUID]], Awaitable[None]]

_NO_DATABASE = (ConnectionError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)

ERASURE_FAILED = (TimeoutError, asyncpg.PostgresError, nats_errors.Error)
"""What may be wrong with one erasure alone: the database gave no answer in time or refuses, or the broker does."""


class ErasureStatements(NamedTuple):
    """The statements of one owner: which erasures wait for it (with their `run_ids`), and erasing the next runs of one.

    The first takes which erasures to pass over. The second takes its id and how many runs, and returns how many were
    erased; less than 0 where the rest has to wait.
    """

    due: str
    erase: str


class DeferredErasures:
    """The erasures that are left for a while, so that one that can't be finished never holds up the others."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def add(self, erasure_id: UUID) -> None:
        """Leave an erasure for AGAIN_AFTER_S."""
        self._until[erasure_id] = monotonic() + AGAIN_AFTER_S

    def ids(self) -> list[UUID]:
        """Return which erasures are left now."""
        now = monotonic()
        self._until = {erasure_id: until for erasure_id, until in self._until.items() if until > now}
        return list(self._until)

    async def carry_out(self, erasure_id: UUID, work: Awaitable[None], log: Logger) -> None:
        """Do *work* for one erasure; what it raises is logged, and raised only where the database is away."""
        try:
            await work
        except _NO_DATABASE:
            raise
        except ERASURE_FAILED as error:
            self.add(erasure_id)
            reason = f"{type(error).__name__}: {error}"
            log.warning("a confirmed erasure was not finished", erasure_id=str(erasure_id), error=reason)


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
        self._deferred = DeferredErasures()

    async def run(self) -> None:
        """Look for ever; a database that is away only delays it."""
        while True:
            try:
                await self.finish()
            except (*DATABASE_DOWN, *ERASURE_FAILED) as error:
                self._log.warning("confirmed erasures of runs were not finished", error=str(error))
            await asyncio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Erase this service's part of every run whose erasure is confirmed."""
        for row in await self._pool.fetch(self._statements.due, self._deferred.ids()):
            erasure_id = row["erasure_id"]
            await self._deferred.carry_out(erasure_id, self._erase(erasure_id, row["run_ids"]), self._log)

    async def _erase(self, erasure_id: UUID, run_ids: Sequence[UUID]) -> None:
        if self._purge is not None and run_ids:
            await self._purge(run_ids)
        erased = RUNS_AT_ONCE
        while erased >= RUNS_AT_ONCE:
            try:
                erased = await self._erase_next(erasure_id)
            except asyncpg.RaiseError as error:  # not in the log, or done meanwhile by another replica
                self._log.warning("an erasure is not carried out", erasure_id=str(erasure_id), error=str(error))
                return
        if erased < 0:
            self._deferred.add(erasure_id)

    async def _erase_next(self, erasure_id: UUID) -> int:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SET LOCAL statement_timeout = '{ERASE_TIMEOUT_S:.0f}s'")  # the role's is shorter
            erase = self._statements.erase
            erased: int = await connection.fetchval(erase, erasure_id, RUNS_AT_ONCE, timeout=ERASE_TIMEOUT_S)
        return erased
