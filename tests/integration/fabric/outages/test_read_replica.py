"""Reads go to a replica while it holds what was just committed, and to the primary else; on two real servers."""

import asyncio
import math
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from tests.chaos.servers.postgres_pair import PostgresPair
from tests.conftest import DatabaseUrl
from tests.docs_site.taken_blocks import settings_of, taken

from towpath.cli.administration.server_checks import check_servers
from towpath_embedded.processes.ports import LOOPBACK
from towpath_embedded.servers.postgres import OWNER
from towpath_fabric.outages.outage import Outage
from towpath_fabric.postgres.pool import DATABASE_DOWN, open_pool
from towpath_fabric.postgres.read_replica import ReadReplica, at_hosts
from towpath_fabric.postgres.replica_check import check_replicas

AT = "SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'primary' END"
MAX_LAG_S = 1.5
SOON_S = 90.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Reading:
    """A replica that is looked at, and what it was found to do."""

    def __init__(self, pair: PostgresPair, replica: ReadReplica, registry: CollectorRegistry, primary: Any) -> None:
        self.pair = pair
        self.replica = replica
        self.primary = primary
        self._registry = registry

    async def until_read(self, server: str) -> None:
        """Wait until reads are answered by *server*."""
        async with asyncio.timeout(SOON_S):
            while await self._reads_at() != server:
                pass

    async def _reads_at(self) -> str | None:
        """Return which server answers a read that takes a moment; None where the primary is away."""
        try:
            found: str = await self.replica.fetchval(f"{AT} FROM (SELECT pg_sleep(0.05)) waited")
        except DATABASE_DOWN:
            await asyncio.sleep(0.05)
            return None
        return found

    def value(self, name: str, **labels: str) -> float:
        return self._registry.get_sample_value(name, labels) or 0.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def reading() -> AsyncIterator[Reading]:
    folder = tempfile.TemporaryDirectory(prefix="towpath-", ignore_cleanup_errors=True)
    pair = PostgresPair(Path(folder.name) / "pair", durable=False)
    pair.primary.folder.parent.mkdir()
    await asyncio.to_thread(Path(folder.name).chmod, 0o711)
    registry = CollectorRegistry()
    try:
        await pair.start()
        await _do(pair.primary.address(OWNER), "ALTER SYSTEM SET synchronous_standby_names = ''")
        await _do(pair.primary.address(OWNER), "SELECT pg_reload_conf()")
        primary = await open_pool(pair.dsn(OWNER), 2, "a test")
        told = settings_of(taken("docs/operations.md: TOWPATH_READ_DATABASE_HOSTS"))["TOWPATH_READ_DATABASE_HOSTS"]
        both = at_ports(told, [server.tcp_port for server in pair.servers])

        async def connect() -> Any:
            return await open_pool(at_hosts(pair.dsn(OWNER), both), 2, "a test")

        outage = Outage("gateway", "the read replica", "Start it.")
        replica = ReadReplica(primary, connect, max_lag_s=MAX_LAG_S, outage=outage, registry=registry)
        looking = asyncio.create_task(replica.run())
        yield Reading(pair, replica, registry, primary)
        assert not looking.done(), looking
        looking.cancel()
        await replica.close()
        primary.terminate()
    finally:
        await pair.stop()
        folder.cleanup()


def at_ports(hosts: str, ports: Sequence[int]) -> str:
    """Return the hosts of a page, which has as many as there are *ports*, on this machine."""
    names = re.findall(r"db-\d:5432", hosts)
    assert len(names) == len(ports)
    for name, port in zip(names, ports, strict=True):
        hosts = hosts.replace(name, f"{LOOPBACK}:{port}")
    return hosts


async def _do(address: str, statement: str) -> Any:
    connection = await asyncpg.connect(address)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_an_address_that_names_both_servers_leads_to_the_one_that_takes_writes(reading: Reading) -> None:
    told = settings_of(taken("docs/reliability.md: TOWPATH_DATABASE_URL"))["TOWPATH_DATABASE_URL"]
    ports = [server.tcp_port for server in reversed(reading.pair.servers)]
    pool = await open_pool(at_ports(told, ports).replace("USER:PASSWORD", OWNER), 1, "a test")
    assert await pool.fetchval(AT) == "primary"
    pool.terminate()


async def test_reads_are_done_at_the_replica_and_writes_at_the_primary(reading: Reading) -> None:
    await reading.until_read("replica")
    assert await reading.replica.fetch(AT) == [("replica",)]
    assert (await reading.replica.fetchrow(AT))[0] == "replica"
    assert await reading.replica.execute("CREATE TABLE IF NOT EXISTS public.written (n int)") == "CREATE TABLE"
    async with reading.replica.acquire() as connection:
        assert await connection.fetchval(AT) == "primary"
    assert reading.value("towpath_reads_total", server="replica") >= 1.0
    assert reading.value("towpath_read_replica_lag_seconds") < SOON_S


async def test_a_replica_that_lags_is_not_read_until_it_has_caught_up(reading: Reading) -> None:
    await reading.until_read("replica")
    await _do(reading.pair.standby.address(OWNER), "SELECT pg_wal_replay_pause()")
    await reading.primary.execute("CREATE TABLE IF NOT EXISTS public.later (n int)")
    await reading.until_read("primary")
    assert await reading.replica.fetchval("SELECT to_regclass('public.later') IS NOT NULL")
    assert reading.value("towpath_read_replica_lag_seconds") > MAX_LAG_S
    await _do(reading.pair.standby.address(OWNER), "SELECT pg_wal_replay_resume()")
    await reading.until_read("replica")
    assert await reading.replica.fetchval("SELECT to_regclass('public.later') IS NOT NULL")


async def test_a_read_that_waits_for_a_frozen_replica_is_done_at_the_primary(reading: Reading) -> None:
    await reading.until_read("replica")
    takes_longer_there = "pg_sleep(CASE WHEN pg_is_in_recovery() THEN 10 ELSE 0 END)"
    asked = asyncio.create_task(reading.replica.fetchval(f"SELECT {takes_longer_there}::text || ({AT})"))
    await asyncio.sleep(0.2)
    reading.pair.standby.strike(signal.SIGSTOP)
    try:
        assert await asyncio.wait_for(asked, SOON_S) == "primary"
    finally:
        reading.pair.standby.strike(signal.SIGCONT)
    await reading.until_read("replica")


async def test_a_replica_that_was_killed_is_read_again_when_it_is_back(reading: Reading) -> None:
    await reading.until_read("replica")
    reading.pair.standby.strike(signal.SIGKILL)
    await reading.pair.standby.stop()
    await reading.until_read("primary")
    await reading.pair.standby.start()
    await reading.until_read("replica")


async def test_what_is_wrong_with_the_statement_is_told_as_it_is(reading: Reading) -> None:
    await reading.until_read("replica")
    with pytest.raises(asyncpg.UndefinedTableError):
        await reading.replica.fetch("SELECT FROM there_is_none")


async def test_a_server_that_takes_writes_is_not_read(reading: Reading) -> None:
    registry = CollectorRegistry()

    async def connect() -> Any:
        return await open_pool(reading.pair.primary.address(OWNER), 2, "a test")

    outage = Outage("gateway", "the read replica", "Start it.")
    itself = ReadReplica(reading.primary, connect, max_lag_s=MAX_LAG_S, outage=outage, registry=registry)
    try:
        await itself.look()
        assert not itself.is_read
        assert outage.is_on
        assert registry.get_sample_value("towpath_read_replica_lag_seconds") == math.inf
        assert await itself.fetchval(AT) == "primary"
    finally:
        await itself.close()


async def test_the_doctor_says_of_each_host_whether_it_is_read(
    reading: Reading, monkeypatch: pytest.MonkeyPatch, database: DatabaseUrl
) -> None:
    await reading.until_read("replica")
    primary, standby = (f"{LOOPBACK}:{server.tcp_port}" for server in reading.pair.servers)
    for name in ("NATS_URL", "DATABASE_POOL"):
        monkeypatch.delenv(f"TOWPATH_{name}", raising=False)

    async def found(*hosts: str) -> list[tuple[bool | None, str]]:
        checks = await check_replicas(reading.pair.dsn(OWNER), ",".join(hosts), MAX_LAG_S)
        assert [one.host for one in checks] == list(hosts)
        assert all(one.remedy for one in checks if one.is_read is False)
        return [(one.is_read, one.detail) for one in checks]

    assert await found(primary, standby) == [
        (None, "takes writes: it is read once it is a standby"),
        (True, "has replayed what was written, within 1.5 s"),
    ]
    assert await found(primary) == [(False, "takes writes: it is read once it is a standby")]
    [(is_read, detail)] = await found(f"{LOOPBACK}:1")
    assert is_read is False and detail.startswith("can't be read: ")
    await _do(reading.pair.standby.address(OWNER), "SELECT pg_wal_replay_pause()")
    await reading.primary.execute("CREATE TABLE IF NOT EXISTS public.unseen (n int)")
    try:
        [(is_read, detail)] = await found(standby)
    finally:
        await _do(reading.pair.standby.address(OWNER), "SELECT pg_wal_replay_resume()")
    assert is_read is None and detail.startswith("lags: ")

    monkeypatch.setenv("TOWPATH_DATABASE_URL", database("tas"))  # a database without a replica
    monkeypatch.setenv("TOWPATH_READ_DATABASE_HOSTS", f"{LOOPBACK}:1")
    checks = await check_servers()
    assert [(one.check, one.good) for one in checks] == [("database", True), (f"read replica {LOOPBACK}:1", False)]


async def test_of_several_hosts_the_one_that_is_a_standby_then_is_read(reading: Reading) -> None:
    await reading.until_read("replica")
    await reading.pair.switch_over()
    await reading.pair.promote()
    await reading.until_read("primary")
    await reading.pair.return_old_primary()
    await reading.until_read("replica")
