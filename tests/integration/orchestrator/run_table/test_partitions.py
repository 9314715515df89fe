"""A partition is made for a month whose rows came before it, as with a clock that was months ahead."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from tests.conftest import DatabaseUrl

from towpath_fabric.telemetry.logs import get_logger
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app import reconciler
from towpath_orchestrator.app.reconciler import Reconciler
from towpath_orchestrator.metrics import OrchestratorMetrics

FAR = datetime.now(UTC) + timedelta(days=310)
"""Later than partitions are made ahead."""

ROWS = {
    "runs.run_event": "(run_id, seq, at, type, event) VALUES ($1, $2, now(), 'x', '{}')",
    "runs.run_fact": "(run_id, first_seq, at, fact, engine_version) VALUES ($1, $2, now(), '{}', '1')",
}


@pytest.fixture
async def owner(database: DatabaseUrl) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database())
    try:
        yield connection
    finally:
        await connection.close()


def run_at(moment: datetime) -> UUID:
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | 0x2 << 62)


@pytest.mark.parametrize("table", ROWS)
async def test_rows_of_a_month_without_a_partition_move_into_it(owner: Any, table: str) -> None:
    run_id = run_at(FAR)
    for number in (1, 2):
        await owner.execute(f"INSERT INTO {table} {ROWS[table]}", run_id, number)
    assert await owner.fetchval(f"SELECT count(*) FROM {table}_default") == 2
    await owner.execute("SELECT runs.ensure_partitions($1, 12)", table)
    assert await owner.fetchval(f"SELECT count(*) FROM {table}_default") == 0
    place = await owner.fetchval(f"SELECT DISTINCT tableoid::regclass::text FROM {table} WHERE run_id = $1", run_id)
    assert place == f"{table}_{FAR:%Y%m}"
    attached = await owner.fetch(
        "SELECT c.relname, count(i.indexrelid) AS own, count(h.inhparent) AS attached FROM pg_inherits p"
        " JOIN pg_class c ON c.oid = p.inhrelid JOIN pg_index i ON i.indrelid = c.oid"
        " LEFT JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE p.inhparent = $1::regclass GROUP BY 1",
        table,
    )
    assert len({(row["own"], row["attached"]) for row in attached}) == 1, "partitions have other indexes"


async def test_a_statement_that_fails_ends_nothing_and_keeps_none_from_its_turn(
    database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class EndedError(Exception):
        """Ends the loop at its pause."""

    class Pool:
        """A connection of the service that notes what was asked."""

        def __init__(self, connection: Any) -> None:
            self._connection = connection

        async def execute(self, statement: str) -> Any:
            done.append(statement)
            return await self._connection.execute(statement)

    async def pause(_seconds: float) -> None:
        raise EndedError

    connection = await asyncpg.connect(database("orchestrator"))
    monkeypatch.setattr(reconciler, "CLEAN_UP", ("SELECT 1 / 0", QUERIES.ensure_partitions))
    monkeypatch.setattr(reconciler.asyncio, "sleep", pause)
    try:
        nothing: Any = None
        metrics = OrchestratorMetrics(CollectorRegistry())
        loop = Reconciler(Pool(connection), nothing, nothing, nothing, get_logger("test"), nothing, nothing, metrics)
        with capture_logs() as logs, pytest.raises(EndedError):
            await loop.clean_up()
    finally:
        monkeypatch.undo()
        await connection.close()
    assert done == ["SELECT 1 / 0", QUERIES.ensure_partitions]
    assert [(one["log_level"], one["error"]) for one in logs] == [("error", "division by zero")]


async def months(owner: Any, table: str) -> list[str]:
    """Return the months that *table* has partitions of, as 202611."""
    rows = await owner.fetch(
        "SELECT right(inhrelid::regclass::text, 6) AS month FROM pg_inherits"
        " WHERE inhparent = $1::regclass AND inhrelid::regclass::text !~ 'default$' ORDER BY 1",
        table,
    )
    return [row["month"] for row in rows]


async def add_month(owner: Any, table: str, start: datetime) -> str:
    """Give *table* the partition of the month of *start* as it was made when that was ahead."""
    month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (month + timedelta(days=32)).replace(day=1)
    await owner.execute(
        f"CREATE TABLE {table}_{month:%Y%m} PARTITION OF {table}"
        f" FOR VALUES FROM ('{UUID(int=int(month.timestamp() * 1000) << 80)}')"
        f" TO ('{UUID(int=int(following.timestamp() * 1000) << 80)}')"
    )
    return f"{month:%Y%m}"


@pytest.mark.parametrize("table", ROWS)
async def test_a_month_without_runs_gives_its_files_back_and_others_stay(
    owner: Any, database: DatabaseUrl, table: str
) -> None:
    long_ago, last_year = datetime.now(UTC) - timedelta(days=800), datetime.now(UTC) - timedelta(days=400)
    last_month = datetime.now(UTC).replace(day=1) - timedelta(days=1)
    made = await months(owner, table)
    emptied, filled, recent = [await add_month(owner, table, day) for day in (long_ago, last_year, last_month)]
    for day in (long_ago, last_year):
        await owner.execute(f"INSERT INTO {table} {ROWS[table]}", run_at(day), 1)
    await owner.execute(f"DELETE FROM {table} WHERE run_id = $1", run_at(long_ago))
    service = await asyncpg.connect(database("orchestrator"))
    try:
        async with owner.transaction():
            await owner.fetchval(f"SELECT count(*) FROM {table}")  # a reader; the drop waits for none
            await service.execute(QUERIES.drop_empty_partitions)
            assert emptied in await months(owner, table)
        await service.execute(QUERIES.drop_empty_partitions)
        assert await months(owner, table) == sorted([filled, recent, *made])
        await service.execute(f"INSERT INTO {table} {ROWS[table]}", run_at(long_ago), 1)
        await service.execute(QUERIES.ensure_partitions)
        assert await owner.fetchval(f"SELECT count(*) FROM {table}") == 2, "a moved project's old run has a place"
        with pytest.raises(asyncpg.RaiseError, match="keeps its rows for ever"):
            await service.execute("SELECT runs.drop_empty_partitions('tas.tool_call')")
    finally:
        await service.close()
