"""Fills the tables of a database with as many rows as a platform has after years, and seals the audit."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from towpath_audit.merkle import MerkleFrontier, node_hash
from towpath_audit.notes import Checkpoint, Signer
from towpath_fabric.postgres.pool import Queries
from towpath_tas.app.audit.sealer import QUERIES as AUDIT

STATEMENTS = Queries((Path(__file__).parent / "rows.sql").read_text("utf-8"))
OF_THE_AUDIT = {"entries": "tas.audit_record", "payloads": "tas.audit_payload", "leaves": "tas.audit_leaf"}
OF_RUNS = {
    "runs": "runs.run",
    "events": "runs.run_event",
    "long_log": "",
    "gates": "runs.gate",
    "calls": "tas.tool_call",
    "approvals": "",
    "votes": "",
    "accounts": "runs.budget",
    "limits": "",
    "letters": "runs.dead_letter",
    "notices": "runs.notice",
    "callers": "",
    "keys": "",
    "erasures": "tas.erasure",
    "tools": "",
    "workers": "",
    "costs": "history.cost",
    "policies": "",
    "networks": "",
    "network_versions": "",
    "histories": "",
    "cursors": "history.run_cursor",
    "steps": "history.agent_execution_steps",
    "tool_calls": "history.tool_execution",
    "model_calls": "history.llm_call",
}
"""Statements that write rows, in two lanes beside each other, and the table that each begins anew."""

LEAVES_PER_SEAL = 1_000
"""A platform that is hardly busy seals once a second; so few make the file no larger than the leaves."""

LEAF = bytes(32)
BULK = {"max_wal_size": "'16GB'", "checkpoint_timeout": "'1h'", "autovacuum": "off"}
"""Settings of a server that has nothing else to do while rows are written."""


@asynccontextmanager
async def bulk_settings(owner: Any) -> AsyncIterator[None]:
    """Have the server of *owner* write many rows quickly, and then be as it was."""
    for name, value in BULK.items():
        await owner.execute(f"ALTER SYSTEM SET {name} = {value}")
    await owner.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        for name in BULK:
            await owner.execute(f"ALTER SYSTEM RESET {name}")
        await owner.execute("SELECT pg_reload_conf()")


async def fill(dsn: str, runs: int, signer: Signer, say: Callable[[str], None]) -> None:
    """Write all rows of *runs* runs, without the indexes that can be made afterwards."""
    owners = [await asyncpg.connect(dsn) for _ in range(2)]
    owner = owners[0]
    try:
        for one in owners:
            await one.execute("SET maintenance_work_mem = '512MB'")
            await one.execute("SET synchronous_commit = off")
            await one.execute("SET session_replication_role = replica")  # what foreign keys name is written here too
        await owner.execute(STATEMENTS.prepare)
        await owner.execute(STATEMENTS.partitions)
        indexes = await owner.fetch(STATEMENTS.indexes)
        for index in indexes:
            await owner.execute(index["leave"])
        await _write(owner, {"ids": ""}, runs, say)
        await asyncio.gather(
            _write(owners[1], OF_THE_AUDIT, runs, say, "last_entry"), _write(owner, OF_RUNS, runs, say)
        )
        await _timed("seals", _seal(owner, signer), say)
        await _write(owner, {"own_entries": ""}, runs, say)
        waiting = [index["make"] for index in reversed(indexes)]
        await _timed("indexes", asyncio.gather(*(_make(one, waiting) for one in owners)), say)
        await owner.execute("DROP SCHEMA bench CASCADE")
        await _timed("statistics", owner.execute("VACUUM ANALYZE"), say)
    finally:
        for one in owners:
            await one.close()


async def _write(owner: Any, parts: dict[str, str], runs: int, say: Callable[[str], None], last: str = "") -> None:
    for name, table in parts.items():
        await _timed(name, _write_part(owner, name, table, runs), say)
    if last:
        await owner.execute(getattr(STATEMENTS, last).replace("$1", str(runs)))


async def _write_part(owner: Any, name: str, table: str, runs: int) -> None:
    statement = getattr(STATEMENTS, name)
    values = [runs] if "$1" in statement else []
    if "$2" in statement:
        values = [runs, LEAF]
    async with owner.transaction():
        if table:
            await owner.execute(f"TRUNCATE {table}")  # a table that is new in a transaction needs no log
        await owner.execute(statement, *values, timeout=None)


async def _make(owner: Any, waiting: list[str]) -> None:
    while waiting:
        await owner.execute(waiting.pop())


async def _timed(name: str, work: Any, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    await work
    say(f"{name}: {time.monotonic() - began:.0f} s")


async def _seal(owner: Any, signer: Signer) -> None:
    """Sign checkpoints over the leaves, each of the time of its last entry."""
    await owner.execute(AUDIT.add_key, signer.public.text)
    rows = await owner.fetch(STATEMENTS.sealed, LEAVES_PER_SEAL)
    await owner.executemany(AUDIT.add_seal, list(_seals([(row["entry_id"], row["at"]) for row in rows], signer)))


def _seals(ends: list[tuple[int, datetime]], signer: Signer) -> Iterator[tuple[Any, ...]]:
    """Return checkpoints over leaves that all have one hash: trees of one size are all alike then."""
    heights = [LEAF]
    for _ in range(64):
        heights.append(node_hash(heights[-1], heights[-1]))
    for number, (size, at) in enumerate(ends, start=1):
        hashes = tuple(heights[bit] for bit in reversed(range(size.bit_length())) if size >> bit & 1)
        tree = MerkleFrontier(size, hashes)
        note = signer.note(Checkpoint(signer.public.name, size, tree.root, at).text())
        yield number, size, tree.root, tree.packed(), at, note


async def sizes(owner: Any) -> list[Any]:
    """Return how many rows the tables have, and how many bytes they and their indexes take."""
    return list(await owner.fetch(STATEMENTS.counted))
