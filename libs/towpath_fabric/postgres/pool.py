"""Postgres for services: a pool, and statements that live in files.

SQL is a file of named statements beside its owner; Python never builds SQL from values. A statement is found by
its name, `-- name: what_it_does`, and prepared once per connection by asyncpg.
"""

import importlib.resources
import re
from collections.abc import Awaitable
from typing import Any

import asyncpg

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.outages.outage import Outage
from towpath_fabric.postgres.connection_refusals import missing_file, refusal
from towpath_fabric.postgres.database_hosts import DatabaseHosts, HostConnection, StatementWatch
from towpath_fabric.postgres.refused_values import ENCODING_REFUSED
from towpath_fabric.settings import STATEMENT_CACHE

_NAME = re.compile(r"^--\s*name:\s*(\w+)\s*$", re.MULTILINE)

DATABASE_DOWN = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # raised where the connection is cut in the middle of an answer
    asyncpg.OperatorInterventionError,  # class 57: shut down, starting, cancelled by an operator
    asyncpg.InsufficientResourcesError,  # class 53: disk full, out of memory, too many connections
    asyncpg.PostgresSystemError,  # class 58: I/O errors
    asyncpg.TransactionRollbackError,  # class 40: deadlock, serialization
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a database that was made read-only
    asyncpg.ObjectNotInPrerequisiteStateError,  # class 55: takes no connections just now, or a lock is not available
    asyncpg.InvalidCatalogNameError,  # the database is being replaced
    asyncpg.InvalidAuthorizationSpecificationError,  # class 28: a login that was revoked or rotated
    TimeoutError,
)
"""What is raised while Postgres is unreachable; it is not the fault of the message being handled."""

DATABASE_STARTING = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.TargetServerAttributeNotMatched,  # of several hosts none takes writes now: a standby may be promoted yet
)
"""What a first connection raises while Postgres is starting; a wrong address or password raises something else."""

NO_OUTAGE = (
    asyncpg.TransactionRollbackError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.ObjectInUseError,
)
"""What DATABASE_DOWN has besides, because the statement is worth another try: Postgres is there."""


class Queries:
    """The named statements of one file."""

    def __init__(self, text: str) -> None:
        """Parse *text*; raises ValueError where a name is given twice."""
        parts = _NAME.split(text)
        self._statements: dict[str, str] = {}
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in self._statements:
                msg = f"statement {name} is declared twice"
                raise ValueError(msg)
            self._statements[name] = body.strip().rstrip(";")

    @classmethod
    def load(cls, package: str, file: str = "queries.sql") -> "Queries":
        """Read the statements of *file* in *package*."""
        return cls(importlib.resources.files(package).joinpath(file).read_text("utf-8"))

    def __getattr__(self, name: str) -> str:
        """Return the statement *name*; raises AttributeError for an unknown one."""
        try:
            return self._statements[name]
        except KeyError:
            raise AttributeError(name) from None


SESSION_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "search_path": "pg_catalog, pg_temp",
    "statement_timeout": "30000",
    "idle_in_transaction_session_timeout": "20000",
    "client_connection_check_interval": "1000",
}
"""A statement is planned once, when its tables may be nearly empty. Without `enable_seqscan` it would read them whole
from then on, until they are analysed, however long they have become. With the fixed path, names without a schema are
Postgres's own, whatever else was set for a role or a database. Postgres ends a statement after so many ms, and looks
each second whether who asked is still there; neither ends a commit that waits for a standby. Where a process stands
still within a transaction, its connection ends, and what it holds is free."""

GIVEN_UP_S = 35.0
"""A statement that is not answered after so long is given up, and its connection with it: Postgres itself ends one that
merely lasts before that."""


def note_failure(outage: Outage | None, error: Exception) -> None:
    """Tell *outage* of an error, where it is a sign of one."""
    if outage is not None and not isinstance(error, NO_OUTAGE):
        outage.failed(error)


COMMIT = "COMMIT;"
"""What asyncpg's transactions send at their end."""


class StoringConnection(HostConnection):
    """Raises `asyncpg.DataError` for what asyncpg itself refuses, such as a number that its column has no room for.

    asyncpg's own error for that is one of its errors of connections. Whoever waits while Postgres is away would wait
    for ever, as the value stays the same. What fails and what works is told to `outage`. Where the database has several
    `hosts` the connection ends, and with it a statement, once its host is silent or takes no more writes.
    """

    outage: Outage | None = None
    hosts: DatabaseHosts
    _is_committing = False
    _is_given_up = False

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._told(super().fetch(query, *args, **options))

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._told(super().fetchrow(query, *args, **options))

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._told(super().fetchval(query, *args, **options))

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        self._is_committing = query == COMMIT
        return await self._told(super().execute(query, *args, **options))

    def _cancel_current_command(self, *waiters: Any) -> None:
        """Leave the connection where a statement that commits is given up.

        asyncpg would ask Postgres to cancel it. A commit that waits for its synchronous standby would then be done on
        the primary alone, in sight of everybody: whoever tries again finds it and acknowledges what one dead server
        loses. Without being asked Postgres goes on waiting, and nobody sees the transaction until the standby has it.
        """
        if self.is_in_transaction() and not self._is_committing:
            super()._cancel_current_command(*waiters)
            return
        self._is_given_up = True
        self._loop.call_soon(self.terminate)  # asyncpg has yet to note that it has asked

    async def _told(self, asked: Awaitable[Any]) -> Any:
        watch = None if self.host is None else StatementWatch(self.hosts, self, self.host)
        try:
            found = await asked
        except ENCODING_REFUSED as error:
            raise asyncpg.DataError(str(error)) from error
        except DATABASE_DOWN as error:
            note_failure(self.outage, error)
            if self.host is not None and isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                self.terminate()
            raise
        finally:
            if watch is not None:
                watch.over()
            if self._is_given_up:
                self.terminate()  # before the pool takes it back
        if self.outage is not None and self.outage.is_on:
            self.outage.worked()
        return found


async def open_pool(
    dsn: str,
    size: int,
    application: str,
    outage: Outage | None = None,
    *,
    statement_cache: int = STATEMENT_CACHE,
) -> "asyncpg.Pool[Any]":
    """Open a small pool. JSON travels as text on both sides, so it is encoded once, by pydantic.

    Sessions are never given state (no SET, LISTEN or session locks), so returning a connection costs no round trip.
    *outage* is told of each connection and statement that fails, and of the first that works again. Of several hosts
    in *dsn* it connects to the one that takes writes. With a *statement_cache* of 0 no statement outlives a transaction
    on a server connection: asyncpg sends one and its values with a single Sync, so no pooler changes the connection in
    between. Nor is a parameter sent that poolers refuse: the roles have SESSION_SETTINGS then (`0001_roles.sql`).
    Raises ProblemError for a refusal that stays the same however often it is tried.
    """

    class PoolConnection(StoringConnection):
        """A connection of this pool."""

    PoolConnection.hosts = hosts = DatabaseHosts(dsn)
    PoolConnection.outage = outage

    async def connect(_dsn: str, **options: Any) -> Any:
        try:
            return await hosts.connect(**options)
        except DATABASE_DOWN as error:
            if refusal(error) is None or opened:
                note_failure(outage, error)
            raise

    if (missing := missing_file(dsn)) is not None:
        raise ProblemError(missing)
    opened = False
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size,
            command_timeout=GIVEN_UP_S,
            reset=_keep,
            connect=connect,
            connection_class=PoolConnection,
            statement_cache_size=statement_cache,
            server_settings={"application_name": application, **(SESSION_SETTINGS if statement_cache else {})},
        )
    except Exception as error:
        if (found := refusal(error)) is not None:
            raise ProblemError(found) from error
        raise
    opened = True
    return pool


async def differing_settings(pool: Any) -> list[str]:
    """Return what of SESSION_SETTINGS is otherwise in a session of *pool*: statements are planned worse then."""
    rows = await pool.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1)", list(SESSION_SETTINGS))
    return sorted(row["name"] for row in rows if row["setting"] != SESSION_SETTINGS[row["name"]])


async def _keep(_connection: Any) -> None:
    return
