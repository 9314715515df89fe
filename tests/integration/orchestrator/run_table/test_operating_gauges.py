"""What operators see of the whole platform: gates, dead letters, quarantined runs and budgets, as Postgres has them."""

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from typing import Any

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl

from towpath_fabric.clock import wall
from towpath_orchestrator.app.operating_gauges import QUERIES, OperatingGauges
from towpath_orchestrator.metrics import OperatingMetrics

GATE = (
    "INSERT INTO runs.gate"
    " (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at, expires_at)"
    " VALUES ($1, $1, $2, 'n', $3, 'pending', '', '{}', now() - make_interval(secs => $4), now() + interval '1 day')"
)
LETTER = (
    "INSERT INTO runs.dead_letter (stream, subject, reason, body, project, status, delivery)"
    " VALUES ($1, 's', 'r', '', 'p', $2, $3)"
)
RUN = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at,"
    " updated_at) VALUES ($1, 'p', 'network', 'n', 1, 'd', $2, 1, 'c', now(), now())"
)
LIMIT = (
    "INSERT INTO runs.budget_limit (project, kind, name, per_day, usd_micros, tokens, soft, on_soft, set_by, set_at)"
    " VALUES ('p', $1, $2, $3, $4, $5, 0.8, 'warn', 'ann', now())"
)
ACCOUNT = (
    "INSERT INTO runs.budget (project, scope, key, usd_micros_spent, usd_micros_reserved, tokens_spent, soft, on_soft)"
    " VALUES ('p', $1, $2, $3, $4, $5, 0.8, 'warn')"
)


class Place:
    """A database as its owner sees it, and the gauges of an orchestrator beside it."""

    def __init__(self, owner: Any, pool: Any) -> None:
        self.owner = owner
        self.registry = CollectorRegistry()
        self.ahead = timedelta()
        log: Any = structlog.get_logger()
        self._gauges = OperatingGauges(pool, OperatingMetrics(self.registry), log, clock=lambda: wall() + self.ahead)

    async def value(self, name: str, **labels: str) -> float | None:
        await self._gauges.look()
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
async def place(database: DatabaseUrl) -> AsyncIterator[Place]:
    owner, own = await asyncpg.connect(database()), await asyncpg.connect(database("orchestrator"))
    try:
        yield Place(owner, own)
    finally:
        await owner.close()
        await own.close()


async def test_gates_are_counted_by_type_and_the_oldest_has_its_age(place: Place) -> None:
    for project, gate_type, age in (("p", "approval", 100), ("q", "approval", 900), ("p", "unknown_effect", 5)):
        await place.owner.execute(GATE, uuid.uuid4(), project, gate_type, age)
    assert await place.value("towpath_gates_pending", type="approval") == 2
    assert await place.value("towpath_gates_pending", type="unknown_effect") == 1
    oldest = await place.value("towpath_gates_oldest_seconds", type="approval")
    assert oldest is not None and 900 <= oldest < 1_800
    await place.owner.execute("UPDATE runs.gate SET status = 'closed', closed_at = now()")
    assert await place.value("towpath_gates_pending", type="approval") == 0, "an alert about it ends"
    assert await place.value("towpath_gates_oldest_seconds", type="approval") == 0


async def test_open_dead_letters_are_counted_by_stream_and_settled_ones_are_not(place: Place) -> None:
    for number, (stream, status) in enumerate((("TASKS", "dead"), ("TASKS", "dead"), ("TASKS", "discarded"))):
        await place.owner.execute(LETTER, stream, status, number)
    assert await place.value("towpath_dead_letters_open", stream="TASKS") == 2
    assert await place.value("towpath_dead_letters_open", stream="TOOLEXEC") == 0


async def test_quarantined_runs_and_the_clock_are_told(place: Place) -> None:
    for status in ("quarantined", "running", "quarantined"):
        await place.owner.execute(RUN, uuid.uuid4(), status)
    place.ahead = timedelta(hours=1)
    assert await place.value("towpath_runs_quarantined") == 2
    offset = await place.value("towpath_clock_offset_seconds")
    assert offset is not None and 3_500 < offset < 3_700


async def test_the_limit_that_is_used_most_is_told_and_of_limits_per_day_only_today_counts(place: Place) -> None:
    assert await place.value("towpath_budget_used_ratio", unit="usd") == 0
    today = wall().astimezone(UTC).strftime("%Y-%m-%d")
    await place.owner.execute(LIMIT, "caller", "ann", False, 1_000, None)
    await place.owner.execute(LIMIT, "project", "p", True, 1_000, 500)
    await place.owner.execute(ACCOUNT, "caller", "ann", 500, 250, 9)
    await place.owner.execute(ACCOUNT, "day", f"{today}/project/p", 100, 0, 50)
    await place.owner.execute(ACCOUNT, "day", "2020-01-01/project/p", 999, 0, 499)
    assert await place.value("towpath_budget_used_ratio", unit="usd") == pytest.approx(0.75)
    assert await place.value("towpath_budget_used_ratio", unit="tokens") == pytest.approx(0.1)


async def test_waiting_gates_are_read_from_their_own_index(place: Place) -> None:
    """However many gates were closed, and whatever a project holds: a look reads what waits, and nothing else."""
    await place.owner.execute(
        "INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at,"
        " expires_at, closed_at) SELECT gen_random_uuid(), gen_random_uuid(), 'p', 'n', 'approval', 'closed', '', '{}',"
        " now(), now(), now() FROM generate_series(1, 5000)"
    )
    await place.owner.execute("ANALYZE runs.gate")
    plan = "\n".join(row[0] for row in await place.owner.fetch(f"EXPLAIN {QUERIES.gates}"))
    assert "gate_pending" in plan, plan
