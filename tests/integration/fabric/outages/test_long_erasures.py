"""A batch of an erasure may take longer than a statement of a service may otherwise."""

import uuid
from collections.abc import Callable

import asyncpg
import pytest
import structlog

from towpath_fabric.postgres import pool as pools
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.postgres.run_erasures import ErasureStatements, RunErasureLoop

WAITS = ErasureStatements(
    due=f"SELECT '{uuid.UUID(int=1)}'::uuid AS erasure_id, '{{}}'::uuid[] AS run_ids WHERE $1::uuid[] IS NOT NULL",
    erase="SELECT -1 FROM pg_sleep(1) WHERE $1::uuid IS NOT NULL AND $2::int > 0",
)


async def test_a_batch_that_lasts_longer_than_other_statements_may_is_finished(
    database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pools.SESSION_SETTINGS, "statement_timeout", "300")
    pool = await open_pool(database("orchestrator"), 1, "test")
    try:
        with pytest.raises(asyncpg.QueryCanceledError):
            await pool.execute("SELECT pg_sleep(60)")
        with structlog.testing.capture_logs() as logs:
            await RunErasureLoop(pool, WAITS, structlog.get_logger()).finish()
        assert logs == [], "it would be told that it was not finished"
        assert await pool.fetchval("SHOW statement_timeout") == "300ms", "the connection is as before"
    finally:
        pool.terminate()
