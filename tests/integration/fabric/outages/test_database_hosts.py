"""Services with several hosts of Postgres leave one that is silent or takes no writes, and go on at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

from towpath_fabric.postgres import database_hosts
from towpath_fabric.postgres.database_hosts import DatabaseHosts, hosts_of
from towpath_fabric.postgres.database_probe import DatabaseProbe
from towpath_fabric.postgres.migrations import status
from towpath_fabric.postgres.pool import DATABASE_DOWN, open_pool


class TwoHosts(NamedTuple):
    """Two ways to one server, each of which can fall silent."""

    first: TcpProxy
    second: TcpProxy
    dsn: str


@asynccontextmanager
async def two_hosts(dsn: str) -> AsyncIterator[TwoHosts]:
    """Stand in for two servers of *dsn*, named in its order."""
    (host, port), *_ = hosts_of(dsn)
    target = Path(host, f".s.PGSQL.{port}") if host.startswith("/") else port
    parts = urlsplit(dsn)
    login = parts.netloc.rpartition("@")[0]
    async with tcp_proxy(target) as first, tcp_proxy(target) as second:
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        yield TwoHosts(first, second, f"{parts.scheme}://{login}@{hosts}{parts.path}")


@pytest.fixture
async def hosts(database: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoHosts]:
    """Two hosts that are given up on soon; nothing but a head start is waited for a healthy one."""
    monkeypatch.setattr(database_hosts, "SILENT_AFTER_S", 0.2)
    async with two_hosts(database("orchestrator")) as found:
        yield found


async def test_a_host_that_falls_silent_ends_what_waits_for_it_and_is_left(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_hosts, "PROBED_FOR_S", 0.3)
    pool = await open_pool(hosts.dsn, 2, "test")
    try:
        assert await pool.fetchval("SELECT 1") == 1
        assert hosts.second.connections == 0, "nobody asks the second one while the first answers at once"
        hosts.first.silent = True
        async with asyncio.timeout(20):  # asyncpg alone would wait for 30 s, and for 30 s more to cancel the statement
            with pytest.raises(DATABASE_DOWN):
                await pool.fetchval("SELECT 2")
            assert await pool.fetchval("SELECT 3") == 3
            hosts.first.silent, asked = False, hosts.first.connections
            await pool.expire_connections()
            assert await pool.fetchval("SELECT 4") == 4
        assert hosts.first.connections == asked, "one that comes back, perhaps as a primary, is left alone"
    finally:
        pool.terminate()


async def test_nothing_goes_on_at_a_host_that_was_left(hosts: TwoHosts) -> None:
    pool = await open_pool(hosts.dsn, 3, "test")
    try:
        async with pool.acquire() as busy, pool.acquire() as idle:
            assert await idle.fetchval("SELECT 1") == 1
            under_way = asyncio.create_task(busy.fetchval("SELECT 1 FROM pg_sleep(60)"))
            hosts.first.open = False  # it takes no new connections, and those that it has are as good as before
            async with asyncio.timeout(20), pool.acquire() as new:
                assert await new.fetchval("SELECT 2") == 2
                with pytest.raises(DATABASE_DOWN):
                    await under_way
                with pytest.raises(DATABASE_DOWN):
                    await idle.fetchval("SELECT 1")
        hosts.first.open, asked = True, hosts.first.connections
        assert await pool.fetchval("SELECT 3") == 3 and hosts.first.connections == asked
    finally:
        pool.terminate()


async def test_a_silent_first_host_delays_neither_services_nor_commands(hosts: TwoHosts) -> None:
    hosts.first.silent = True
    async with asyncio.timeout(30):
        pool = await open_pool(hosts.dsn, 1, "test")
        assert await pool.fetchval("SELECT 1") == 1
        probe = DatabaseProbe(pool, hosts.dsn, "orchestrator")
        async with pool.acquire():  # the pool is busy, so the probe connects
            assert await probe.silence() is None
        pool.terminate()
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await status(hosts.dsn)


async def test_a_statement_may_last_as_long_as_its_server_answers_others(hosts: TwoHosts) -> None:
    pool = await open_pool(hosts.dsn, 1, "test")
    try:
        assert await pool.fetchval("SELECT 1 FROM pg_sleep(1.5)") == 1
        assert hosts.first.connections >= 3, "it was looked at again and again"
    finally:
        await pool.close()


async def test_a_connection_that_takes_no_writes_any_more_is_left(hosts: TwoHosts) -> None:
    pool = await open_pool(hosts.dsn, 1, "test")
    try:
        await pool.execute("SET default_transaction_read_only = on")  # as where its server became a standby
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await pool.execute("DELETE FROM runs.snapshot")
        assert await pool.fetchval("SHOW default_transaction_read_only") == "off"
    finally:
        await pool.close()


async def test_what_every_host_says_is_told(hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_hosts, "GIVEN_UP_S", 1.0)
    hosts.first.silent, hosts.second.open = True, False
    with pytest.raises(OSError, match=rf"127.0.0.1:{hosts.first.port}: it does not answer; 127.0.0.1:.*"):
        await DatabaseHosts(hosts.dsn).connect()
    hosts.first.silent = False
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await DatabaseHosts(hosts.dsn.rpartition("/")[0] + "/none").connect()
