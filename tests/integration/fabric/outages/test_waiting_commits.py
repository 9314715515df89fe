"""A commit that waits for a synchronous standby is seen by nobody before the standby has it, whoever gives it up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.chaos.servers.postgres_pair import ReplicatedPostgres
from tests.support.orchestrator.run_log import wait_for

from towpath_fabric.postgres import pool as pools
from towpath_fabric.postgres.pool import DATABASE_DOWN, open_pool

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
DONE = "SELECT count(*) FROM public.done"


@pytest.fixture
async def primary(folder: Path) -> AsyncIterator[ReplicatedPostgres]:
    """A primary whose synchronous standby is away."""
    await asyncio.to_thread(folder.chmod, 0o711)
    server = ReplicatedPostgres(folder / "postgres", "one", durable=True)
    await server.start()
    try:
        await ask(server, "CREATE TABLE public.done (what text)")
        await name_standby(server, "away")
        yield server
    finally:
        await server.stop()


async def ask(server: ReplicatedPostgres, statement: str) -> Any:
    owner = await asyncpg.connect(server.address(database="postgres"))
    try:
        return await owner.fetchval(statement)
    finally:
        await owner.close()


async def name_standby(server: ReplicatedPostgres, name: str) -> None:
    await ask(server, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    await ask(server, "SELECT pg_reload_conf()")


async def counted(server: ReplicatedPostgres, statement: str, count: int) -> None:
    """Return once *statement* counts *count* there."""

    async def says_so() -> bool:
        return bool(await ask(server, statement) == count)

    await wait_for(says_so)


async def insert(pool: asyncpg.Pool) -> None:
    await pool.execute("INSERT INTO public.done VALUES ('its service is stopped')")


async def insert_in_a_transaction(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO public.done VALUES ('its service is stopped')")


async def test_a_commit_that_is_given_up_is_seen_once_the_standby_has_it(
    primary: ReplicatedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GIVEN_UP_S", 1.0)
    monkeypatch.setitem(pools.SESSION_SETTINGS, "statement_timeout", "500")
    pool = await open_pool(primary.address(database="postgres"), 4, "test")
    try:
        with pytest.raises(asyncpg.QueryCanceledError):
            await pool.fetchval("SELECT 1 FROM pg_sleep(60)")
        with pytest.raises(DATABASE_DOWN):
            await pool.execute("INSERT INTO public.done VALUES ('given up')")
        for task, count in ((insert(pool), 2), (insert_in_a_transaction(pool), 3)):
            stopped = asyncio.create_task(task)
            await counted(primary, WAITING, count)
            stopped.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopped
        assert await pool.fetchval(DONE) == 0, "the pool goes on with another connection"
        await asyncio.sleep(2.5)  # longer than Postgres takes to notice that nobody is there
        assert await ask(primary, WAITING) == 3
        await name_standby(primary, "")
        await counted(primary, DONE, 3)
    finally:
        pool.terminate()


async def test_a_statement_that_nobody_waits_for_any_more_ends(
    primary: ReplicatedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pools.SESSION_SETTINGS, "statement_timeout", "0")
    pool = await open_pool(primary.address(database="postgres"), 1, "test")
    try:
        stopped = asyncio.create_task(pool.execute("SELECT pg_sleep(600)"))
        await counted(primary, SLEEPING, 1)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        await counted(primary, SLEEPING, 0)
    finally:
        pool.terminate()


async def test_a_statement_of_a_transaction_that_is_stopped_is_rolled_back(primary: ReplicatedPostgres) -> None:
    pool = await open_pool(primary.address(database="postgres"), 1, "test")

    async def insert_and_wait() -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL synchronous_commit = local; INSERT INTO public.done VALUES ('half')")
            await connection.execute("SELECT pg_sleep(60)")

    try:
        stopped = asyncio.create_task(insert_and_wait())
        await counted(primary, SLEEPING, 1)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert await pool.fetchval(DONE) == 0
    finally:
        pool.terminate()
