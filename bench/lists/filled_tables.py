"""Fills the tables of a database with as many rows as a platform has after years, and seals the audit."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, Signer
from towpath_fabric.postgres.pool import Queries
from towpath_tas.app.audit.sealer import QUERIES as AUDIT

STATEMENTS = Queries((Path(__file__).parent / "rows.sql").read_text("utf-8"))
OF_ALL = (
    "ids",
    "runs",
    "events",
    "gates",
    "calls",
    "entries",
    "payloads",
    "own_entries",
    "leaves",
    "approvals",
    "votes",
)
OF_ALL += (
    "accounts",
    "limits",
    "letters",
    "notices",
    "callers",
    "keys",
    "erasures",
    "tools",
    "workers",
    "costs",
    "policies",
)

LEAVES_PER_SEAL = 1_000
"""A platform that is hardly busy seals once a second; so few make the file no larger than the leaves."""


async def fill(owner: Any, runs: int, signer: Signer, say: Callable[[str], None]) -> None:
    """Write all rows of *runs* runs, without the indexes that can be made afterwards."""
    await owner.execute("SET synchronous_commit = off")
    await owner.execute("SET maintenance_work_mem = '512MB'")
    await owner.execute(STATEMENTS.prepare)
    await owner.execute(STATEMENTS.partitions)
    indexes = await owner.fetch(STATEMENTS.indexes)
    for index in indexes:
        await owner.execute(index["leave"])
    for name in OF_ALL:
        began = time.monotonic()
        statement = getattr(STATEMENTS, name)
        await owner.execute(statement, *([runs] if "$1" in statement else []))
        say(f"{name}: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    await _seal(owner, signer)
    say(f"seals: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    for index in indexes:
        await owner.execute(index["make"])
    await owner.execute("DROP SCHEMA bench CASCADE")
    await owner.execute("VACUUM ANALYZE")
    say(f"indexes and statistics: {time.monotonic() - began:.0f} s")


async def _seal(owner: Any, signer: Signer) -> None:
    """Sign checkpoints over the leaves, each of the time of its last entry."""
    await owner.execute(AUDIT.add_key, signer.public.text)
    seals: list[tuple[Any, ...]] = []
    tree, waiting = MerkleFrontier(), []
    async with owner.transaction():
        async for row in owner.cursor(STATEMENTS.hashes, prefetch=10_000):
            waiting.append(row["hash"])
            if len(waiting) == LEAVES_PER_SEAL:
                tree, waiting = tree.extended(waiting), []
                note = signer.note(Checkpoint(signer.public.name, tree.size, tree.root, row["at"]).text())
                seals.append((len(seals) + 1, tree.size, tree.root, tree.packed(), row["at"], note))
    await owner.executemany(AUDIT.add_seal, seals)


async def sizes(owner: Any) -> list[Any]:
    """Return how many rows the tables have, and how many bytes they and their indexes take."""
    return list(await owner.fetch(STATEMENTS.counted))
