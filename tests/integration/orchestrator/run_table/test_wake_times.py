"""Two replicas that correct the wake times of the same runs never wait for each other in a circle."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
from tests.conftest import DatabaseUrl

from towpath_orchestrator.adapters.run_store import QUERIES

RUNS = [UUID(int=number) for number in range(1, 401)]
SOON = datetime(2030, 1, 1, tzinfo=UTC)
ROUNDS = 12
BY_ROW = {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off"}
"""A plan that takes rows as they are given, as the planner may choose it for few runs."""


async def add_runs(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller,"
            " created_at, updated_at) SELECT id, 'p', 'network', 'n', 1, 'd', 'running', 1, 'c', now(), now()"
            " FROM unnest($1::uuid[]) AS id",
            RUNS,
        )
    finally:
        await connection.close()


async def test_wake_times_move_in_one_order_whatever_order_they_are_given_in(database: DatabaseUrl) -> None:
    await add_runs(database())
    seqs, times = [1] * len(RUNS), [SOON] * len(RUNS)

    async def replica(run_ids: list[UUID]) -> None:
        connection = await asyncpg.connect(database("orchestrator"), server_settings=BY_ROW)
        try:
            for _ in range(ROUNDS):
                await connection.execute(QUERIES.move_wake, run_ids, seqs, times)
        finally:
            await connection.close()

    await asyncio.gather(replica(RUNS), replica(RUNS[::-1]), replica(RUNS[200:] + RUNS[:200]))
    connection = await asyncpg.connect(database())
    try:
        assert await connection.fetchval("SELECT count(*) FROM runs.run WHERE wake_at = $1", SOON) == len(RUNS)
    finally:
        await connection.close()


async def test_a_run_that_moved_on_keeps_its_wake_time(database: DatabaseUrl) -> None:
    await add_runs(database())
    connection = await asyncpg.connect(database("orchestrator"))
    try:
        await connection.execute(QUERIES.move_wake, RUNS[:2], [1, 7], [SOON, SOON])
        rows = await connection.fetch("SELECT wake_at FROM runs.run WHERE run_id = ANY ($1) ORDER BY run_id", RUNS[:2])
    finally:
        await connection.close()
    assert [row["wake_at"] for row in rows] == [SOON, None]
