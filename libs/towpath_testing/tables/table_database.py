"""What the tables need of whoever holds them: a clock, locks, and a place for what each statement does."""

from collections.abc import Callable, Container
from datetime import datetime
from typing import Any, Protocol

import asyncpg

Handler = Callable[..., Any]


class BlockedError(Exception):
    """The statement has to wait for *key*, which another session holds."""

    def __init__(self, key: Any) -> None:
        super().__init__(key)
        self.key = key


class TableSession(Protocol):
    """One connection."""

    in_transaction: bool

    def write(self, change: Callable[[], None]) -> None:
        """Change tables: now, or when the transaction commits."""


class TableLocks(Protocol):
    """What transactions hold until they end."""

    def free_for(self, session: Any, *keys: Any) -> None:
        """Raise BlockedError where another session holds one of *keys*."""

    def take(self, session: Any, key: Any) -> None:
        """Hold *key* until the session's transaction ends."""


class TableObserver(Protocol):
    """Receives what happened in the tables; a simulation counts it. `traces`: somebody reads the lines."""

    traces: bool

    def note(self, name: str) -> None:
        """Something named *name* happened."""

    def trace(self, text: str) -> None:
        """Keep a line of what happens, where anybody reads it."""


class TableDatabase(Protocol):
    """Where tables stand. `statements` maps the text of a statement to what it does."""

    statements: dict[str, Handler]

    @property
    def locks(self) -> TableLocks: ...

    @property
    def seen(self) -> TableObserver: ...

    def now(self) -> datetime:
        """Postgres's clock."""


def refuse_twice(table: Container[Any], key: Any, name: str) -> None:
    """Raise what Postgres raises where *key* is in *table* already."""
    if key in table:
        msg = f'duplicate key value violates unique constraint "{name}"'
        raise asyncpg.UniqueViolationError(msg)
