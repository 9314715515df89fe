"""Which runs the orchestrator says nobody advances, asked as its own database user."""

from typing import Any
from uuid import UUID, uuid4

import asyncpg
from tests.conftest import DatabaseUrl

from towpath_contracts.runs.idle_runs import ListIdleRuns
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.state_cache import RunWaiters

INSERT = """
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,
  updated_at, wake_at)
SELECT $1, 'default', 'network', 'n', 1, '', $2, 7, 'me', now() - make_interval(secs => $3),
  now() - make_interval(secs => $4), now() - make_interval(secs => $5)
"""


async def test_runs_that_stand_still_are_listed_by_their_reason(database: DatabaseUrl) -> None:
    made: dict[str, UUID] = {}
    owner = await asyncpg.connect(database())
    for name, status, created, updated, overdue in (
        ("overdue", "running", 900, 900, 40.0),
        ("at a gate, overdue", "waiting", 900, 900, 31.0),
        ("looked at soon", "running", 900, 10, 5.0),
        ("quiet", "running", 900, 300, -900.0),
        ("quiet without a timer", "running", 900, 200, None),
        ("moves", "running", 900, 5, -900.0),
        ("waits for a person", "waiting", 900, 500, -900.0),
        ("queued", "queued", 4_000, 4_000, None),
        ("just queued", "queued", 10, 10, None),
        ("parked", "quarantined", 4_000, 4_000, None),
        ("ended", "completed", 4_000, 4_000, 3_000.0),
    ):
        made[name] = uuid4()
        await owner.execute(INSERT, made[name], status, created, updated, overdue)
    await owner.close()
    pool = await open_pool(database("orchestrator"), 1, "test")
    try:
        question = ListIdleRuns(overdue_s=30, quiet_s=60, queued_s=3_600)
        idle = await _reading(pool).idle(question)
        assert [(run.run_id, run.idle) for run in idle.runs] == [
            (made["overdue"], "overdue"),
            (made["at a gate, overdue"], "overdue"),
            (made["quiet"], "quiet"),
            (made["quiet without a timer"], "quiet"),
            (made["queued"], "queued"),
        ]
        assert all(run.for_s >= least for run, least in zip(idle.runs, (40, 31, 300, 200, 4_000), strict=True))
        assert {(run.project, run.seq) for run in idle.runs} == {("default", 7)}
        few = await _reading(pool).idle(question.model_copy(update={"limit": 1}))
        assert [run.idle for run in few.runs] == ["overdue", "quiet", "queued"]
    finally:
        await pool.close()


def _reading(pool: Any) -> RunQueries:
    return RunQueries(pool, RunWaiters(), RunWaiters())
