"""Requests that wait for the ends of runs, while another replica ends them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import GetRun, RunView
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.state_cache import RunWaiters

INSERT = """
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,
  updated_at)
SELECT id, 'default', 'network', 'n', 1, '', 'running', 7, 'me', now(), now() FROM unnest($1::uuid[]) AS id
"""


class CountingPool:
    """A pool that counts the looks at statuses, and how many runs each was for."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.looks: list[int] = []

    async def fetch(self, statement: str, *values: Any) -> Any:
        if statement == QUERIES.run_statuses:
            self.looks.append(len(values[0]))
        return await self._pool.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        return await self._pool.fetchrow(statement, *values)


async def read_at_end(queries: RunQueries, ask: GetRun) -> RunView:
    await queries.await_end(ask)
    return await queries.get_run(ask)


async def test_requests_that_wait_share_their_looks_and_each_sees_the_end_of_its_run(database: DatabaseUrl) -> None:
    runs = [uuid4() for _ in range(60)]
    owner = await asyncpg.connect(database())
    pool = await open_pool(database("orchestrator"), 4, "test")
    counting = CountingPool(pool)
    queries = RunQueries(counting, RunWaiters(), RunWaiters())

    async def ask(run_id: UUID, project: str = "default") -> RunView:
        return await read_at_end(queries, GetRun(run_id=run_id, project=project, wait_ms=20_000))

    try:
        await owner.execute(INSERT, runs)
        asked = [asyncio.create_task(ask(run_id)) for run_id in (*runs, runs[0])]
        for first, last in ((0, 30), (30, 60)):
            await owner.execute("UPDATE runs.run SET status = 'completed' WHERE run_id = ANY ($1)", runs[first:last])
            answers = await asyncio.gather(*asked[first:last])
            assert [(run.run_id, run.status) for run in answers] == [(one, "completed") for one in runs[first:last]]
        assert (await asked[-1]).run_id == runs[0]
        assert counting.looks[0] == 60, "all that came at once share the first look"
        for run_id, project in ((runs[0], "other"), (uuid4(), "default")):
            with pytest.raises(ProblemError) as refused:
                await ask(run_id, project)
            assert refused.value.problem.code == "run_not_found"
    finally:
        await pool.close()
        await owner.close()


async def test_requests_that_wait_are_told_that_the_database_is_away(database: DatabaseUrl) -> None:
    run_id = uuid4()
    owner = await asyncpg.connect(database())
    pool = await open_pool(database("orchestrator"), 1, "test")
    queries = RunQueries(pool, RunWaiters(), RunWaiters())
    await owner.execute(INSERT, [run_id])
    ask = GetRun(run_id=run_id, project="default", wait_ms=20_000)
    asked = [asyncio.create_task(read_at_end(queries, ask)) for _ in range(2)]
    await asyncio.sleep(0)
    await pool.close()
    await owner.close()
    for task in asked:
        with pytest.raises(asyncpg.InterfaceError):
            await task
