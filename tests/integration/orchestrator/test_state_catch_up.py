"""States that another replica has moved on are caught up with the new events alone, all of a batch at once."""

import dataclasses
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import Machine, snapshot, use

from towpath_contracts.canonical import digest_text
from towpath_contracts.events.log import LogEntry
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.model_prices import ModelPrices
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.commit.run_reader import BatchRunReader
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.metrics import OrchestratorMetrics

ROW = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,"
    " updated_at) VALUES ($1, 'default', 'network', 'desk', 1, (SELECT digest FROM runs.snapshot), 'running', $2, 'me',"
    " now(), now())"
)
EVENT = "INSERT INTO runs.run_event (run_id, seq, at, type, event) VALUES ($1, $2, $3, $4, $5)"


class StatementCounter:
    """A pool that counts what it is asked for."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.asked: Counter[str] = Counter()

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        self.asked[query] += 1
        return list(await self._pool.fetch(query, *values))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


class Replica:
    """What reads runs, and the tables as their owner sees them."""

    def __init__(self, owner: Any, pool: Any) -> None:
        self.owner = owner
        self.pool = StatementCounter(pool)
        self.store, self.cache = RunStore(self.pool), StateCache(10)
        metrics = OrchestratorMetrics(CollectorRegistry())
        accounting = BudgetAccounting(BudgetLimitCache(pool, ModelPrices(None).price_of), metrics.refused)
        self.reader = BatchRunReader(
            *(PinnedDatabaseConnection(pool), self.store, self.cache, accounting, metrics),
            structlog.get_logger(),
        )

    async def stored(self, run_id: UUID, entries: list[LogEntry]) -> None:
        """Store a run with *entries* as its log."""
        await self.owner.execute(ROW, run_id, len(entries))
        rows = [(run_id, one.seq, one.at, one.event.type, one.event.model_dump_json()) for one in entries]
        await self.owner.executemany(EVENT, rows)

    async def read(self, *run_ids: UUID) -> dict[UUID, RunState]:
        return (await self.reader.read(list(run_ids))).states


@pytest.fixture
async def replica(database: DatabaseUrl) -> AsyncIterator[Replica]:
    owner, pool = await asyncpg.connect(database()), await open_pool(database("orchestrator"), 2, "test")
    text = snapshot().model_dump_json()
    await owner.execute("INSERT INTO runs.snapshot VALUES ($1, $2)", digest_text(text), text)
    yield Replica(owner, pool)
    await owner.close()
    pool.terminate()


def moved_run() -> tuple[Machine, RunState]:
    """Return a run that has made a call, and its state before that."""
    machine = Machine()
    older = machine.state
    machine.decide(use("echo", text="hello"))
    machine.finish()
    return machine, older


async def test_a_state_seen_before_is_caught_up_without_its_earlier_events(replica: Replica) -> None:
    machine, older = moved_run()
    newer, run_id = machine.state, machine.state.run_id
    await replica.stored(run_id, machine.entries)
    assert await replica.store.load(run_id) == newer
    await replica.owner.execute("UPDATE runs.run_event SET event = '{}' WHERE seq <= $1", older.seq)
    replica.cache.put(older)
    assert await replica.read(run_id) == {run_id: newer}
    assert replica.cache.get(run_id) == newer


async def test_a_state_of_tables_that_were_set_back_is_loaded_anew(replica: Replica) -> None:
    machine, older = moved_run()
    newer, run_id = machine.state, machine.state.run_id
    await replica.stored(run_id, machine.entries[: older.seq])
    replica.cache.put(newer)
    assert await replica.read(run_id) == {run_id: older}


async def test_one_statement_catches_up_all_runs_of_a_batch(replica: Replica) -> None:
    machine, older = moved_run()
    known, unknown = [uuid4() for _ in range(3)], [uuid4() for _ in range(2)]
    for run_id in (*known, *unknown):
        await replica.stored(run_id, machine.entries)
    for run_id in known:
        replica.cache.put(dataclasses.replace(older, run_id=run_id))
    found = await replica.read(*known, *unknown)
    assert found == {run_id: dataclasses.replace(machine.state, run_id=run_id) for run_id in (*known, *unknown)}
    assert replica.pool.asked[QUERIES.load_tails] == 1


async def test_a_run_whose_log_cannot_be_folded_is_parked_and_the_others_are_caught_up(replica: Replica) -> None:
    machine, older = moved_run()
    run_ids = broken, *others = [uuid4() for _ in range(3)]
    for run_id in run_ids:
        await replica.stored(run_id, machine.entries)
        replica.cache.put(dataclasses.replace(older, run_id=run_id))
    await replica.owner.execute("UPDATE runs.run_event SET event = '{}' WHERE run_id = $1", broken)
    found = await replica.read(*run_ids)
    assert found == {run_id: dataclasses.replace(machine.state, run_id=run_id) for run_id in others}
    assert "can't be read" in replica.reader.why_missing(broken)
    rows = await replica.owner.fetch("SELECT run_id FROM runs.run WHERE status = 'quarantined'")
    assert [row["run_id"] for row in rows] == [broken]


async def test_a_network_that_is_not_the_one_that_was_published_is_none(replica: Replica) -> None:
    digest = await replica.owner.fetchval("SELECT digest FROM runs.snapshot")
    await replica.owner.execute("UPDATE runs.snapshot SET snapshot = replace(snapshot::text, 'echo', 'other')::json")
    with pytest.raises(LookupError, match="not the one that was published"):
        await replica.store.snapshot(digest)
    await replica.owner.execute("UPDATE runs.snapshot SET snapshot = $1", snapshot().model_dump_json())
    assert await replica.store.snapshot(digest) == snapshot()
