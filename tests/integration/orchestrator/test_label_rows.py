"""Changed labels of a run: what the SQL stores beside what the simulation's tables store."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import asyncpg
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import RUN
from tests.support.tas.two_ledgers import memory

from towpath_orchestrator.adapters.run_store import QUERIES

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
BEGUN = {
    "project": "default", "kind": "task", "network": "n", "version": 1, "snapshot_digest": "d", "seq": 1,
    "status": "running", "caller": "me", "created_at": NOW, "updated_at": NOW,
    "labels": '{"team": "shop", "tier": "1"}',
}  # fmt: skip
CHANGES: list[tuple[str, uuid.UUID, dict[str, str], list[str]]] = [
    ("default", RUN, {"tier": "2", "place": "x"}, ["team", "tier", "none"]),
    ("bank", RUN, {"team": "bank"}, ["tier"]),
    ("default", uuid.UUID(int=7), {"team": "nobody"}, []),
]


async def test_labels_are_removed_then_added_of_one_run_of_its_project_alone(database: DatabaseUrl) -> None:
    owner = await asyncpg.connect(database())
    pool, runs, _ = memory()
    marks = ", ".join(f"${place}" for place in range(2, len(BEGUN) + 2))
    await owner.execute(f"INSERT INTO runs.run (run_id, {', '.join(BEGUN)}) VALUES ($1, {marks})", RUN, *BEGUN.values())
    runs.runs[RUN] = {**BEGUN, "run_id": RUN}
    try:
        for project, run_id, added, removed in CHANGES:
            for tables in (owner, pool):
                await tables.execute(QUERIES.label_run, project, run_id, json.dumps(added), removed)
        real: Any = await owner.fetchval("SELECT labels FROM runs.run")
    finally:
        await owner.close()
    assert json.loads(real) == json.loads(runs.runs[RUN]["labels"]) == {"tier": "2", "place": "x"}
    assert set(runs.runs) == {RUN}
