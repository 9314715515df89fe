"""A crash of Postgres takes the last commits of history, which are not waited for on disk; they are made again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h
from tests.support.platform.history_platform import Place, new_run, open_place
from tests.support.service_process import service_process

from towpath_embedded.servers.nats import Nats

TABLES = ("run_cursor", "tool_execution", "agent_execution_steps", "agent_execution_history")


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    async with open_place(nats_server, database) as opened:
        yield opened


async def crash(place: Place, since: datetime) -> None:
    """Put history back to nothing and its sweep to *since*, as it was then, and end every session, as a crash does."""
    async with place.database.acquire() as connection, connection.transaction():
        await connection.execute(f"LOCK TABLE {', '.join(f'history.{table}' for table in (*TABLES, 'sweep'))}")
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'towpath_log_writer %'"
        )
        for table in TABLES:
            await connection.execute(f"DELETE FROM history.{table}")
        await connection.execute("UPDATE history.sweep SET since = $1", since)


async def test_what_a_crash_took_is_read_from_the_run_log_again(place: Place, nats_server: Nats, folder: Path) -> None:
    """Both runs have ended, so no later event would show that their histories went back."""
    old, new = new_run(), new_run()
    since = await place.database.fetchval("SELECT since FROM history.sweep")
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as writer:
        await writer.wait_ready()
        messages = place.log.keep(old, h.whole_run(old, 4))
        place.log.runs[old].updated_at = datetime.now(UTC) - timedelta(minutes=1)
        await place.log.tell([*messages, *place.log.keep(new, h.whole_run(new, 4))])
        await place.complete(old, new)
        await asyncio.sleep(1)  # sweeps find nothing missing meanwhile, and go on to what is newer
        await crash(place, since)
        await place.complete(old, new)
        assert writer.process.poll() is None
    assert await place.told(old) == await place.told(new)
