"""Reads everything that Postgres holds about some runs, at one moment, as plain rows.

Only SQL and JSON: the code under test is not asked what its own tables mean.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

Row = dict[str, Any]

_STATEMENTS = {
    "runs": "SELECT run_id::text, project, status, reason, seq, step, extract(epoch FROM ended_at)::float8 AS ended_at"
    " FROM runs.run WHERE $1::uuid[] IS NULL OR run_id = ANY ($1) ORDER BY run_id",
    "events": "SELECT run_id::text, seq, type, extract(epoch FROM at)::float8 AS at, event::text FROM runs.run_event"
    " WHERE $1::uuid[] IS NULL OR run_id = ANY ($1) ORDER BY run_id, seq",
    "gates": "SELECT gate_id::text, run_id::text, project, gate_type, status, execution_id::text FROM runs.gate"
    " WHERE $1::uuid[] IS NULL OR run_id = ANY ($1)",
    "calls": "SELECT run_id::text, execution_id::text, project, tool, status, effect_class, attempt, settled_by,"
    " step, call_index, args_digest, rule, policy_version"
    " FROM tas.tool_call WHERE $1::uuid[] IS NULL OR run_id = ANY ($1)",
    "audit": "SELECT run_id::text, execution_id::text, project, phase, verdict, actor, detail,"
    " extract(epoch FROM at)::float8 AS at FROM tas.audit_entry"
    " WHERE execution_id IS NOT NULL AND ($1::uuid[] IS NULL OR run_id = ANY ($1)) ORDER BY entry_id",
    "fences": "SELECT run_id::text, fence, extract(epoch FROM raised_at)::float8 AS at FROM tas.fence"
    " WHERE $1::uuid[] IS NULL OR run_id = ANY ($1)",
    "history": "SELECT h.id::text AS run_id, h.project_id AS project, h.status, c.seq,"
    " (SELECT count(*) FROM history.agent_execution_steps s WHERE s.execution_id = h.id) AS steps"
    " FROM history.agent_execution_history h LEFT JOIN history.run_cursor c ON c.run_id = h.id"
    " WHERE $1::uuid[] IS NULL OR h.id = ANY ($1)",
    "dead": "SELECT stream, subject, run_id::text, reason FROM runs.dead_letter ORDER BY dead_letter_id",
    "skipped": "SELECT run_id::text, seq, error FROM history.skipped_event"
    " WHERE $1::uuid[] IS NULL OR run_id = ANY ($1)",
    "others": "SELECT execution_id::text FROM tas.tool_call WHERE $1::uuid[] IS NOT NULL AND run_id <> ALL ($1)",
}


@dataclass(frozen=True, kw_only=True)
class StoredRunRows:
    """What is stored. `calls` is the ledger of the runs in question, `others` the execution ids of all other runs."""

    runs: Sequence[Row] = ()
    events: Sequence[Row] = ()
    gates: Sequence[Row] = ()
    calls: Sequence[Row] = ()
    audit: Sequence[Row] = ()
    fences: Sequence[Row] = ()
    history: Sequence[Row] = ()
    dead: Sequence[Row] = ()
    skipped: Sequence[Row] = ()
    others: Sequence[Row] = ()


async def read_record(dsn: str, run_ids: Sequence[str] | None = None) -> StoredRunRows:
    """Read the record of *run_ids*, or of every run, as the owner of the database; all from one moment."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = {
                name: [_parsed(row) for row in await connection.fetch(statement, *_arguments(statement, run_ids))]
                for name, statement in _STATEMENTS.items()
            }
    finally:
        await connection.close()
    return StoredRunRows(**found)


async def descendant_runs(dsn: str, run_ids: Collection[str]) -> list[str]:
    """Return the child runs of *run_ids*, however deep."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT run_id::text FROM runs.run WHERE root_run_id = ANY ($1)", list(run_ids))
    finally:
        await connection.close()
    return [row["run_id"] for row in rows]


def _arguments(statement: str, run_ids: Sequence[str] | None) -> tuple[object, ...]:
    return (None if run_ids is None else list(run_ids),) if "$1" in statement else ()


def _parsed(row: Any) -> Row:
    """Bodies are stored as text, because they are compared byte for byte; here their contents are wanted."""
    plain = dict(row)
    for name in ("event", "detail"):
        if isinstance(plain.get(name), str):
            plain[name] = json.loads(plain[name] or "{}")
    return plain
