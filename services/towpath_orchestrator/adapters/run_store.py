"""The run tables: read clocks and seqs, load states, commit batches.

A batch is one statement and one commit. A run whose seq moved meanwhile is simply not among the returned ids.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.networks.spec import Snapshot
from towpath_engine import ENGINE_VERSION
from towpath_engine.advance import wake_at
from towpath_engine.evolve import evolve
from towpath_engine.handlers.children import below_of
from towpath_engine.state.run import RunState, dump_state, initial, load_state
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pinned_connection import Lane
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.budget_store import BUDGETS, Committed, charge_rows, read_committed
from towpath_orchestrator.adapters.child_rows import born_columns
from towpath_orchestrator.adapters.storable_text import storable

QUERIES = Queries.load("towpath_orchestrator.adapters")

_MOVED = f"{QUERIES.commit_wanted}, {QUERIES.commit_held}, {QUERIES.commit_moved}"
_CHARGED = f"{QUERIES.commit_wanted}, {BUDGETS.commit_charged}, {QUERIES.commit_moved}"


def _numbered(text: str, values: int) -> str:
    """Name the last of so many values, which is the version of the limits that the batch knows of."""
    return text.replace("$budgets", f"${values}")


COMMIT = _numbered(f"{_MOVED} {QUERIES.commit_end}", 22)
COMMIT_WITH_GATES = _numbered(f"{_MOVED}, {QUERIES.commit_gates} {QUERIES.commit_end}", 24)
"""Most batches touch no gate; leaving that part out saves a fifth of the statement's time."""

COMMIT_WITH_CHILDREN = _numbered(
    f"{_MOVED}, {QUERIES.commit_gates}, {QUERIES.commit_children} {QUERIES.commit_end}", 27
)
"""The few batches in which a child is born."""

COMMIT_WITH_BUDGETS = _numbered(f"{_CHARGED}, {BUDGETS.commit_charges}".replace("$24", "$22"), 23)
"""Where a run of the batch spends from an account; one statement reserves for all of them."""

COMMIT_WITH_BUDGETS_AND_GATES = _numbered(f"{_CHARGED}, {QUERIES.commit_gates}, {BUDGETS.commit_charges}", 25)

_BORN_LATER = QUERIES.commit_children.replace("$26", "$27").replace("$25", "$26").replace("$24", "$25")
COMMIT_WITH_BOTH = _numbered(f"{_CHARGED}, {QUERIES.commit_gates}, {_BORN_LATER}, {BUDGETS.commit_charges}", 28)


@dataclass(slots=True)
class Moved:
    """One run of a batch: the state it was in, the state it is in, what made the difference.

    `facts` are (first seq, JSON text); `texts` are the JSON texts of `entries`, made once and used twice; `gates` says
    whether any gate was or is open. `before` is the state it was in, None for a run that is new; `born` are the
    children that the transition starts, `stored` the texts by digest that its events name.
    """

    before_seq: int
    state: RunState
    entries: list[LogEntry] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    facts: list[tuple[int, str]] = field(default_factory=list)
    gates: bool = False
    before: RunState | None = None
    born: list["Moved"] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)


def event_text(event: ev.AnyEvent) -> str:
    """Write one event as it is stored and published."""
    return event.model_dump_json()


def outcome_of(state: RunState) -> str | None:
    """Return the JSON of a finished run's outcome, None while it lives."""
    if not state.is_final:
        return None
    body: dict[str, Any] = {
        "final": state.final,
        "last_output": state.last_output,
        "usage": state.usage.model_dump(mode="json"),
        "cost": state.cost.model_dump(mode="json"),
    }
    if state.created.parent is not None:  # what its parent may have to ask for
        body["cursors"] = {queue: place for queue, place in state.cursors.items() if queue == state.created.agent_key}
        body["worked"] = state.worked
        below = below_of(state)
        body |= {} if below is None else {"below": below.model_dump(mode="json")}
    return json.dumps(body)


def _run_columns(batch: list[Moved]) -> list[list[Any]]:
    states = [moved.state for moved in batch]
    return [
        [s.run_id for s in states],
        [moved.before_seq for moved in batch],
        [s.seq for s in states],
        [str(s.status) for s in states],
        [storable(s.reason) for s in states],
        [s.fence for s in states],
        [wake_at(s) for s in states],
        [s.agent_key for s in states],
        [s.step for s in states],
        [s.started_at for s in states],
        [s.ended_at for s in states],
        [outcome_of(s) for s in states],
    ]


def _event_columns(batch: list[Moved]) -> list[list[Any]]:
    rows = [
        (moved.state.run_id, entry.seq, entry.event.type, text)
        for moved in batch
        for entry, text in zip(moved.entries, moved.texts, strict=True)
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]


def _fact_columns(batch: list[Moved]) -> list[list[Any]]:
    rows = [(moved.state.run_id, first, text) for moved in batch for first, text in moved.facts]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]


_GATE_STATUS = {"approved": "approved", "denied": "denied", "expired": "expired", "void": "void"}


def _opened_gates(batch: list[Moved]) -> str:
    """Write the opened gates; one that the same batch closes again is stored as closed at once."""
    events = [entry.event for moved in batch for entry in moved.entries]
    closed = {event.gate_id: event.verdict for event in events if isinstance(event, ev.GateClosed)}
    rows = [
        {
            "gate_id": str(entry.event.gate_id),
            "run_id": str(moved.state.run_id),
            "project": moved.state.created.project,
            "network": moved.state.created.network,
            "gate_type": entry.event.gate_type,
            "status": _GATE_STATUS.get(closed.get(entry.event.gate_id, ""), "settled")
            if entry.event.gate_id in closed
            else "pending",
            "reason": storable(entry.event.reason),
            "detail": json.dumps(entry.event.detail),  # a string: Postgres takes no object apart that says NUL
            "execution_id": str(entry.event.execution_id) if entry.event.execution_id else None,
            "approval_id": str(entry.event.approval_id) if entry.event.approval_id else None,
            "expires_at": entry.event.expires_at.isoformat(),
        }
        for moved in batch
        for entry in moved.entries
        if isinstance(entry.event, ev.GateOpened)
    ]
    return json.dumps(rows) if rows else "[]"


def _closed_gates(batch: list[Moved]) -> str:
    rows = [
        {
            "gate_id": str(entry.event.gate_id),
            "run_id": str(moved.state.run_id),
            "status": _GATE_STATUS.get(entry.event.verdict, "settled"),
            "verdict": entry.event.verdict,
            "by": storable(entry.event.by),
            "reason": storable(entry.event.reason),
        }
        for moved in batch
        for entry in moved.entries
        if isinstance(entry.event, ev.GateClosed)
    ]
    return json.dumps(rows) if rows else "[]"


async def times(lane: Lane, run_ids: list[UUID]) -> tuple[datetime, int, dict[UUID, int]]:
    """Return Postgres's clock, the version of the limits, and the stored seq of each of the runs that exist."""
    rows = await lane.fetch(QUERIES.times, run_ids)
    seqs = {row["run_id"]: row["seq"] for row in rows if row["run_id"] is not None}
    return rows[0]["now"], rows[0]["budgets"], seqs


async def commit_batch(lane: Lane, batch: list[Moved], now: datetime, budgets: int) -> Committed:
    """Commit every run that is still where it was read and may spend what it wants to; says what became of them.

    No run moves where the limits are not those of version *budgets* any more: the transitions do not know them.
    """
    values = [*_run_columns(batch), now, *_event_columns(batch), *_fact_columns(batch), ENGINE_VERSION]
    charged = [row for moved in batch for row in charge_rows(moved.before, moved.state)]
    born = [child for moved in batch for child in moved.born]
    gates = (_opened_gates(batch), _closed_gates(batch)) if born or any(moved.gates for moved in batch) else ()
    if charged:
        statement = COMMIT_WITH_BOTH if born else COMMIT_WITH_BUDGETS_AND_GATES if gates else COMMIT_WITH_BUDGETS
        more = born_columns(born) if born else ()
        return read_committed(await lane.fetch(statement, *values, *gates, json.dumps(charged), *more, budgets))
    if born:
        rows = await lane.fetch(COMMIT_WITH_CHILDREN, *values, *gates, *born_columns(born), budgets)
    else:
        rows = await lane.fetch(COMMIT_WITH_GATES if gates else COMMIT, *values, *gates, budgets)
    return Committed(moved={row["run_id"] for row in rows})


def read_entry(row: Any) -> LogEntry:
    """Read one stored event."""
    event = event_adapter.validate_json(row["event"])
    return LogEntry.model_construct(seq=row["seq"], at=row["at"], event=event)


class RunTables:
    """Loads states; keeps the immutable snapshots of networks in memory."""

    def __init__(self, pool: Database) -> None:
        self._pool = pool
        self._snapshots: dict[str, Snapshot] = {}

    async def snapshot(self, digest: str) -> Snapshot:
        """Return a network snapshot; raises LookupError for an unknown digest."""
        found = self._snapshots.get(digest)
        if found is None:
            text = await self._pool.fetchval(QUERIES.snapshot, digest)
            if text is None:
                raise LookupError(digest)
            found = Snapshot.model_validate_json(text)
            if len(self._snapshots) > 512:  # networks are few; this only bounds a publisher gone wild
                self._snapshots.clear()
            self._snapshots[digest] = found
        return found

    async def load(self, run_id: UUID) -> RunState | None:
        """Load a run from its newest snapshot and what came after; None when there is no such run."""
        row = await self._pool.fetchrow(QUERIES.load_run, run_id, ENGINE_VERSION)
        if row is None:
            return None
        snapshot = await self.snapshot(row["snapshot_digest"])
        task = event_adapter.validate_json(row["task"])
        if not isinstance(task, ev.RunCreated):
            msg = f"the log of {run_id} does not begin with run_created"
            raise TypeError(msg)
        state = initial(run_id, snapshot)
        if row["state"] is not None:
            state = load_state(row["state"], task, snapshot)
        for stored in await self._pool.fetch(QUERIES.load_tail, run_id, state.seq):
            state = evolve(state, read_entry(stored))
        return state

    async def store_texts(self, project: str, texts: Mapping[str, str]) -> None:
        """Store texts by their digests, before an event names them."""
        for digest, text in texts.items():
            data = text.encode("utf-8", "surrogatepass")
            await self._pool.execute(QUERIES.add_blob, project, digest, data, len(data))

    async def save_snapshot(self, state: RunState) -> None:
        """Store a state, so that a reload need not fold the whole log."""
        await self._pool.execute(QUERIES.save_snapshot, state.run_id, state.seq, ENGINE_VERSION, dump_state(state))

    async def move_wake(self, states: list[RunState]) -> None:
        """Correct the `wake_at` of runs that were woken for nothing."""
        ids = [s.run_id for s in states]
        await self._pool.execute(QUERIES.move_wake, ids, [s.seq for s in states], [wake_at(s) for s in states])
