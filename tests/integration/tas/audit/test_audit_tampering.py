"""Every column that says something of what was decided or done is watched: changed by hand, a bundle tells where.

The columns are those of the live schema, so a new one has to be watched too, or to be listed here with the reason why
it says nothing. All changes are made in transactions that are rolled back.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
from tests.integration.tas.test_approvals import LARGE, vote, waiting
from tests.support.tas.audit_bundle import Exported
from tests.support.tas.tas_caller import settled
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_audit.notes import NoteError
from towpath_contracts.problems.registry import ProblemError
from towpath_tas.app.audit.sealer import AuditLogMismatchError

__all__ = ["shared_tas", "tas"]

OPERATIONAL = "the running call is steered by it; what became of the call is recorded apart"
TIME = "the entry has a time of its own"
UNWATCHED = {
    "audit_key": {"first_used": "only the order in which a bundle lists keys"},
    "audit_seal": {
        "seal_id": "a number of the table; the signed note says the size",
        "at": "the signed note says the time",
        "edge": "only the newest is used, and that is compared with the signed note before the next seal",
        "size": "only where a bundle begins or ends; the signed note says the size",
        "root": "the signed note says the root; the newest is compared with it before the next seal",
    },
    "tool_call": {
        **dict.fromkeys(
            (
                *("agent_type", "snapshot_digest", "step", "call_index", "toolset", "effect_class"),
                *("timeout_ms", "context", "fence", "attempt", "deadline", "approval_id", "approvals", "claims"),
                *("accepted", "revision"),
            ),
            OPERATIONAL,
        ),
        "created_at": TIME,
        "updated_at": TIME,
    },
    "approval": {
        "rule": "the bound rules are what counts",
        "reason": "the policy's text for people",
        "expires_at": OPERATIONAL,
        "decided_at": TIME,
        "opened_at": TIME,
        "gate_type": OPERATIONAL,
        "on_expiry": OPERATIONAL,
    },
    "approval_vote": {"at": TIME},
    "policy_version": {"applied_at": TIME},
    "tool": {
        "proposed_at": TIME,
        "decided_at": TIME,
        "decided_by": "only of proposals",
        "held": OPERATIONAL,
        "withdrawn": OPERATIONAL,
        "chars": OPERATIONAL,
    },
}
"""Columns of watched tables that are not compared, with the reason."""

UNWATCHED_OF_DENIED = {
    "status": "what is tried first is what it has",
    "settled_by": "nobody settles a call that was denied",
    "tool_version": "only a permission moves it",
}

UNWATCHED_TABLES = {
    "audit_unsealed": "the queue before the seal: nothing is proved of an entry that has no leaf yet",
    "blob_piece": "uploads that are not finished",
    "erasure": "what is asked for now; every step is an entry, and what is gone rests on the entries of all steps",
    "fence": "stops calls; what it did is in the entries of the calls",
    "project_state": "counters that tell replicas to read anew",
    "rate_count": "counts of the current window",
    "restore": "what was marked when; that a database was restored is an entry of each project",
    "restored_run": "which runs ask from now on; every question, and its answer, is an entry",
    "rule_count": "counts of a run's limits",
    "shadow_policy": "a policy that is never obeyed",
    "switch": "what is paused now; every change is an entry",
    "worker": "what processes say of themselves, and who is to stop; every word of a person is an entry",
}
CANDIDATES = ("denied", "void", "consumed", "refused", "manual", "escalate")
"""Values of columns that only have some."""


async def audited(tas: Running) -> None:
    """Leave a project with a policy, tools, a call that ran, one that was denied and one that a person let go."""
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "approved")
    await tas.caller.again(request)
    claimed = await tas.caller.dispatched(request)
    answer = await tas.caller.claim(claimed)
    assert answer.granted
    await tas.caller.report(claimed, answer.claim_id)
    await settled(tas.dsn, request.execution_id, "succeeded")
    denied = await tas.caller.put(tas.caller.request("orders.refund", args={**LARGE, "amount": 5_000}))
    await tas.caller.fact(denied, "tool.denied")


async def change_by_hand(connection: Any, table: str, column: str, kind: str, where: str) -> None:
    """Change one value as a person at psql does."""
    values = {
        "text": [f"coalesce({column}, '') || 'x'", *(f"'{one}'" for one in CANDIDATES)],
        "uuid": ["gen_random_uuid()"],
        "boolean": [f"NOT {column}"],
        "timestamp with time zone": [f"coalesce({column}, now()) + interval '1 hour'"],
        "bytea": [f"set_byte({column}, 0, get_byte({column}, 0) # 1)"],
        "json": [f"""({column}::jsonb || '{{"name": "x", "description": "x"}}')::json"""],
    }.get(kind, [f"{column} + 1000"])
    for value in values:
        try:
            async with connection.transaction():
                done = await connection.execute(
                    f"UPDATE tas.{table} SET {column} = {value} WHERE (tableoid, ctid) ="
                    f" (SELECT tableoid, ctid FROM tas.{table} WHERE {where} LIMIT 1)"
                )
        except asyncpg.CheckViolationError:
            continue
        assert done == "UPDATE 1", f"{table}.{column}: {done}"
        return
    raise AssertionError(f"{table}.{column} could not be changed")


WHICH = {"tool_call": "status = 'succeeded'", "approval": "status = 'consumed'"}
"""Rows of a table that has others, of which less is known."""

DELETED = (
    *("audit_record", "audit_payload", "audit_leaf", "audit_key", "tool_call", "approval", "approval_vote", "tool"),
    *("policy_version", "permission_rule"),
)
SWAPPED = (
    ("audit_leaf", "hash"),
    ("audit_payload", "detail"),
    ("audit_record", "verdict"),
    ("tool_call", "args"),
    ("policy_version", "text"),
)


HOSTILE = (
    *(("approval.consumed", f'{{"approval_id": {value}}}') for value in ('"none"', "{}", "[7]", "null", "1e400")),
    *(("tool.registered", f'{{"version": {value}}}') for value in ("99999999999999999999", "-1", '"1"', "null")),
    ("approval.consumed", "[" * 100_000),
)
"""Phases, and what a person at psql may write for their details: it is told, and stops no export."""


async def watched_columns(connection: Any) -> list[tuple[str, str, str]]:
    """Return table, column and type of everything in the schema that is to be watched."""
    rows = await connection.fetch(
        "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
        " JOIN pg_class t ON t.oid = ('tas.' || quote_ident(c.table_name))::regclass"
        " WHERE c.table_schema = 'tas' AND t.relkind IN ('r', 'p') AND NOT t.relispartition ORDER BY 1, 2"
    )
    return [
        (table, column, kind)
        for table, column, kind in rows
        if table not in UNWATCHED_TABLES and column not in UNWATCHED.get(table, {})
    ]


async def found_at(exported: Exported) -> str:
    """Return where a bundle tells of a fault; empty if it holds."""
    try:
        report = await exported.report()
    except (ProblemError, AuditLogMismatchError, NoteError) as refused:
        return f"refused: {refused}"
    return "" if report.holds else report.faults[0].place


async def test_whatever_is_changed_by_hand_is_found_and_located(tas: Running) -> None:
    await audited(tas)
    connection = await asyncpg.connect(tas.dsn)
    transaction = connection.transaction()
    await transaction.start()
    missed = []
    try:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("ALTER TABLE tas.audit_record ALTER COLUMN entry_id SET GENERATED BY DEFAULT")
        exported = Exported(connection, tas.caller.project)
        await exported.add_runs()
        assert (await exported.report()).faults == []
        changes: list[tuple[str, Any]] = []
        for table, column, kind in await watched_columns(connection):
            changes.append((f"{table}.{column}", (table, column, kind, WHICH.get(table, "true"))))
            if table == "tool_call" and column not in UNWATCHED_OF_DENIED:
                changes.append((f"{table}.{column} of a denied call", (table, column, kind, "status = 'denied'")))
        for table in DELETED:
            one = f"(SELECT tableoid, ctid FROM tas.{table} WHERE {WHICH.get(table, 'true')} LIMIT 1)"
            changes.append((f"a row of {table}", f"DELETE FROM tas.{table} WHERE (tableoid, ctid) = {one}"))
        for table, column in SWAPPED:
            values = f"array_agg({column} ORDER BY {column}"  # min(bytea) came with PostgreSQL 18
            pair = f"(SELECT ({values}))[1] AS low, ({values} DESC))[1] AS high FROM tas.{table})"
            swap = f"CASE t.{column} WHEN low THEN high ELSE low END"
            statement = f"UPDATE tas.{table} t SET {column} = {swap} FROM {pair} p WHERE t.{column} IN (low, high)"
            changes.append((f"{column} of two rows of {table}", statement))
        for what, change in changes:
            async with rolled_back(connection):
                if isinstance(change, str):
                    assert await connection.execute(change) not in {"UPDATE 0", "DELETE 0"}, what
                else:
                    await change_by_hand(connection, *change)
                place = await found_at(exported)
            if place in {"", "the bundle"}:
                missed.append(f"{what}: {place or 'holds'}")
        for phase, detail in HOSTILE:
            async with rolled_back(connection):
                where = "entry_id IN (SELECT entry_id FROM tas.audit_record WHERE phase = $2)"
                assert await connection.execute(
                    f"UPDATE tas.audit_payload SET detail = $1 WHERE {where}", detail, phase
                )
                if await found_at(exported) in {"", "the bundle"}:
                    missed.append(f"{phase}: {detail[:40]}")
        assert (await exported.report()).faults == []
    finally:
        await transaction.rollback()
        await connection.close()
    assert missed == []


@contextlib.asynccontextmanager
async def rolled_back(connection: Any) -> AsyncIterator[None]:
    """Undo everything that is done inside."""
    savepoint = connection.transaction()
    await savepoint.start()
    try:
        yield
    finally:
        await savepoint.rollback()
