"""The row of a run is found by indexes, and moving a run writes none: asked as the orchestrator's own database user."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator.run_ids import NEW_RUN_ID

from towpath_fabric.postgres.pool import SESSION_SETTINGS
from towpath_orchestrator.adapters.run_store import QUERIES

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FINISHED = 20_000
"""Far more than the runs that are not finished."""

INSERT = f"""
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, user_message,
  created_at, updated_at, ended_at, wake_at, queue_at)
SELECT coalesce(given, {NEW_RUN_ID}), 'default', 'network', 'n', 1, 'd', $1, 1, 'c' || number % 3, repeat('x', 100),
  $3::timestamptz + number * interval '1 ms', $3::timestamptz + number * interval '1 ms', $4, $5, now()
FROM unnest($2::uuid[]) WITH ORDINALITY AS w (given, number)
"""
EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON) "


@pytest.fixture
async def owner(database: DatabaseUrl) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database())
    try:
        yield connection
    finally:
        await connection.close()


async def add(
    owner: Any,
    status: str,
    ids: list[UUID | None],
    *,
    moved: datetime = NOW,
    ended: datetime | None = None,
    wake: datetime | None = None,
) -> None:
    """Add runs in *status*; each has moved a millisecond after the one before."""
    await owner.execute(INSERT, status, ids, moved, ended, wake)


def numbered(first: int, last: int) -> list[UUID | None]:
    return [UUID(int=number) for number in range(first, last + 1)]


def transition_of(runs: list[UUID | None], *, status: str = "running") -> list[Any]:
    """The values of `commit_plain_batch` that move *runs* from seq 1 to 3, with two events and a fact each."""
    many = len(runs)
    ended = [None if status == "running" else NOW] * many
    columns = [runs, [1] * many, [3] * many, [status] * many, [""] * many, [0] * many, [NOW + timedelta(1)] * many]
    columns += [["a"] * many, [7] * many, [NOW] * many, ended, [None] * many, ["{}"] * many]
    events = [runs * 2, [2] * many + [3] * many, ["decision_made"] * 2 * many, ["{}"] * 2 * many]
    return [*columns, NOW, *events, runs, [2] * many, ["{}"] * many, "1", 0]


async def updates(owner: Any) -> tuple[int, int]:
    """How many rows of runs this transaction has updated, and how many of them without writing an index."""
    row = await owner.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relid = 'runs.run'::regclass"
    )
    return row["n_tup_upd"], row["n_tup_hot_upd"]


async def test_what_moves_an_active_run_writes_no_index(owner: Any) -> None:
    runs = numbered(1, 4)
    await add(owner, "running", runs, wake=NOW)
    async with owner.transaction():
        moved = await owner.fetch(QUERIES.commit_plain_batch, *transition_of(runs))
        assert (len(moved), await updates(owner)) == (4, (4, 4))
        await owner.execute(QUERIES.move_wake, runs, [3] * 4, [datetime(2020, 1, 1, tzinfo=UTC)] * 4)
        assert await updates(owner) == (8, 8)
        claimed = await owner.fetch(QUERIES.claim_overdue, 10)
        assert (len(claimed), await updates(owner)) == (4, (12, 12))


async def test_overdue_runs_are_claimed_whether_they_are_active_or_not_the_oldest_first(owner: Any) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    for number, status in enumerate(("running", "waiting", "cancelling", "quarantined", "running", "waiting"), start=1):
        await add(owner, status, [UUID(int=number)], wake=past + timedelta(days=number))
    await add(owner, "running", [UUID(int=7)], wake=datetime(9999, 1, 1, tzinfo=UTC))
    await add(owner, "queued", [UUID(int=8)])
    claims = [{row["run_id"].int for row in await owner.fetch(QUERIES.claim_overdue, 4)} for _ in range(3)]
    assert claims == [{1, 2, 3, 4}, {5, 6}, set()], "and nobody claims one again within five seconds"


async def test_a_sweep_finds_every_run_that_moved_in_the_order_of_their_moves(owner: Any) -> None:
    for place, status in enumerate(
        ("queued", "running", "completed", "waiting", "cancelling", "quarantined", "failed")
    ):
        await add(owner, status, [UUID(int=place + 1)], moved=NOW + timedelta(seconds=place))

    async def sweep(since_s: float, most: int) -> list[int]:
        rows = await owner.fetch(QUERIES.sweep_runs, NOW + timedelta(seconds=since_s), most)
        return [row["run_id"].int for row in rows]

    assert await sweep(-1, 100) == [1, 2, 3, 4, 5, 6, 7]
    assert await sweep(-1, 3) == [1, 2, 3]
    assert await sweep(2.001, 3) == [3, 4, 5]
    await owner.fetch(QUERIES.commit_plain_batch, *transition_of([UUID(int=2)], status="completed"))
    assert await sweep(-1, 1) == [2], "a run that moves again, and how it ended, is found at its new place"


async def test_no_statement_looks_through_the_runs_that_have_ended(owner: Any, database: DatabaseUrl) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await add(owner, "completed", [None] * FINISHED, moved=yesterday, ended=yesterday)
    await add(owner, "queued", [None] * 500, moved=yesterday)
    soon = datetime.now(UTC) + timedelta(hours=1)
    for status, many in (("running", 200), ("waiting", 100), ("quarantined", 10)):
        await add(owner, status, [None] * many, moved=datetime.now(UTC), wake=soon)
    await owner.execute("VACUUM ANALYZE runs.run")
    some: list[UUID] = [row["run_id"] for row in await owner.fetch("SELECT run_id FROM runs.run LIMIT 50")]
    orchestrator = await asyncpg.connect(database("orchestrator"), server_settings=SESSION_SETTINGS)
    try:
        for name, values in (
            ("times", (some,)),
            ("claim_overdue", (256,)),
            ("move_wake", (some, [1] * 50, [soon] * 50)),
            ("moved_lately", (60.0, 500)),
            ("load_counts", (1_000, 100_000, 18_000)),
            ("next_queued", (50, 800, [], False, 1_000, 900, [])),
            ("sweep_runs", (datetime.now(UTC) - timedelta(seconds=60), 2_000)),
            ("sweep_runs", (datetime(1970, 1, 1, tzinfo=UTC), 200)),
            ("idle_runs", (30.0, 60.0, 3_600.0, 100)),
            ("runs_of_project", ("default", None, None, None, None, 50, None, None, None)),
            ("runs_of_status", ("default", "failed", None, None, None, 50, 0, None, None)),
            ("runs_of_status", ("default", "waiting", None, None, some[0], 50, 0, None, None)),
            ("runs_of_family", ("default", None, None, None, None, 50, None, None, None, None, None, some[0])),
            ("runs_of_family", ("default", None, None, None, None, 50, None, None, None, some[0], some[0], None)),
            ("list_runs", ("default", some, 600_000)),
            ("commit_plain_batch", transition_of([*some])),
        ):
            text = await orchestrator.fetchval(EXPLAIN + getattr(QUERIES, name), *values)
            scans = [part for part in parts_of(json.loads(text)[0]["Plan"]) if part.get("Relation Name") == "run"]
            assert "Seq Scan" not in {part["Node Type"] for part in scans}, name
            looked_at = sum(
                (part["Actual Rows"] + part.get("Rows Removed by Filter", 0)) * part["Actual Loops"] for part in scans
            )
            assert looked_at < FINISHED / 10, f"{name} looks at {looked_at} rows"
    finally:
        await orchestrator.close()


async def test_statements_planned_while_there_were_no_runs_do_not_read_the_table_later(
    owner: Any, database: DatabaseUrl
) -> None:
    one: list[UUID | None] = [UUID(int=7)]
    many = 2_000  # twice what may be counted of the queue, and far more than what is let in
    orchestrator = await asyncpg.connect(database("orchestrator"), server_settings=SESSION_SETTINGS)

    async def read() -> tuple[int, int]:
        """Ask all of them; how often the session has read the whole table of runs, and how many entries of indexes."""
        for name, values in (
            ("times", (one,)),
            ("claim_overdue", (256,)),
            ("load_counts", (1_000, 100_000, 18_000)),
            ("next_queued", (50, 800, [], False, 1_000, 900, [])),
            ("commit_plain_batch", transition_of(one)),
        ):
            await orchestrator.fetch(getattr(QUERIES, name), *values)
        await orchestrator.execute("SELECT pg_stat_force_next_flush()")
        return tuple(
            await owner.fetchrow(
                "SELECT t.seq_scan, sum(i.idx_tup_read)::bigint FROM pg_stat_user_tables t "
                "JOIN pg_stat_user_indexes i USING (relid) WHERE relid = 'runs.run'::regclass GROUP BY t.seq_scan"
            )
        )

    try:
        await read()  # plans each of them
        await add(owner, "queued", numbered(1, many))
        before = await read()
        after = await read()
        assert after[0] == before[0]
        looked_at = after[1] - before[1]
        assert 0 < looked_at < many, (
            "who reads one index whole, and sorts out afterwards, reads that many by that alone"
        )
    finally:
        await orchestrator.close()


def parts_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(part for inner in plan.get("Plans", ()) for part in parts_of(inner))]
