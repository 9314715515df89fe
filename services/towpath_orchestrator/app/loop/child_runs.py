"""Children of runs: their birth beside their parent's transition, and what parent and child tell each other.

What is told here may be lost. A parent asks again, and the answer comes from the child's row.
"""

import asyncio
import json
from datetime import datetime

from towpath_contracts import subjects
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import FINAL_STATUSES, LogEntry
from towpath_contracts.facts import CancelRequested, ChildReported
from towpath_contracts.runs.children import AskChild
from towpath_engine.handlers.children import UNREADABLE, birth_of, is_over, told_of
from towpath_engine.reducers.references import carried
from towpath_engine.replay import create
from towpath_engine.state.run import RunState, Status
from towpath_fabric.ports import Database, Wire
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES, Moved, event_text

CANCELLING = "cancelling"
GONE_SEQ = 2**31 - 1
NEWS = frozenset({Status.RUNNING, Status.WAITING})


def born_of(parent: RunState, entries: list[LogEntry], now: datetime) -> list[Moved]:
    """Return the children that *entries* start. They wait as queued runs until there is room for them."""
    born: list[Moved] = []
    for entry in entries:
        if isinstance(entry.event, ev.ChildStarted):
            birth = birth_of(parent, entry.event)
            state, first = create(birth.child_id, parent.snapshot, birth.task, now)
            born.append(Moved(before_seq=0, state=state, entries=[first], texts=[event_text(first.event)]))
    return born


def has_news(entries: list[LogEntry], before: RunState | None, state: RunState) -> bool:
    """Say whether a child has something to tell its parent: it has ended, or it waits for people, or goes on."""
    if state.created.parent is None or before is None:
        return False
    if state.is_final:
        return any(isinstance(entry.event, ev.RunFinished) for entry in entries)
    if state.status is Status.QUARANTINED:
        return before.status is not Status.QUARANTINED
    return before.status is not state.status and {before.status, state.status} <= NEWS


def _gone(request: AskChild) -> ChildReported:
    return ChildReported(
        run_id=request.run_id,
        child_id=request.child_id,
        child_seq=GONE_SEQ,
        status=str(Status.FAILED),
        ended=True,
        reason="child_gone",
    )


class Children:
    """Carries words between parents and children."""

    def __init__(self, pool: Database, bus: Wire, log: Logger) -> None:
        self._pool = pool
        self._bus = bus
        self._log = log
        self._asking: set[asyncio.Task[None]] = set()

    async def tell_parent(self, state: RunState) -> None:
        """Post what the child *state* has to tell; a parent that misses it asks."""
        told = told_of(state)
        if told is not None:
            await self._post(told)

    def ask(self, request: AskChild) -> None:
        """Find out how far a child is, and tell it to stop where its parent does; nothing here is waited for."""
        task = asyncio.create_task(self._ask(request))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, request: AskChild) -> None:
        try:
            row = await self._pool.fetchrow(QUERIES.child_told, request.child_id, request.run_id)
        except DATABASE_DOWN as error:
            self._log.info("a child is asked later: postgres is away", error=str(error))
            return
        if row is None:  # born in the transition that made its parent ask: somebody has deleted it
            await self._post(_gone(request))
            return
        if request.cancel and row["status"] not in FINAL_STATUSES and row["status"] != CANCELLING:
            stop = CancelRequested(run_id=request.child_id, by=f"run {request.run_id}", reason=request.reason)
            await self._post(stop)
        stoppable = row["status"] == Status.QUARANTINED and row["reason"] != UNREADABLE
        if request.cancel and stoppable:
            return  # its own end, by the cancel, is what counts
        outcome = json.loads(row["outcome"]) if row["outcome"] else {}
        await self._post(
            ChildReported(
                run_id=request.run_id,
                fact_id=f"{request.child_id}:{row['seq']}",
                child_id=request.child_id,
                child_seq=row["seq"],
                status=row["status"],
                ended=is_over(row["status"]),
                reason=row["reason"],
                final=carried(outcome.get("final")),
                usage=Usage.model_validate(outcome.get("usage") or {}),
                cost=Cost.model_validate(outcome.get("cost") or {}),
                below=Cost.model_validate(outcome["below"]) if "below" in outcome else None,
                cursors=outcome.get("cursors") or {},
                worked=tuple(outcome.get("worked") or ()),
            )
        )

    async def _post(self, fact: ChildReported | CancelRequested) -> None:
        await self._bus.post(subjects.run_inbox("orchestrator", fact.run_id), fact.model_dump_json().encode())
