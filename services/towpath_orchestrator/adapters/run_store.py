"""The run tables: read clocks and seqs, load states, commit batches.

A batch is one statement and one commit. A run whose seq moved meanwhile is not among the returned ids.
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_contracts.canonical import digest_text
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_engine import ENGINE_VERSION
from towpath_engine.advance import wake_at
from towpath_engine.evolve import evolve
from towpath_engine.state.run import RunState, dump_state, initial, load_state
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.postgres.run_erasures import ErasureStatements
from towpath_orchestrator.adapters.batch_rows import (
    child_columns,
    closed_gates,
    event_columns,
    fact_columns,
    opened_gates,
    run_columns,
)
from towpath_orchestrator.adapters.budget_store import BudgetBatchResult, charge_rows, read_batch_result
from towpath_orchestrator.core.transitions import Transition

QUERIES = Queries.load("towpath_orchestrator.adapters")
_ERASING = Queries.load("towpath_orchestrator.adapters", "erasures.sql")
ERASURES = ErasureStatements(due=_ERASING.due_erasures, erase=_ERASING.erase_runs)
"""Erasing runs: the run log's part."""

LONG_CHARS = 4_096
"""Of a row: who takes it as objects needs a millisecond for it, or tens of them."""


async def read_times(lane: PinnedDatabaseConnection, run_ids: list[UUID]) -> tuple[datetime, int, dict[UUID, int]]:
    """Return Postgres's clock, the version of the limits, and the stored seq of each of the runs that exist."""
    rows = await lane.fetch(QUERIES.times, run_ids)
    seqs = {row["run_id"]: row["seq"] for row in rows if row["run_id"] is not None}
    return rows[0]["now"], rows[0]["budgets"], seqs


async def commit_batch(
    lane: PinnedDatabaseConnection, batch: list[Transition], now: datetime, limits_version: int
) -> BudgetBatchResult:
    """Commit every run that is still where it was read and may spend what it wants to; returns what became of them.

    No run moves where the budget limits are not those of *limits_version* any more: the transitions do not know them.
    """
    values = [*run_columns(batch), now, *event_columns(batch), *fact_columns(batch), ENGINE_VERSION, limits_version]
    charges = [row for transition in batch for row in charge_rows(transition.before, transition.state)]
    children = [child for transition in batch for child in transition.children]
    if charges or children or any(transition.gates for transition in batch):
        gates = opened_gates(batch), closed_gates(batch)
        values += [*gates, *child_columns(children), json.dumps(charges)]
        return read_batch_result(await lane.fetch(QUERIES.commit_batch, *values))
    return read_batch_result(await lane.fetch(QUERIES.commit_plain_batch, *values))


async def let_others(text: str) -> None:
    """Let others in after a long row: hundreds of them may take seconds to be replayed, forked from or folded."""
    if len(text) > LONG_CHARS:
        await asyncio.sleep(0)


def read_entry(row: Any) -> LogEntry:
    """Read one stored event."""
    event = event_adapter.validate_json(row["event"])
    return LogEntry.model_construct(seq=row["seq"], at=row["at"], event=event)


class RunStore:
    """Loads and stores the states of runs, and keeps the immutable snapshots of networks in memory."""

    def __init__(self, pool: Database) -> None:
        self._pool = pool
        self._snapshots: dict[str, NetworkSnapshot] = {}

    async def snapshot(self, digest: str) -> NetworkSnapshot:
        """Return a network snapshot; raises LookupError for an unknown digest, and where the text is another's.

        Approvals are bound to the digest, and what an agent is equipped with stands in the text.
        """
        found = self._snapshots.get(digest)
        if found is None:
            text = await self._pool.fetchval(QUERIES.snapshot, digest)
            if text is None:
                raise LookupError(digest)
            if digest_text(text) != digest:
                msg = f"the stored network {digest} is not the one that was published"
                raise LookupError(msg)
            found = NetworkSnapshot.model_validate_json(text)
            if len(self._snapshots) > 512:  # networks are few; this only bounds a publisher gone wild
                self._snapshots.clear()
            self._snapshots[digest] = found
        return found

    async def load(self, run_id: UUID) -> RunState | None:
        """Load a run from its newest snapshot and what came after; None when there is no such run."""
        state = await self.load_snapshot(run_id)
        return None if state is None else (await self.catch_up([state]))[run_id]

    async def load_snapshot(self, run_id: UUID) -> RunState | None:
        """Load a run as of its newest snapshot, or before its first event; None when there is no such run."""
        row = await self._pool.fetchrow(QUERIES.load_run, run_id, ENGINE_VERSION)
        if row is None:
            return None
        snapshot = await self.snapshot(row["snapshot_digest"])
        task = event_adapter.validate_json(row["task"])
        if not isinstance(task, ev.RunCreated):
            msg = f"the log of {run_id} does not begin with run_created"
            raise TypeError(msg)
        return initial(run_id, snapshot) if row["state"] is None else load_state(row["state"], task, snapshot)

    async def catch_up(self, states: Collection[RunState]) -> dict[UUID, RunState]:
        """Return what each of *states* has become by the events that were stored since; one statement for all."""
        found = {state.run_id: state for state in states}
        rows = await self._pool.fetch(QUERIES.load_tails, list(found), [state.seq for state in states])
        for stored in rows:
            found[stored["run_id"]] = evolve(found[stored["run_id"]], read_entry(stored))
            await let_others(stored["event"])
        return found

    async def store_texts(self, project: str, texts: Mapping[str, str]) -> None:
        """Store texts by their digests, before an event names them."""
        await self.store_blobs(project, {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()})

    async def store_blobs(self, project: str, blobs: Mapping[str, bytes]) -> None:
        """Store bytes by their digests, before an event names them."""
        for digest, data in blobs.items():
            await self._pool.execute(QUERIES.add_blob, project, digest, data, len(data))

    async def save_snapshot(self, state: RunState) -> None:
        """Store a state, so that a reload need not fold the whole log."""
        await self._pool.execute(QUERIES.save_snapshot, state.run_id, state.seq, ENGINE_VERSION, dump_state(state))

    async def park(self, run_id: UUID, reason: str) -> None:
        """Take a run out of the way whose log can't be read, or not be added to."""
        await self._pool.execute(QUERIES.park, run_id, reason)

    async def move_wake(self, states: list[RunState]) -> None:
        """Correct the `wake_at` of runs that were woken for nothing."""
        ids = [s.run_id for s in states]
        await self._pool.execute(QUERIES.move_wake, ids, [s.seq for s in states], [wake_at(s) for s in states])
