"""The birth of children: what the SQL stores beside what the simulation's tables store, and when nothing."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import RUN, Machine
from tests.support.tas.two_ledgers import memory

from towpath_contracts.budgets import UNITS
from towpath_contracts.runs.children import ChildTask
from towpath_engine.handlers.children import new_child_run, spawn_children
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.replay import create
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries, open_pool
from towpath_orchestrator.adapters.batch_rows import child_columns
from towpath_orchestrator.adapters.budget_store import BUDGETS
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.core.transitions import Transition, event_text
from towpath_testing.tables.budget_rows import BudgetRows

RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OTHER = uuid.UUID(int=RUN.int + 1)
ACCOUNT = {"project": "default", "scope": "run", "key": str(RUN), "soft": 0.8, "on_soft": "warn"}
BEGUN = {"project": "default", "kind": "goal", "network": "n", "version": 1, "snapshot_digest": "d", "seq": 1}


@pytest.fixture
async def pools(database: DatabaseUrl) -> AsyncIterator[tuple[Any, Any]]:
    """Postgres and the simulation's tables, each with two runs at seq 1 and an account that has room for one call."""
    owner = await asyncpg.connect(database())
    row = {**BEGUN, "status": "running", "caller": "me", "created_at": NOW, "updated_at": NOW}
    marks = ", ".join(f"${place}" for place in range(1, len(row) + 2))
    text = f"INSERT INTO runs.run (run_id, {', '.join(row)}) VALUES ({marks})"
    await owner.executemany(text, [(run, *row.values()) for run in (RUN, OTHER)])
    await owner.close()
    real = await open_pool(database("orchestrator"), 2, "test")
    simulated, runs, _ = memory()
    BudgetRows(runs.database, runs)
    for run in (RUN, OTHER):
        runs.runs[run] = {**row, "run_id": run, "parent_run_id": None, "ended_at": None}
    opened = json.dumps([ACCOUNT | dict.fromkeys(UNITS) | {"model_calls": 1}])
    for pool in (real, simulated):
        await pool.execute(BUDGETS.open_own_accounts, opened)
    yield real, simulated
    real.terminate()


def born(parent: RunState, *agents: str) -> list[Transition]:
    transition = TransitionBuilder(state=parent, now=NOW)
    spawn_children(transition, [ChildTask(agent_key=key, user_message=f"help\x00 {key}") for key in agents])
    found = []
    for entry in transition.entries:
        birth = new_child_run(parent, entry.event)  # type: ignore[arg-type]
        state, first = create(birth.child_id, parent.snapshot, birth.task, NOW)
        found.append(Transition(before_seq=0, state=state, entries=[first], texts=[event_text(first.event)]))
    return found


def commit(seq: int, children: list[Transition], *charges: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the statement and its values that move RUN on from *seq*, and OTHER, which has no part in it."""
    rows = [
        (run, at, at + 1, "running", "", 0, None, "a", 1, NOW, None, None, "{}") for run, at in ((RUN, seq), (OTHER, 1))
    ]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
    values = [*columns, NOW, [], [], [], [], [], [], [], "5", 0, "[]", "[]"]
    return QUERIES.commit_batch, [*values, *child_columns(children), json.dumps(charges)]


def charge(asked: int) -> dict[str, Any]:
    names = [f"{unit}_{what}" for unit in UNITS for what in ("asked", "freed", "spent", "estimated")]
    place = {"run_id": str(RUN), "project": "default", "scope": "run", "key": str(RUN)}
    return {**place, **dict.fromkeys(names, 0), "model_calls_asked": asked}


async def known(pool: Any, children: list[Transition]) -> list[Any]:
    """Return what the tables hold of *children*, as the orchestrator itself reads it."""
    found: list[Any] = []
    for child in children:
        run_id = child.state.run_id
        shown = await pool.fetchrow(QUERIES.child_report, run_id, RUN)
        whole = await pool.fetchrow(RECORDS.whole_run, run_id, "default")
        names = ("kind", "status", "seq", "wake_at", "caller", "agent_key", "max_steps", "user_message", "created_at")
        row = None if whole is None else [whole[name] for name in (*names, "parent_run_id", "root_run_id", "depth")]
        rows = await pool.fetch(QUERIES.load_tails, [run_id], [0])
        log = [(one["seq"], one["at"], json.loads(one["event"])) for one in rows]
        found.append((None if shown is None else dict(shown), row, log))
    return found


@pytest.mark.parametrize("charges", [(), (charge(1),)], ids=["without_budgets", "with_budgets"])
async def test_children_are_born_with_their_parents_transition_or_not_at_all(
    pools: tuple[Any, Any], charges: tuple[dict[str, Any], ...]
) -> None:
    children = born(Machine().state, "expert", "clerk")
    lanes = [PinnedDatabaseConnection(pool) for pool in pools]
    real: list[Any] = []
    moved: list[set[uuid.UUID]] = []
    for expected, seq in ((False, 9), (True, 1)):
        statement, values = commit(seq, children, *charges)
        answers = [await lane.fetch(statement, *values) for lane in lanes]
        moved = [{row["run_id"] for row in rows if row.get("what", "moved") == "moved"} for rows in answers]
        real, simulated = [await known(pool, children) for pool in pools]
        assert moved[0] == moved[1] and real == simulated
        assert [found is not None for found, _, _ in real] == [expected, expected], "a contested parent bears no child"
        assert (RUN in moved[0]) is expected
    found, row, log = real[0]
    assert found == {"seq": 1, "status": "queued", "reason": "", "outcome": None, "ended": False}
    assert row[4:8] == ["me", "expert", 10, "help\ufffd expert"] and row[9:] == [RUN, RUN, 1]
    assert [(seq, event["type"], event["parent"]["index"]) for seq, _, event in log] == [(1, "run_created", 0)]


async def test_a_run_that_may_not_spend_bears_no_child(pools: tuple[Any, Any]) -> None:
    children = born(Machine().state, "expert")
    statement, values = commit(1, children, charge(2))
    for pool in pools:
        rows = await PinnedDatabaseConnection(pool).fetch(statement, *values)
        assert {row["what"]: row["run_id"] for row in rows} == {"short": RUN, "moved": OTHER}
        assert await known(pool, children) == [(None, None, [])]
