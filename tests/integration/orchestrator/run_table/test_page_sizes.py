"""A page of a log, a list or a blob reads what it answers with, however much there is."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.records import ReplayRuns
from towpath_contracts.runs.views import GetEvents, ListGates, ListRuns
from towpath_contracts.tools.calls import GetBlobChunk
from towpath_fabric.postgres.pool import SESSION_SETTINGS, open_pool
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.api import queries as run_queries
from towpath_orchestrator.app.api import replay_requests
from towpath_orchestrator.app.api.queries import CHUNK_BYTES, PAGE_BYTES, RunQueries
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.state_cache import RunWaiters

EVENTS = 120
TEXT = 60_000
RUN = """
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, user_message,
  created_at, updated_at)
SELECT id, 'default', 'network', 'n', 1, '', 'completed', $2, 'me', repeat('u', $3), now(), now()
FROM unnest($1::uuid[]) AS id
"""
LOG = """
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT $1, seq, now(), 'note_added', json_build_object('type', 'note_added', 'step', 1, 'text', repeat('t', $3))
FROM generate_series(1, $2::int) AS seq
"""
EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON) "


class MeasuringPool:
    """A pool that counts the bytes of texts and blobs that the database gives."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.most = 0

    async def fetch(self, statement: str, *values: Any) -> Any:
        return self._measured(await self._pool.fetch(statement, *values))

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        row = await self._pool.fetchrow(statement, *values)
        self._measured([] if row is None else [row])
        return row

    async def fetchval(self, statement: str, *values: Any) -> Any:
        value = await self._pool.fetchval(statement, *values)
        self.most = max(self.most, len(value) if isinstance(value, str | bytes) else 0)
        return value

    def _measured(self, rows: list[Any]) -> list[Any]:
        size = sum(len(value) for row in rows for value in row.values() if isinstance(value, str | bytes))
        self.most = max(self.most, size)
        return rows


@pytest.fixture
async def owner(database: DatabaseUrl) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database())
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def pool(database: DatabaseUrl) -> AsyncIterator[MeasuringPool]:
    opened = await open_pool(database("orchestrator"), 2, "test")
    try:
        yield MeasuringPool(opened)
    finally:
        await opened.close()


def queries_of(pool: MeasuringPool) -> RunQueries:
    return RunQueries(pool, RunWaiters(), RunWaiters())  # type: ignore[arg-type]


async def long_run(owner: Any, text: int = TEXT, events: int = EVENTS) -> UUID:
    run_id = uuid4()
    await owner.execute(RUN, [run_id], events, 2)
    await owner.execute(LOG, run_id, events, text)
    return run_id


async def test_a_page_of_a_long_log_reads_no_more_than_it_holds(owner: Any, pool: MeasuringPool) -> None:
    run_id = await long_run(owner)
    entries: list[LogEntry] = []
    while len(entries) < EVENTS:
        page = await queries_of(pool).events(
            GetEvents(run_id=run_id, project="default", after=len(entries), limit=1_000)
        )
        assert page.entries, "a page holds at least one event"
        entries += page.entries
    assert [entry.seq for entry in entries] == list(range(1, EVENTS + 1))
    assert pool.most <= PAGE_BYTES + 1_000


async def test_an_event_that_no_page_holds_is_a_page(owner: Any, pool: MeasuringPool) -> None:
    run_id = await long_run(owner, text=PAGE_BYTES + 5, events=3)
    page = await queries_of(pool).events(GetEvents(run_id=run_id, project="default", after=1, limit=10))
    assert [entry.seq for entry in page.entries] == [2]


async def test_a_page_has_at_most_the_events_that_were_asked_for(owner: Any, pool: MeasuringPool) -> None:
    run_id = await long_run(owner, text=10)
    page = await queries_of(pool).events(GetEvents(run_id=run_id, project="default", after=5, limit=7))
    assert [entry.seq for entry in page.entries] == list(range(6, 13))


async def test_the_rows_behind_a_page_are_not_looked_at(owner: Any, database: DatabaseUrl) -> None:
    run_id = await long_run(owner)
    await owner.execute("VACUUM ANALYZE runs.run_event")
    orchestrator = await asyncpg.connect(database("orchestrator"), server_settings=SESSION_SETTINGS)
    try:
        text = await orchestrator.fetchval(EXPLAIN + QUERIES.events_page, run_id, 0, 1_000, PAGE_BYTES)
    finally:
        await orchestrator.close()
    scans = [part for part in parts_of(json.loads(text)[0]["Plan"]) if "run_event" in part.get("Relation Name", "")]
    looked_at = sum(part["Actual Rows"] * part["Actual Loops"] for part in scans)
    assert scans and "Seq Scan" not in {part["Node Type"] for part in scans}
    assert looked_at <= 2 * (PAGE_BYTES // TEXT + 2)


def parts_of(plan: Any) -> list[Any]:
    return [plan, *(part for below in plan.get("Plans", []) for part in parts_of(below))]


async def test_a_piece_of_a_blob_is_read_alone(owner: Any, pool: MeasuringPool) -> None:
    run_id = await long_run(owner, text=1, events=1)
    data = bytes(range(256)) * 4 * 1_024 * 3 + b"rest"
    await owner.execute("INSERT INTO runs.blob (digest, data, size, project) VALUES ('d', $1, 1, 'default')", data)
    queries, pieces = queries_of(pool), []
    while True:
        chunk = await queries.blob(GetBlobChunk(digest="d", index=len(pieces), run_id=run_id))
        pieces.append(base64.b64decode(chunk.data_base64))
        if len(pieces) == chunk.total:
            break
    assert b"".join(pieces) == data and len(pieces) == 13
    assert pool.most <= CHUNK_BYTES + 100
    for index in (13, 10**12, -1):
        beyond = await queries.blob(GetBlobChunk(digest="d", index=index, run_id=run_id))
        assert base64.b64decode(beyond.data_base64) == (data[:CHUNK_BYTES] if index < 0 else b"")


async def test_a_list_of_runs_with_long_tasks_reads_no_more_than_a_page(owner: Any, pool: MeasuringPool) -> None:
    await owner.execute(RUN, [uuid4() for _ in range(40)], 1, TEXT)
    queries, seen, before = queries_of(pool), set(), None
    while True:
        page = await queries.list_runs(ListRuns(project="default", before=before, limit=30))
        seen |= {run.run_id for run in page.runs}
        before = page.next_before
        if before is None:
            break
    assert len(seen) == 40
    assert pool.most <= PAGE_BYTES + 10_000


GATES = """
INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at, expires_at)
SELECT gen_random_uuid(), $1, 'default', 'n', 'approval', 'pending', 'why',
  json_build_object('text', repeat('漢', 1200)), now() + number * interval '1 ms', now()
FROM generate_series(1, $2::int) AS number
"""


async def test_a_page_of_gates_is_cut_where_a_message_holds_no_more(owner: Any, pool: MeasuringPool) -> None:
    await owner.execute(GATES, uuid4(), 500)
    queries, seen, after = queries_of(pool), [], None
    while True:
        page = await queries.list_gates(ListGates(project="default", status="pending", after=after, limit=500))
        assert len(page.model_dump_json().encode()) <= PAGE_BYTES + 1_000, "which is below the 1 MiB of the broker"
        seen += [gate.gate_id for gate in page.gates]
        after = page.next_after
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 500


async def test_what_hardly_any_run_is_is_looked_for_a_part_of_the_runs_at_a_time(
    owner: Any, pool: MeasuringPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queries, "RUNS_LOOKED_AT", 10)
    ids = [UUID(int=number) for number in range(1, 31)]
    await owner.execute(RUN, ids, 1, 1)
    await owner.execute("UPDATE runs.run SET network = 'rare' WHERE run_id = ANY ($1)", [ids[0], ids[4], ids[29]])
    for status in (None, "completed"):
        pages, before = [], None
        while True:
            asked = ListRuns(project="default", network="rare", status=status, before=before, limit=50)
            page = await queries_of(pool).list_runs(asked)
            pages.append([run.run_id.int for run in page.runs])
            before = page.next_before
            if before is None:
                break
        assert pages == [[30], [], [5, 1], []]


async def test_gates_that_hardly_any_filter_leaves_are_looked_for_a_part_of_the_gates_at_a_time(
    owner: Any, pool: MeasuringPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queries, "GATES_LOOKED_AT", 10)
    await owner.execute(GATES, uuid4(), 30)
    ids = [row["gate_id"] for row in await owner.fetch("SELECT gate_id FROM runs.gate ORDER BY opened_at, gate_id")]
    rare = [ids[0], ids[4], ids[29]]
    await owner.execute("UPDATE runs.gate SET tool = 'rare', assigned_to = 'me' WHERE gate_id = ANY ($1)", rare)
    for filters in ({"tool": "rare"}, {"assigned_to": ("me",)}, {"tool": "rare", "status": "all", "paused": False}):
        pages, after = [], None
        while True:
            page = await queries_of(pool).list_gates(ListGates(project="default", after=after, limit=50, **filters))
            pages.append([gate.gate_id for gate in page.gates])
            after = page.next_after
            if after is None:
                break
        assert pages == [rare[:2], [], rare[2:], []]


async def test_runs_to_replay_are_looked_for_a_part_of_the_runs_at_a_time(
    owner: Any, pool: MeasuringPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_requests, "LOOKED_AT", 10)
    begun = datetime(2030, 1, 1, tzinfo=UTC)
    ids = [id_of(begun + timedelta(hours=number)) for number in range(30)]
    await owner.execute(RUN, ids, 1, 1)
    await owner.execute("UPDATE runs.run SET network = 'rare' WHERE run_id = ANY ($1)", [ids[0], ids[4], ids[29]])
    created = (
        "UPDATE runs.run SET created_at = $1::timestamptz + interval '1 hour' * array_position($2::uuid[], run_id)"
    )
    await owner.execute(created, begun - timedelta(hours=1), ids)

    async def pages(**asked: Any) -> list[list[int]]:
        found, after = [], None
        while True:
            page = await ReplayRequests(pool).replay(ReplayRuns(after=after, limit=2, **asked))
            found.append(page.runs)
            after = page.next_after
            if after is None:
                return found

    for project in ("default", ""):
        assert await pages(project=project, network="rare") == [2, 0, 0, 1]
        assert await pages(project=project, network="rare", since=begun + timedelta(hours=28)) == [0, 0, 1]
        assert sum(await pages(project=project)) == 30
    assert sum(await pages(project="elsewhere")) == 0


def id_of(moment: datetime) -> UUID:
    """Return an id that tells *moment*, as those of runs do."""
    return UUID(int=int(moment.timestamp() * 1_000) << 80)
