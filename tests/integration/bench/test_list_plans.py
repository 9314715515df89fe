"""Lists, filters and searches look at no more rows when there are more: asked as `python -m bench.lists` asks them.

How many rows a list may look at follows from its page and from the part of a table that a page is chosen from, which
is made small here. So a plan that reads a table, or an index, from one end to the other is noticed with a few thousand
rows.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from importlib.resources import files

import asyncpg
import pytest
from bench.lists.filled_tables import STATEMENTS, fill
from bench.lists.questions import KNOWN, questions
from bench.lists.statement_plans import RecordingPool, plan_of, tables_read_whole
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import DatabaseUrl

from towpath_audit.notes import Signer
from towpath_fabric.postgres.pool import Queries, open_pool
from towpath_orchestrator.app.api import grant_history, replay_requests
from towpath_orchestrator.app.api import queries as run_queries
from towpath_tas.app.audit import audit_queries
from towpath_tas.app.policy import policy_statistics

RUNS = 6_000
PART = 100
"""Rows that a page is chosen from."""

MOST = 800
"""Rows that an answer looks at: those of its page, some of them twice, of the part it is chosen from, of the total."""

OTHERWISE = {
    ("gates", "of a tree with many runs"): "of so few gates it is cheaper to read all",
    ("costs", "60 days by network"): "the sums of each day",
    ("costs", "60 days by caller"): "the sums of each day",
    ("costs", "60 days by label"): "the sums of each day",
    ("run", "events"): "a page of a thousand events",
    ("run", "events, late in its log"): "a page of hundreds of events",
    ("run", "history"): "all steps of a run of a thousand, with their calls",
    ("run", "history, late"): "the last steps of a run of a thousand, with their calls",
    ("run", "model calls"): "those of a run of a thousand steps",
    ("run", "model calls of a step"): "those of a run of a thousand steps",
    ("networks", "current"): "all of them are shown",
    ("workers", "all"): "all of them are shown",
    ("tools", "names and versions"): "all of them are shown",
    ("keys", "of a small project"): "keys of other projects, of which people make few",
    ("export", "first two pieces"): "the leaves of two pieces",
    ("export", "since an hour ago, two pieces"): "the leaves of two pieces",
    ("export", "since the middle, two pieces"): "the leaves of two pieces",
    ("proof", "of a run"): "a few blocks of leaves",
    ("proof", "of a call"): "a few blocks of leaves",
    ("proof", "of a run, at an old checkpoint"): "a few blocks of leaves",
    ("proof", "of an entry"): "a few blocks of leaves",
    ("proof", "of an entry, at an old checkpoint"): "a few blocks of leaves",
}
"""Lists that read more, and what; yet none of these reads a part that grows with the number of runs."""

OF_RUNS = {"run", "run_event", "run_fact", "run_snapshot", "gate", "budget", "dead_letter", "notice", "idempotency"}
OF_RUNS |= {
    "audit_record",
    "audit_payload",
    "audit_leaf",
    "tool_call",
    "approval",
    "approval_vote",
    "rule_count",
    "fence",
}
OF_RUNS |= {
    "erasure",
    "agent_execution_history",
    "agent_execution_steps",
    "tool_execution",
    "llm_call",
    "tool_log",
    "run_cursor",
}
"""Tables that have rows for each run, or call."""

ROLES = {
    "towpath_orchestrator": "orchestrator",
    "towpath_tas": "tas",
    "towpath_log_writer": "log_writer",
    "towpath_gateway": "gateway",
}
"""Which role executes the statements of a service."""


@pytest.fixture
async def pools(database: DatabaseUrl) -> AsyncIterator[Mapping[str, RecordingPool]]:
    async with AsyncExitStack() as opened:
        found = {}
        for role in ROLES.values():
            pool = await open_pool(database(role), 2, "test")
            found[role] = RecordingPool(await opened.enter_async_context(pool))
        yield found


async def test_no_list_looks_at_more_rows_where_there_are_more(
    database: DatabaseUrl, pools: Mapping[str, RecordingPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        *((run_queries, name) for name in ("RUNS_LOOKED_AT", "GATES_LOOKED_AT", "CLOSED_LOOKED_AT")),
        *((audit_queries, name) for name in ("MAX_SCANNED", "MAX_SCANNED_PAYLOADS", "MAX_TOTAL")),
        (policy_statistics, "MAX_SCANNED"),
        (replay_requests, "LOOKED_AT"),
        (grant_history, "MAX_LOOKED"),
    ):
        monkeypatch.setattr(module, name, PART)
    signer = Signer("bench", Ed25519PrivateKey.from_private_bytes(bytes(32)))
    owner = await asyncpg.connect(database())
    try:
        await fill(database(), RUNS, signer, lambda _: None)
        now = await owner.fetchval("SELECT max(created_at) FROM runs.run")
        known = {name: await owner.fetchval(getattr(STATEMENTS, name)) for name in KNOWN}
    finally:
        await owner.close()
    too_many = []
    for question in questions(pools, known, now, signer):
        question.pool.asked.clear()
        await question.ask()
        asked = list(question.pool.asked)
        assert asked, question.filtered
        plans = [await plan_of(question.pool, *one) for one in asked]
        looked_at = sum(plan.looked_at for plan in plans)
        whole = OF_RUNS & {name for plan in plans for name in plan.whole}
        if whole or (looked_at > MOST and (question.about, question.filtered) not in OTHERWISE):
            too_many.append((question.about, question.filtered, looked_at, whole))
    assert not too_many, "\n".join(map(str, too_many))


async def test_each_statement_finds_the_rows_of_runs_by_an_index(pools: Mapping[str, RecordingPool]) -> None:
    """Of no statement that a service has, the plan for any values reads such a table whole."""
    whole, statements = [], 0
    for package, role in ROLES.items():
        for path in files(f"{package}.adapters").iterdir():
            text = path.read_text("utf-8") if path.name.endswith(".sql") else ""
            for name in re.findall(r"(?m)^--\s*name:\s*(\w+)", text):
                statements += 1
                tables = await tables_read_whole(pools[role], getattr(Queries(text), name))
                whole += [f"{package}, {path.name}, {name}: {table}" for table in map(parent_of, tables)]
    assert statements > 200
    assert [one for one in whole if one.rpartition(" ")[2] in OF_RUNS] == []


def parent_of(table: str) -> str:
    """Return the table of which *table* is a part, or itself."""
    return re.sub(r"_(default|\d{6})$", "", table)
