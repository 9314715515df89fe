"""Postgres in memory for one process: sessions, transactions and locks over tables.

A statement is one moment: it does what the SQL does, whole or not at all. A transaction's writes are seen by others
from its commit on, and what it locks is free again when it ends.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from towpath_fabric.clock import wall
from towpath_testing.tables.table_database import BlockedError, Handler


class MemoryLocks:
    """What transactions hold until they end; a statement by itself holds nothing."""

    def __init__(self) -> None:
        self._held: dict[Any, MemorySession] = {}
        self._waiting: dict[Any, list[asyncio.Future[None]]] = defaultdict(list)

    def free_for(self, session: Any, *keys: Any) -> None:
        """Raise BlockedError where another session holds one of *keys*."""
        for key in keys:
            if self._held.get(key, session) is not session:
                raise BlockedError(key)

    def take(self, session: Any, key: Any) -> None:
        """Hold *key* until the session's transaction ends."""
        self.free_for(session, key)
        self._held[key] = session

    async def wait(self, key: Any) -> None:
        """Wait until *key* may be free."""
        free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key].append(free)
        await free

    def release(self, session: "MemorySession") -> None:
        """Give everything back that *session* holds."""
        for key in [key for key, holder in self._held.items() if holder is session]:
            del self._held[key]
            for free in self._waiting.pop(key, ()):
                if not free.done():
                    free.set_result(None)


class NothingObserved:
    """Takes what happens in the tables, and keeps none of it."""

    traces = False

    def note(self, _name: str) -> None:
        return

    def trace(self, _text: str) -> None:
        return


class MemoryDatabase:
    """A database. `statements` maps the text of a statement to what it does."""

    def __init__(self) -> None:
        self.locks = MemoryLocks()
        self.seen = NothingObserved()
        self.statements: dict[str, Handler] = {}

    def now(self) -> datetime:
        """Return the time of the harness's clock."""
        return wall()


class MemorySession:
    """One connection."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self.in_transaction = False
        self._writes: list[Callable[[], None]] = []

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        handler = self._database.statements.get(statement)
        if handler is None:
            msg = f"no table in memory knows this statement: {statement}"
            raise LookupError(msg)
        while True:
            try:
                rows: list[Any] = handler(self, *values)
            except BlockedError as blocked:
                await self._database.locks.wait(blocked.key)
            else:
                return rows

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        rows = await self.fetch(statement, *values)
        return rows[0] if rows else None

    async def fetchval(self, statement: str, *values: Any) -> Any:
        row = await self.fetchrow(statement, *values)
        if row is None:
            return None
        return row[0] if isinstance(row, tuple) else next(iter(row.values()))

    async def execute(self, statement: str, *values: Any) -> str:
        await self.fetch(statement, *values)
        return ""

    def transaction(self) -> "MemoryTransaction":
        """Open a transaction with `async with`."""
        return MemoryTransaction(self)

    def write(self, change: Callable[[], None]) -> None:
        """Change tables: now, or when the transaction commits."""
        if self.in_transaction:
            self._writes.append(change)
        else:
            change()

    def begin(self) -> None:
        self.in_transaction = True

    def end(self, *, commit: bool) -> None:
        """Make what was written visible, or forget it; give the locks back."""
        if commit:
            for change in self._writes:
                change()
        self._writes.clear()
        self.in_transaction = False
        self._database.locks.release(self)


class MemoryTransaction:
    """`async with session.transaction()`."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        self._session.begin()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session.end(commit=kind is None)


class MemoryPool:
    """A pool of connections: every statement by itself has a session of its own."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        return await MemorySession(self._database).fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        return await MemorySession(self._database).fetchrow(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        return await MemorySession(self._database).fetchval(statement, *values)

    async def execute(self, statement: str, *values: Any) -> str:
        return await MemorySession(self._database).execute(statement, *values)

    def acquire(self) -> "AcquiredSession":
        """Take a session, with `await` or with `async with`."""
        return AcquiredSession(self._database)

    async def release(self, session: MemorySession) -> None:
        """Take a session back; a transaction that it left open is rolled back."""
        session.end(commit=False)


class AcquiredSession:
    """A session that is being taken."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    def __await__(self) -> Iterator[Any]:
        return self._take().__await__()

    async def _take(self) -> MemorySession:
        return MemorySession(self._database)

    async def __aenter__(self) -> MemorySession:
        return MemorySession(self._database)

    async def __aexit__(self, *_: object) -> None:
        return None
