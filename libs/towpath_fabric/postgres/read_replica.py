"""Lists, searches and history from a replica of the database, so that they take nothing from what moves runs.

What decides anything reads the primary. The replica is read while it is known to hold all that the primary had
committed a moment ago, and the primary else: where the replica is away, lags, or is no replica any more. How far it is
behind is found by positions in the write-ahead log and the clock of this process alone, so that no clocks are compared,
and a replica that gets nothing from its primary lags as one that is slow does.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry, Counter, Gauge

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.clock import monotonic
from towpath_fabric.outages.outage import Outage
from towpath_fabric.ports import ConnectionAcquisition, Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, NO_OUTAGE, open_pool
from towpath_fabric.service import Service

COMPARED_EVERY_S: Final = 0.25
"""Between two looks, of two short statements each."""

TRIED_EVERY_S: Final = 2.0
"""Between two looks for a replica that is not there: each opens a connection."""

ANSWERS_S: Final = 2.0
"""How long a look may take; what was asked of a replica that is silent for longer is asked of the primary."""

MAX_POSITIONS: Final = 1_000
"""Positions of the primary that are waited for; a replica that is further behind is read once it has all of them."""

REMEDY: Final = (
    "Start the replica, or correct the address: TOWPATH_READ_DATABASE_HOSTS. Until then the primary is read."
)

WRITTEN: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
REPLAYED: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END"
    " AS position, pg_postmaster_start_time() AS server"
)

_OF_A_HOST: Final = frozenset({"host", "port", "target_session_attrs"})
"""Options of an address that say where it leads."""


class NoReplicaError(Exception):
    """The server takes writes itself: what it holds need not be what the primary holds."""


class ReplicaLag:
    """How long ago all was committed that a replica is known to hold; times are in seconds, of one clock."""

    def __init__(self) -> None:
        self._awaited: deque[tuple[float, int]] = deque(maxlen=MAX_POSITIONS)
        self._holds_until: float | None = None
        self._server: object = None

    def wrote(self, position: int, asked_at: float) -> None:
        """Note that the primary, *asked_at* then, had written its log up to *position*."""
        self._awaited.append((asked_at, position))

    def replayed(self, position: int, server: object) -> None:
        """Note that *server* has replayed up to *position*; another one than before may be further behind."""
        if server != self._server:
            self._server = server
            self.forget()
        while self._awaited and self._awaited[0][1] <= position:
            self._holds_until, _ = self._awaited.popleft()

    def forget(self) -> None:
        """Know nothing of the replica until it is compared again."""
        self._holds_until = None

    def seconds(self, now: float) -> float:
        """Return how old what the replica holds is at most; infinite where nothing is known of it."""
        return math.inf if self._holds_until is None else now - self._holds_until


class ReadReplica:
    """Reads from the pool that *connect* opens while it lags *max_lag_s* at most, and else from *primary*.

    A read that fails at the replica, or waits for a replica that has fallen silent, is done at the primary.
    """

    def __init__(
        self,
        primary: Database,
        connect: Callable[[], Awaitable[Any]],
        *,
        max_lag_s: float,
        outage: Outage,
        registry: CollectorRegistry,
    ) -> None:
        self._primary = primary
        self._connect = connect
        self._max_lag_s = max_lag_s
        self._outage = outage
        self._replica: Any = None
        self._lag = ReplicaLag()
        self._silent = asyncio.Event()
        self._reads = Counter(
            "towpath_reads",
            "Reads of lists, searches and history, by where they were done",
            ("server",),
            registry=registry,
        )
        lag = Gauge("towpath_read_replica_lag_seconds", "How old what the replica holds is at most", registry=registry)
        lag.set_function(lambda: self._lag.seconds(monotonic()))

    @property
    def is_read(self) -> bool:
        """Whether the next read goes to the replica."""
        return self._replica is not None and self._lag.seconds(monotonic()) <= self._max_lag_s

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._read("fetch", query, values)
        return rows

    async def fetchrow(self, query: str, *values: Any) -> Any:
        return await self._read("fetchrow", query, values)

    async def fetchval(self, query: str, *values: Any) -> Any:
        return await self._read("fetchval", query, values)

    async def execute(self, query: str, *values: Any) -> str:
        """Run a statement at the primary, since it may write."""
        return await self._primary.execute(query, *values)

    def acquire(self) -> ConnectionAcquisition:
        """Acquire a connection to the primary, since it may write."""
        return self._primary.acquire()

    async def release(self, connection: Any) -> None:
        """Release what `acquire` gave."""
        await self._primary.release(connection)

    async def run(self) -> None:
        """Look how far the replica is; never returns."""
        while True:
            await self.look()
            await asyncio.sleep(COMPARED_EVERY_S if self._replica is not None else TRIED_EVERY_S)

    async def look(self) -> None:
        """Compare the replica with the primary once; a primary that is away is told of by others."""
        asked_at = monotonic()
        try:
            self._lag.wrote(await self._primary.fetchval(WRITTEN), asked_at)
        except DATABASE_DOWN:
            return
        try:
            async with asyncio.timeout(ANSWERS_S):
                if self._replica is None:
                    self._replica = await self._connect()
                replica = await self._replica.fetchrow(REPLAYED)
        except (*DATABASE_DOWN, ProblemError) as error:
            self._lag.forget()
            self._silent.set()
            self._silent = asyncio.Event()
            self._outage.failed(error)
            return
        if replica["position"] is None:
            self._lag.forget()
            self._outage.failed(NoReplicaError("it takes writes, and is no replica"))
            await self.close()  # of several hosts another one may be a standby
            return
        self._outage.worked()
        self._lag.replayed(replica["position"], replica["server"])

    async def close(self) -> None:
        """End the connections to the replica."""
        if self._replica is not None:
            self._replica.terminate()
            self._replica = None

    async def _read(self, method: str, query: str, values: tuple[Any, ...]) -> Any:
        if self.is_read:
            try:
                found = await self._unless_silent(getattr(self._replica, method)(query, *values))
            except DATABASE_DOWN as error:  # a replica also ends statements that keep it from following its primary
                if not isinstance(error, NO_OUTAGE):
                    self._outage.failed(error)
            else:
                self._reads.labels("replica").inc()
                return found
        self._reads.labels("primary").inc()
        return await getattr(self._primary, method)(query, *values)

    async def _unless_silent(self, asked: Awaitable[Any]) -> Any:
        """Return what the replica answers; raises TimeoutError where a look finds meanwhile that it is silent."""
        answer, silence = asyncio.ensure_future(asked), asyncio.ensure_future(self._silent.wait())
        try:
            await asyncio.wait((answer, silence), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise TimeoutError
            return answer.result()
        finally:
            silence.cancel()
            answer.cancel()


def reading_database(service: Service) -> Database:
    """Return what *service* reads lists, searches and history from; called once the service has its pool."""
    settings = service.settings
    if not settings.read_database_hosts:
        primary: Database = service.pool
        return primary
    dsn = at_hosts(settings.dsn(), settings.read_database_hosts)
    outage = Outage(service.role, "the read replica", REMEDY)

    async def connect() -> Any:
        application = f"towpath_{service.role} reads"
        return await open_pool(
            dsn, settings.database_pool, application, statement_cache=settings.database_statement_cache
        )

    replica = ReadReplica(
        *(service.pool, connect), max_lag_s=settings.read_max_lag_s, outage=outage, registry=service.registry
    )
    service.loop(replica.run)
    service.on_stop(replica.close)
    return replica


def at_hosts(dsn: str, hosts: str) -> str:
    """Return the address *dsn* with *hosts* in the place of its own, of which only a standby is connected to."""
    parts = urlsplit(dsn)
    login, at, _ = parts.netloc.rpartition("@")
    options = [option for option in parse_qsl(parts.query) if option[0] not in _OF_A_HOST]
    options.append(("target_session_attrs", "standby"))
    return urlunsplit(parts._replace(netloc=f"{login}{at}{hosts}", query=urlencode(options)))
