"""Lists and trees of runs with long answers: few answers are held at once, others are served between two of them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath_contracts.runs.tree import GetTree
from towpath_contracts.runs.views import ListRuns
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.app.api.queries import PAGE_BYTES, RunQueries
from towpath_orchestrator.app.api.run_views import OUTCOME_BYTES
from towpath_orchestrator.app.state_cache import RunWaiters

CHILDREN = 200
VALUES = 40_000
LONGEST_S = 0.2
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "model_calls": 1}
OUTCOME = {"final": {"status": "error", "message": "no", "rows": [{}] * VALUES}, "last_output": "a", "usage": USAGE}
RUNS = """
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, user_message,
  created_at, updated_at, outcome, parent_run_id, root_run_id, depth)
SELECT id, 'default', 'network', 'n', 1, '', 'failed', 1, 'me', repeat('u', $2), now(), now(), $3::json,
  nullif($4, id), nullif($4, id), (id <> $4)::int
FROM unnest($1::uuid[]) AS id
"""


class WatchedPool:
    """A pool that knows how many characters of outcomes it has given at once."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.most = 0

    async def fetch(self, statement: str, *values: Any) -> Any:
        rows = await self._pool.fetch(statement, *values)
        self.most = max(self.most, sum(len(row.get("outcome") or "") for row in rows))
        return rows


@pytest.fixture
async def pool(database: DatabaseUrl) -> AsyncIterator[WatchedPool]:
    opened = await open_pool(database("orchestrator"), 2, "test")
    try:
        yield WatchedPool(opened)
    finally:
        await opened.close()


async def tree_in(database: DatabaseUrl, text: int = 1) -> UUID:
    """Store a run with children whose tasks have *text* characters; all have long answers."""
    root = uuid4()
    owner = await asyncpg.connect(database())
    try:
        ids = [root, *(uuid4() for _ in range(CHILDREN))]
        await owner.execute(RUNS, ids, text, json.dumps(OUTCOME, separators=(",", ":")), root)
    finally:
        await owner.close()
    return root


async def longest_work(doing: asyncio.Task[Any]) -> float:
    """Return for how long at most *doing* held the loop, in seconds of this thread's CPU."""
    longest = 0.0
    while not doing.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


async def test_a_list_lets_others_in_between_two_long_answers(database: DatabaseUrl, pool: WatchedPool) -> None:
    root = await tree_in(database)
    queries = RunQueries(pool, RunWaiters(), RunWaiters())  # type: ignore[arg-type]
    listing = asyncio.create_task(queries.list_runs(ListRuns(project="default", root_run_id=root, limit=200)))
    assert await longest_work(listing) < LONGEST_S
    runs = (await listing).runs
    assert len(runs) == CHILDREN and pool.most <= OUTCOME_BYTES
    assert {(run.message, run.final, run.last_output) for run in runs} == {("no", None, None)}
    assert runs[0].usage is not None and runs[0].usage.total_tokens == 7


async def test_a_tree_lets_others_in_between_two_long_answers(database: DatabaseUrl, pool: WatchedPool) -> None:
    root = await tree_in(database)
    queries = RunQueries(pool, RunWaiters(), RunWaiters())  # type: ignore[arg-type]
    reading = asyncio.create_task(queries.tree(GetTree(project="default", run_id=root)))
    assert await longest_work(reading) < LONGEST_S
    tree = await reading
    assert len(tree.children) == CHILDREN and pool.most <= OUTCOME_BYTES and not tree.truncated
    assert tree.children[0].usage is not None and tree.children[0].usage.total_tokens == 7


async def test_a_tree_of_long_tasks_is_cut_where_a_message_ends(database: DatabaseUrl, pool: WatchedPool) -> None:
    root = await tree_in(database, text=30_000)
    queries = RunQueries(pool, RunWaiters(), RunWaiters())  # type: ignore[arg-type]
    tree = await queries.tree(GetTree(project="default", run_id=root))
    assert tree.truncated and len(tree.children) == PAGE_BYTES // 30_000 - 1
