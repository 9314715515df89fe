"""Records with texts that Postgres takes nothing out of (NUL), and trees with more runs than an answer shows."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath_contracts.runs.tree import GetTree
from towpath_contracts.runs.views import GetRun
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.app.api.commands import AT_ONCE, RECORDS
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.state_cache import RunWaiters

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUN, CALL, GATE, SWITCH = (uuid.UUID(int=number << 64) for number in (1, 2, 3, 4))
CHILDREN = [uuid.UUID(int=number) for number in (1, 2, 3)]
"""Agents of a plan that an agent asked for: they stand as deep as it, and may sort before it by their ids."""
BEGUN = {"project": "default", "kind": "network", "network": "n", "version": 1, "snapshot_digest": "d", "caller": "me"}
NUL = "a\x00b"
CALLED = {"execution_id": str(CALL), "call_index": 0, "tool": "pay", "args": {"text": NUL}}
EVENTS = [
    {"type": "instruction_issued", "step": 1, "instruction": {"action": "call_tools", "calls": [CALLED]}},
    {
        "type": "tool_call_finished",
        "execution_id": str(CALL),
        "status": "failed",
        "result": {NUL: NUL},
        "failure": {"code": "tool_exception", "message": NUL, "began": True, "uncertain": False},
        "probe": None,
        "settled_by": "",
        "worker": "w",
    },
]


async def insert(owner: Any, table: str, *rows: dict[str, Any]) -> None:
    marks = ", ".join(f"${place}" for place in range(1, len(rows[0]) + 1))
    text = f"INSERT INTO runs.{table} ({', '.join(rows[0])}) VALUES ({marks})"
    await owner.executemany(text, [tuple(row.values()) for row in rows])


def begun(run: uuid.UUID, status: str, parent: uuid.UUID | None = None) -> dict[str, Any]:
    place = {"parent_run_id": parent, "root_run_id": parent, "depth": 1}
    return {**BEGUN, "run_id": run, "status": status, "seq": 2, "created_at": NOW, "updated_at": NOW, **place}


@pytest.fixture
async def reading(database: DatabaseUrl) -> AsyncIterator[tuple[RunQueries, Any]]:
    owner = await asyncpg.connect(database())
    await insert(owner, "run", begun(RUN, "failed"), *(begun(child, "running", RUN) for child in CHILDREN))
    texts = [json.dumps(event) for event in EVENTS]
    types = [str(event["type"]) for event in EVENTS]
    rows = zip(types, texts, strict=True)
    await insert(
        owner,
        "run_event",
        *({"run_id": RUN, "seq": n, "at": NOW, "type": t, "event": e} for n, (t, e) in enumerate(rows, start=1)),
    )
    paused = {"switch": {"switch_id": str(SWITCH), "reason": NUL}, "args": {"text": NUL}}
    words = {"project": "default", "network": "n", "status": "pending", "reason": "paused", "gate_type": "paused"}
    times = {"opened_at": NOW, "expires_at": NOW + timedelta(hours=1)}
    await insert(owner, "gate", {**words, **times, "gate_id": GATE, "run_id": RUN, "detail": json.dumps(paused)})
    await owner.close()
    pool = await open_pool(database("orchestrator"), 2, "test")
    yield RunQueries(pool, RunWaiters(), RunWaiters()), pool
    pool.terminate()


async def test_texts_with_nul_and_trees_that_are_too_large(reading: tuple[RunQueries, Any]) -> None:
    place, pool = reading
    rows = await pool.fetch(RECORDS.paused_gates, "default", str(SWITCH), uuid.UUID(int=0), AT_ONCE)
    assert [(row["gate_id"], row["run_id"]) for row in rows] == [(GATE, RUN)], "a pause that is over wakes its runs"

    found = await place.get_run(GetRun(project="default", run_id=RUN, effects=True))
    assert [(effect.tool, effect.execution_id) for effect in found.effects] == [("pay", CALL)]

    whole = await place.tree(GetTree(project="default", run_id=RUN, limit=4))
    assert [child.run_id for child in whole.children] == CHILDREN and not whole.truncated
    cut = await place.tree(GetTree(project="default", run_id=RUN, limit=3))
    assert [child.run_id for child in cut.children] == CHILDREN[:2] and cut.truncated
