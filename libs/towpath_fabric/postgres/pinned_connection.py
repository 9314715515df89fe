"""One database connection that one loop keeps.

It runs one statement at a time and is never shared, so the statements of a hot loop stay prepared, and no loop waits
for another's statement. After a connection error the next use acquires a new connection.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN


class PinnedDatabaseConnection:
    """Keeps one connection of a pool."""

    def __init__(self, pool: Database) -> None:
        self._pool = pool
        self._connection: Any = None

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        """Run *statement* in its own transaction and return its first row."""
        async with self._kept() as connection:
            return await connection.fetchrow(statement, *values)

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        """Run *statement* in its own transaction and return its rows."""
        async with self._kept() as connection:
            found: list[Any] = await connection.fetch(statement, *values)
            return found

    async def close(self) -> None:
        """Release the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    @contextlib.asynccontextmanager
    async def _kept(self) -> AsyncIterator[Any]:
        if self._connection is None:
            self._connection = await self._pool.acquire()
        try:
            yield self._connection
        except DATABASE_DOWN:
            await self.close()
            raise
