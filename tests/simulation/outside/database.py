"""Postgres in memory: sessions, transactions, locks and faults, over tables that `run_rows` and `ledger_rows` hold.

A statement is known by its text and does what the SQL does, whole or not at all, at one moment between two network
hops; what it did stands even where its answer is lost. A transaction's writes are seen by others from its commit on.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from tests.simulation.coverage import Coverage
from tests.simulation.outside.clock import SimProcess, VirtualTimeLoop

from towpath_testing.tables.table_database import BlockedError, Handler

BEGAN = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


class Locks:
    """What transactions hold until they end. Statements by themselves hold nothing: each is one moment."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._held: dict[Any, Session] = {}
        self._waiting: dict[Any, list[tuple[SimProcess, asyncio.Future[None]]]] = defaultdict(list)

    def free_for(self, session: "Session", *keys: Any) -> None:
        """Raise BlockedError where another session holds one of *keys*."""
        for key in keys:
            if self._held.get(key, session) is not session:
                raise BlockedError(key)

    def take(self, session: "Session", key: Any) -> None:
        """Hold *key* until the session's transaction ends."""
        self.free_for(session, key)
        self._held[key] = session

    async def wait(self, process: SimProcess, key: Any) -> None:
        """Wait until *key* may be free."""
        free = self._loop.create_future()
        self._waiting[key].append((process, free))
        await free

    def release(self, session: "Session") -> None:
        """Give everything back that *session* holds."""
        for key in [key for key, holder in self._held.items() if holder is session]:
            del self._held[key]
            for process, free in self._waiting.pop(key, ()):
                self._loop.call_in(process, 0.0, _tell, free)


def _tell(free: "asyncio.Future[None]") -> None:
    if not free.done():
        free.set_result(None)


class Database:
    """One Postgres. `statements` maps the text of a statement to what it does."""

    def __init__(self, loop: VirtualTimeLoop, chance: random.Random, seen: Coverage) -> None:
        self.loop = loop
        self.chance = chance
        self.seen = seen
        self.locks = Locks(loop)
        self.statements: dict[str, Handler] = {}
        self.down = False
        self.lossy = 0.0
        self.slow = 0.0
        self.commits = 0
        self.open: set[Session] = set()

    def now(self) -> datetime:
        """Postgres's clock."""
        return BEGAN + timedelta(microseconds=round(self.loop.time() * 1e6))

    def hop_s(self) -> float:
        """How long a packet takes."""
        draw = self.chance.random()
        return 0.2 + draw * 3 if draw < self.slow else 0.0002 + draw * 0.002

    def stop(self) -> None:
        """Postgres dies: transactions are rolled back, sessions are gone."""
        self.down = True
        for session in sorted(self.open, key=lambda one: one.number):
            session.cut()

    def start(self) -> None:
        """Postgres is back, with everything that was committed."""
        self.down = False


class Session:
    """One connection of one process."""

    numbers = 0

    def __init__(self, database: Database, process: SimProcess) -> None:
        Session.numbers += 1
        self.number = Session.numbers
        self.database = database
        self.process = process
        self.in_transaction = False
        self.broken = False
        self.writes: list[Callable[[], None]] = []

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        return await self._run(statement, values)

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        rows = await self._run(statement, values)
        return rows[0] if rows else None

    async def fetchval(self, statement: str, *values: Any) -> Any:
        rows = await self._run(statement, values)
        if not rows:
            return None
        return rows[0][0] if isinstance(rows[0], tuple) else next(iter(rows[0].values()))

    async def execute(self, statement: str, *values: Any) -> str:
        await self._run(statement, values)
        return ""

    def transaction(self) -> "Transaction":
        """Open a transaction with `async with`."""
        return Transaction(self)

    def write(self, change: Callable[[], None]) -> None:
        """Change tables: now, or when the transaction commits."""
        if self.in_transaction:
            self.writes.append(change)
        else:
            change()

    def cut(self) -> None:
        """Lose the connection, and with it what is not committed."""
        self.broken = True
        self.writes.clear()
        self.in_transaction = False
        self.database.locks.release(self)
        self.database.open.discard(self)

    def _check(self) -> None:
        if self.broken or self.database.down:
            self.cut()
            self.database.seen.note("postgres_away")
            msg = "connection was closed in the middle of operation"
            raise asyncpg.ConnectionDoesNotExistError(msg)

    async def _run(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        database = self.database
        self._check()
        await asyncio.sleep(database.hop_s())
        self._check()
        handler = database.statements.get(statement)
        if handler is None:
            msg = f"teach this statement to libs/towpath_testing/tables: {statement}"
            raise LookupError(msg)
        while True:
            try:
                rows: list[Any] = handler(self, *values)
                break
            except BlockedError as blocked:
                database.seen.note("row_locked")
                await database.locks.wait(self.process, blocked.key)
                self._check()
        database.commits += 1
        if database.lossy and database.chance.random() < database.lossy:
            database.seen.note("committed_but_told_nothing")
            self.cut()
            self._check()
        await asyncio.sleep(database.hop_s())
        self._check()
        return rows


class Transaction:
    """`async with session.transaction()`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        self._session._check()
        self._session.in_transaction = True
        self._session.database.open.add(self._session)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        session, database = self._session, self._session.database
        if kind is not None or session.process.dead:
            session.cut()
            return
        try:
            await asyncio.sleep(database.hop_s())
        except GeneratorExit:  # the process is killed on its way to the commit: Postgres sees the connection end
            session.cut()
            raise
        session._check()
        for change in session.writes:
            change()
        session.writes.clear()
        session.in_transaction = False
        database.open.discard(session)
        database.locks.release(session)
        if database.lossy and database.chance.random() < database.lossy:
            database.seen.note("committed_but_told_nothing")
            session.cut()
            session._check()
        await asyncio.sleep(database.hop_s())
        session._check()


class Pool:
    """The pool of one process: every statement by itself has a session of its own."""

    def __init__(self, database: Database, process: SimProcess) -> None:
        self._database = database
        self._process = process

    def _session(self) -> Session:
        if self._database.down:
            msg = "connection refused"
            raise ConnectionRefusedError(msg)
        return Session(self._database, self._process)

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        return await self._session().fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        return await self._session().fetchrow(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        return await self._session().fetchval(statement, *values)

    async def execute(self, statement: str, *values: Any) -> str:
        return await self._session().execute(statement, *values)

    def acquire(self) -> "Acquired":
        """Take a session, with `await` or with `async with`."""
        return Acquired(self._session)

    async def release(self, session: Session) -> None:
        """Take a session back."""
        if session.in_transaction:
            session.cut()


class Acquired:
    """A session that is being taken."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make = make

    def __await__(self) -> Iterator[Any]:
        return self._take().__await__()

    async def _take(self) -> Session:
        return self._make()

    async def __aenter__(self) -> Session:
        return self._make()

    async def __aexit__(self, *_: object) -> None:
        return None
