"""One database connection that one loop keeps.

It runs one statement at a time and is never shared, so the statements of a hot loop stay prepared, and no loop waits
for another's statement. After a connection error the next use acquires a new connection.
"""

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
        connection = self._connection or await self._acquire()
        try:
            return await connection.fetchrow(statement, *values)
        except DATABASE_DOWN:
            await self.close()
            raise

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        """Run *statement* in its own transaction and return its rows."""
        connection = self._connection or await self._acquire()
        try:
            found: list[Any] = await connection.fetch(statement, *values)
        except DATABASE_DOWN:
            await self.close()
            raise
        return found

    async def close(self) -> None:
        """Release the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    async def _acquire(self) -> Any:
        self._connection = await self._pool.acquire()
        return self._connection
