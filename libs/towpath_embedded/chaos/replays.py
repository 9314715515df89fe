"""Replaying every run of a campaign through the engine: the same facts must give the same log, byte for byte."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.facts import fact_adapter
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_engine.replay import replay

SHOWN_CHARS = 300


async def replay_mismatches(dsn: str, run_ids: Sequence[str]) -> list[str]:
    """Replay *run_ids* from what Postgres holds and return which differ from their log, and where."""
    connection = await asyncpg.connect(dsn)
    try:
        found = [await _mismatch(connection, UUID(run_id)) for run_id in run_ids]
    finally:
        await connection.close()
    return [mismatch for mismatch in found if mismatch]


async def _mismatch(connection: asyncpg.Connection, run_id: UUID) -> str:
    snapshot = await connection.fetchval(
        "SELECT s.snapshot::text FROM runs.run r JOIN runs.snapshot s ON s.digest = r.snapshot_digest"
        " WHERE r.run_id = $1",
        run_id,
    )
    if snapshot is None:
        return f"{run_id}: there is no such run, or its snapshot is gone"
    events = await connection.fetch(
        "SELECT seq, at, event::text AS text FROM runs.run_event WHERE run_id = $1 ORDER BY seq", run_id
    )
    facts = await connection.fetch(
        "SELECT at, fact::text AS text FROM runs.run_fact WHERE run_id = $1 ORDER BY first_seq", run_id
    )
    log = tuple(LogEntry(seq=r["seq"], at=r["at"], event=event_adapter.validate_json(r["text"])) for r in events)
    for entry, row in zip(log, events, strict=True):
        if entry.event.model_dump_json() != row["text"]:
            return f"{run_id}: event {entry.seq} is written in other bytes than it was stored in"
    stored = ((fact_adapter.validate_json(row["text"]), row["at"]) for row in facts)
    found = replay(run_id, NetworkSnapshot.model_validate_json(snapshot), log, stored)
    if found is None:
        return ""
    return f"{run_id}: event {found.seq} was {found.recorded[:SHOWN_CHARS]}, is {found.replayed[:SHOWN_CHARS]}"
