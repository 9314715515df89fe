"""The accounts in Postgres: what the SQL says beside what the simulation's tables say; and that many can't overdraw."""

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.two_ledgers import memory

from towpath_contracts.budgets import UNITS
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.budget_store import BUDGETS, BudgetBatchResult, read_batch_result
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_testing.tables.budget_rows import BudgetRows

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUNS = [uuid.UUID(int=number << 64) for number in range(1, 9)]
PLACES = (("project", "default"), ("caller", "ann"), ("day", "2026-11-22/project/default"), ("run", "r1"))


@pytest.fixture
async def pool(database: DatabaseUrl) -> AsyncIterator["asyncpg.Pool[Any]"]:
    owner = await asyncpg.connect(database())
    names = "run_id, project, kind, network, version, snapshot_digest, status, seq, caller, created_at, updated_at"
    values = [(run, "default", "network", "n", 1, "d", "running", 1, "ann", NOW, NOW) for run in RUNS]
    marks = ", ".join(f"${place}" for place in range(1, 12))
    await owner.executemany(f"INSERT INTO runs.run ({names}) VALUES ({marks})", values)
    await owner.close()
    found = await open_pool(database("orchestrator"), 4, "test")
    yield found
    found.terminate()  # a test that failed may hold connections


def charge(run: uuid.UUID, place: tuple[str, str], **amounts: Any) -> dict[str, Any]:
    names = [f"{unit}_{what}" for unit in UNITS for what in ("asked", "freed", "spent", "estimated")]
    row: dict[str, Any] = {"run_id": str(run), "project": "default", "scope": place[0], "key": place[1]}
    return {**row, **dict.fromkeys(names, 0), **amounts}


def values(runs: dict[uuid.UUID, int], charges: list[dict[str, Any]]) -> list[Any]:
    """Return the values of a commit that moves *runs* on from the seq that each is thought to have."""
    rows = [(run, seq, seq + 1, "running", "", 0, None, "a", 1, NOW, None, None, "{}") for run, seq in runs.items()]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
    return [*columns, NOW, [], [], [], [], [], [], [], "5", 0, "[]", "[]", "[]", "[]", "[]", json.dumps(charges)]


def comparable(done: BudgetBatchResult) -> Any:
    soft = sorted((row["scope"], row["key"]) for row in done.soft)
    return done.moved, done.refused, done.crowded, done.unopened, soft


OPENED = [
    {"project": "default", "scope": scope, "key": key, "soft": 0.8, "on_soft": "warn"}
    | dict.fromkeys(UNITS)
    | ({"tokens": 1_000, "model_calls": 40} if scope != "run" else {"tool_calls": 9})
    | ({"usd_micros": 10**6} if scope == "day" else {})
    for scope, key in PLACES
]


async def test_budget_accounts_say_the_same_in_postgres_and_in_the_simulation(pool: "asyncpg.Pool[Any]") -> None:
    simulated, runs, _ = memory()
    rows = BudgetRows(runs.database, runs)
    for run in RUNS:
        runs.runs[run] = {"seq": 1, "ended_at": None}
    lanes = (PinnedDatabaseConnection(pool), PinnedDatabaseConnection(simulated))
    for lane in lanes:
        await lane.fetch(BUDGETS.open_own_accounts, json.dumps(OPENED))
    chance = random.Random(7)
    seqs = dict.fromkeys(RUNS, 1)
    seen: set[str] = set()
    unpriced: set[str] = set()
    for _ in range(80):
        batch = {run: seqs[run] - (chance.random() < 0.05) for run in chance.sample(RUNS, chance.randint(1, 4))}
        charges = [
            charge(
                run,
                place if chance.random() > 0.01 else ("caller", "nobody"),
                tokens_asked=chance.choice((0, 50, 200, 400)),
                tokens_freed=chance.choice((0, 150, 350)),
                tokens_spent=chance.choice((0, 60)),
                model_calls_asked=chance.choice((0, 1, 4)),
                model_calls_freed=chance.choice((0, 1, 3)),
                model_calls_spent=chance.choice((0, 0, 1)),
                tool_calls_asked=chance.choice((0, 1)),
                tool_calls_estimated=chance.choice((0, 1)),
                unpriced="openai:new" if chance.random() < 0.1 else "",
            )
            for run in batch
            for place in chance.sample(PLACES, chance.randint(1, 3))
        ]
        commit_values = values(batch, charges)
        answers = [
            comparable(read_batch_result(await lane.fetch(QUERIES.commit_batch, *commit_values))) for lane in lanes
        ]
        assert answers[0] == answers[1]
        for run in answers[0][0]:
            seqs[run] += 1
        kinds = ("moved", "refused", "crowded", "unopened", "soft")
        seen |= {kind for kind, found in zip(kinds, answers[0], strict=True) if found}
        unpriced |= {one.scope for one in answers[0][1].values() if one.unpriced}
    assert seen == {"moved", "refused", "crowded", "unopened", "soft"}
    assert unpriced == {"day"}, "money is limited there alone"
    stored = {(row["project"], row["scope"], row["key"]): dict(row) for row in await pool.fetch("TABLE runs.budget")}
    for place, account in rows.accounts.items():
        assert {name: stored[place][name] for name in account} == account
    for lane in lanes:
        await lane.close()


async def test_budget_many_at_once_never_overdraw_an_account(pool: "asyncpg.Pool[Any]") -> None:
    """Four connections reserve from one account at the same time; each run wants more than a share of it."""
    await pool.execute(BUDGETS.open_own_accounts, json.dumps(OPENED))

    async def reserve(run: uuid.UUID) -> int:
        lane, seq, got = PinnedDatabaseConnection(pool), 1, 0
        for _ in range(12):
            wanted = [charge(run, PLACES[0], tokens_asked=30), charge(run, PLACES[1], tokens_asked=30)]
            done = read_batch_result(await lane.fetch(QUERIES.commit_batch, *values({run: seq}, wanted)))
            if done.moved:
                seq, got = seq + 1, got + 1
        await lane.close()
        return got

    won = sum(await asyncio.gather(*(reserve(run) for run in RUNS[:4])))
    row = await pool.fetchrow("SELECT * FROM runs.budget WHERE scope = 'project'")
    assert won == 1_000 // 30
    assert row is not None
    assert row["tokens_reserved"] == won * 30


async def test_budget_nobody_spends_what_another_of_the_batch_would_have_given_back(pool: "asyncpg.Pool[Any]") -> None:
    """A run that gives model calls back and may not call a tool stays where it is, with what it holds."""
    simulated, runs, _ = memory()
    BudgetRows(runs.database, runs)
    for run in RUNS:
        runs.runs[run] = {"seq": 1, "ended_at": None}
    project, own = PLACES[0], PLACES[3]
    full = charge(RUNS[7], project, model_calls_asked=40)
    used_up = charge(RUNS[6], own, tool_calls_asked=9)
    gives = charge(RUNS[0], project, model_calls_freed=3, tool_calls_asked=1)
    stays = charge(RUNS[0], own, model_calls_freed=3, tool_calls_asked=1)
    wants = charge(RUNS[1], project, model_calls_asked=3)
    for lane in (PinnedDatabaseConnection(pool), PinnedDatabaseConnection(simulated)):
        await lane.fetch(BUDGETS.open_own_accounts, json.dumps(OPENED))
        for run, wanted in ((RUNS[7], full), (RUNS[6], used_up)):
            assert read_batch_result(await lane.fetch(QUERIES.commit_batch, *values({run: 1}, [wanted]))).moved == {run}
        batch = values({RUNS[0]: 1, RUNS[1]: 1}, [gives, stays, wants])
        done = read_batch_result(await lane.fetch(QUERIES.commit_batch, *batch))
        assert (done.moved, set(done.refused)) == (set(), {RUNS[0], RUNS[1]})
        await lane.close()


async def test_accounts_of_days_long_past_are_forgotten_once_nothing_is_reserved_of_them(pool: Any) -> None:
    today = await pool.fetchval("SELECT (now() AT TIME ZONE 'UTC')::date")
    kept = [f"{today - timedelta(days=days)}/project/default" for days in (0, 92, 93)]
    past = [f"{today - timedelta(days=days)}/project/{name}" for days in (94, 900) for name in ("default", "open")]
    columns = "project, scope, key, tokens_reserved, soft, on_soft"
    add = f"INSERT INTO runs.budget ({columns}) VALUES ($1, $2, $3, $4, 1, 'warn')"
    for key in (*kept, *past):
        await pool.execute(add, "default", "day", key, int(key.endswith("open")))
    for scope in ("run", "agent", "caller", "project"):
        await pool.execute(add, "default", scope, "1970-01-01", 0)
    await pool.execute(BUDGETS.forget_past_days)
    left = await pool.fetch("SELECT key FROM runs.budget WHERE scope = 'day'")
    assert {row["key"] for row in left} == {*kept, *(key for key in past if key.endswith("open"))}
    assert await pool.fetchval("SELECT count(*) FROM runs.budget WHERE scope <> 'day'") == 4
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await pool.execute("DELETE FROM runs.budget WHERE scope = 'day'")
