"""Which past runs a proposal of a grant is made from."""

from uuid import UUID

import asyncpg
from tests.conftest import DatabaseUrl

from towpath_fabric.ids import new_run_id
from towpath_orchestrator.app.api.grant_history import QUERIES

ROW = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,"
    " updated_at, root_run_id, parent_run_id, depth, erased_at)"
    " VALUES ($1, 'default', 'network', 'desk', 1, 'sha256:00', 'completed', 1, 'me', now(), now(), $2, $2, $3,"
    " $4::timestamptz)"
)


async def test_erased_runs_are_no_source_of_a_grant(database: DatabaseUrl) -> None:
    owner = await asyncpg.connect(database())
    try:
        kept, child, erased = (new_run_id() for _ in range(3))
        at = await owner.fetchval("SELECT now()")
        for run_id, root, erased_at in ((kept, None, None), (child, kept, None), (erased, None, at)):
            await owner.execute(ROW, run_id, root, 0 if root is None else 1, erased_at)
        rows = await owner.fetch(QUERIES.completed_runs, "default", UUID(int=0), "desk", None, 10, 10, 10)
        assert [(row["root"], row["run_ids"]) for row in rows] == [(kept, [child])]
    finally:
        await owner.close()
