"""The whole platform over PgBouncer, which gives each transaction another server connection and refuses parameters."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from tests.support.pgbouncer import PgBouncer
from tests.support.platform.sample_platform import SAMPLE, sample_platform
from tests.support.waiting import eventually

from towpath import Client
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres import DATABASE
from towpath_fabric.postgres.pool import SESSION_SETTINGS, differing_settings, open_pool

POOLED = ("orchestrator", "tas", "gateway", "log_writer")


@asynccontextmanager
async def pooled(folder: Path) -> AsyncIterator[tuple[Platform, PgBouncer]]:
    """The sample's platform, whose services reach Postgres through PgBouncer alone."""
    bouncer = PgBouncer(folder / "bouncer")
    (folder / "bouncer").mkdir()
    own = {"tas": {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml"), "TOWPATH_SINGLE_PERSON": "true"}}
    through = {
        role: {
            **own.get(role, {}),
            "TOWPATH_DATABASE_URL": bouncer.dsn(f"towpath_{role}", DATABASE),
            "TOWPATH_DATABASE_STATEMENT_CACHE": "0",
        }
        for role in POOLED
    }
    platform = sample_platform(folder, **through)

    async def start_once_postgres_is_there() -> None:
        await eventually(lambda: bool(platform._units))
        await admit_nobody(platform)
        bouncer.start(platform.postgres.socket_folder, DATABASE)

    starting = asyncio.create_task(start_once_postgres_is_there())
    try:
        async with platform:
            await starting
            yield platform, bouncer
    finally:
        await bouncer.stop()


async def admit_nobody(platform: Platform) -> None:
    """Let PgBouncer in, which is no process of root: the socket is for the user of this process alone."""
    if os.geteuid() == 0:
        with (platform.postgres._rules / "ident.conf").open("a") as rules:
            rules.write("towpath nobody all\n")
        owner = await asyncpg.connect(platform.dsn())
        await owner.execute("SELECT pg_reload_conf()")
        await owner.close()


async def keep_asking(bouncer: PgBouncer, number: int) -> None:
    """Ask in a client of its own what only its own statement answers: two server connections serve all of them."""
    async with await open_pool(bouncer.dsn("towpath_tas", DATABASE), 1, "test", statement_cache=0) as pool:
        for value in range(20):
            statement = f"SELECT $1::int AS value, {number} AS number"
            assert tuple(await pool.fetchrow(statement, value)) == (value, number)
            assert await pool.fetchval(f"SELECT $1::int * 100 + {number}", value) == value * 100 + number
            assert [row[0] for row in await pool.fetch(f"SELECT $1::int + {number}", value)] == [value + number]
            await pool.execute(f"SELECT $1::int + {number}", value)


async def test_a_help_desk_works_over_pgbouncer_in_transaction_mode(folder: Path) -> None:
    async with pooled(folder) as (platform, bouncer):
        told: list[str] = []
        await NetworkFolderPublisher(SAMPLE, platform.client_url, told.append).publish_changed()
        assert told == ["network.yaml: network support version 1"]
        async with Client(platform.client_url) as client:
            asked = [
                "Please refund order 8811, it arrived broken.",
                *(f"Do you deliver to town {n}?" for n in range(7)),
            ]
            results = await asyncio.gather(*(client.run("support", text) for text in asked))
            assert {result.status for result in results} == {"completed"}
        owner = await asyncpg.connect(platform.dsn())
        try:
            refunds = "SELECT count(*) FROM tas.tool_call WHERE tool = 'orders.refund' AND status = 'succeeded'"
            assert await owner.fetchval(refunds) == 1
            written = "SELECT count(*) FROM history.agent_execution_history WHERE status = 'completed'"
            async with asyncio.timeout(60):
                while await owner.fetchval(written) < len(asked):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.05)
            seen = "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = $1 AND application_name <> ''"
            assert {row["usename"] for row in await owner.fetch(seen, DATABASE)} >= {f"towpath_{r}" for r in POOLED}
        finally:
            await owner.close()
        async with await open_pool(bouncer.dsn("towpath_tas", DATABASE), 1, "test", statement_cache=0) as pool:
            assert await differing_settings(pool) == []
            assert await pool.fetchval("SHOW plan_cache_mode") == SESSION_SETTINGS["plan_cache_mode"]
        await asyncio.gather(*(keep_asking(bouncer, number) for number in range(4)))
        logs = [path.read_text() for path in platform.logs.iterdir() if path.suffix == ".log"]
        assert not any("sessions of the database have other settings" in log or "Traceback" in log for log in logs)
