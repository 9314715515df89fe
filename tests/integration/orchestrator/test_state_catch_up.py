"""A state that another replica has moved on is caught up with the new events alone."""

from uuid import UUID

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import Machine, snapshot, use

from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.model_prices import ModelPrices
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.commit.run_reader import BatchRunReader
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.metrics import OrchestratorMetrics

ROW = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,"
    " updated_at) VALUES ($1, 'default', 'network', 'desk', 1, 'sha256:00', 'running', $2, 'me', now(), now())"
)
EVENT = "INSERT INTO runs.run_event (run_id, seq, at, type, event) VALUES ($1, $2, $3, $4, $5)"


@pytest.mark.parametrize("seen", ["before", "after"])
async def test_a_state_seen_before_is_caught_up_without_its_earlier_events(database: DatabaseUrl, seen: str) -> None:
    machine = Machine()
    older = machine.state
    machine.decide(use("echo", text="hello"))
    machine.finish()
    newer, run_id = machine.state, machine.state.run_id
    owner, pool = await asyncpg.connect(database()), await open_pool(database("orchestrator"), 2, "test")
    metrics, log, store, cache = (
        OrchestratorMetrics(CollectorRegistry()),
        structlog.get_logger(),
        RunStore(pool),
        StateCache(10),
    )
    accounting = BudgetAccounting(BudgetLimitCache(pool, ModelPrices(None).price_of), metrics.refused)
    reader = BatchRunReader(pool, PinnedDatabaseConnection(pool), store, cache, accounting, metrics, log)
    stored = machine.entries if seen == "before" else machine.entries[: older.seq]
    try:
        await owner.execute("INSERT INTO runs.snapshot VALUES ('sha256:00', $1)", snapshot().model_dump_json())
        await owner.execute(ROW, run_id, len(stored))
        rows = [(run_id, one.seq, one.at, one.event.type, one.event.model_dump_json()) for one in stored]
        await owner.executemany(EVENT, rows)
        if seen == "after":  # the tables were set back: what was seen is not in them any more
            cache.put(newer)
            assert await states_of(reader, run_id) == {run_id: older}
            return
        assert await store.load(run_id) == newer
        await owner.execute("UPDATE runs.run_event SET event = '{}' WHERE seq <= $1", older.seq)
        cache.put(older)
        assert await states_of(reader, run_id) == {run_id: newer}
        assert cache.get(run_id) == newer
    finally:
        await owner.close()
        pool.terminate()


async def states_of(reader: BatchRunReader, run_id: UUID) -> object:
    return (await reader.read([run_id])).states
