"""A value that asyncpg itself can't send is refused as one that Postgres refuses: it is no outage, and nobody waits."""

from typing import Any

import asyncpg
import pytest

from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN, open_pool
from towpath_fabric.postgres.refused_values import is_value_refused

UNSENDABLE = [("text[]", ["\ud800"]), ("text", "\ud800"), ("bigint", 2**70), ("bigint", "one"), ("timestamptz", 7)]
REFUSED = [("text", "a\0b"), ("jsonb", '"\\u0000"'), ("jsonb", "{"), ("jsonb", "[" * 50_000)]


async def test_what_can_not_be_sent_or_stored_is_told_from_an_outage(database: Any) -> None:
    pool = await open_pool(database("orchestrator"), 1, "test")
    lane = PinnedDatabaseConnection(pool)
    try:
        for kind, value in UNSENDABLE + REFUSED:
            statement = f"SELECT $1::text::{kind}" if kind == "jsonb" else f"SELECT $1::{kind}"
            for ask in (pool.fetch, pool.fetchrow, pool.fetchval, pool.execute):
                with pytest.raises(asyncpg.PostgresError) as raised:
                    await ask(statement, value)
                assert is_value_refused(raised.value) and not isinstance(raised.value, DATABASE_DOWN), (kind, value)
        server = await lane.fetchrow("SELECT pg_backend_pid()")
        with pytest.raises(asyncpg.DataError):
            await lane.fetch("SELECT $1::bigint", 2**70)
        assert await lane.fetchrow("SELECT pg_backend_pid()") == server, "the connection is as good as before"
    finally:
        await lane.close()
        await pool.close()
