"""Counts what services have asked of a database: a statement of its own is a transaction."""

import asyncio

import asyncpg

WITHIN_S = 60
SETTLED_S = 0.2


async def transactions(dsn: str) -> int:
    """Return how many transactions a database has committed; its services have ended, since sessions tell it then."""
    connection = await asyncpg.connect(dsn)
    try:
        for _ in range(int(WITHIN_S / SETTLED_S)):
            await asyncio.sleep(SETTLED_S)
            others = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if not others:
                break
        found: int = await connection.fetchval(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        return found
    finally:
        await connection.close()
