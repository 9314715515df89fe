"""Reads the parts of outputs that calls of the output tools ask for, before their facts are folded.

Only what the run's own log has can be read, and what a fork has inherited from the log before its step. The part comes
in with the fact, which is stored as it was folded: a replay needs neither log nor blob. The newest outputs are kept,
since parts of one output are usually asked for in a row.

A log may be long and an output large, and every commit waits for its batch. So a batch waits for all its reads together
no longer than PASS_S, and few batches do: reads go on beside them, in turns of their projects, and a call whose part is
not there asks again.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events import log as ev
from towpath_contracts.facts import InternalToolPermittedFact
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.text import as_text, stored_text
from towpath_contracts.tools.calls import MAX_RESULT_BYTES
from towpath_engine.handlers.calls.internal_tools import output_call
from towpath_engine.rules.output_tools import StoredOutput, output_asked_for, part_of_output
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.ports import Database
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.adapters.storable_text import storable
from towpath_orchestrator.app.commit.inbox import InboxFact
from towpath_readings.execution_log import call_status, response_of

MAX_ANCESTORS = 16
"""Forks of forks that are followed."""

PASS_S = 0.05
"""How long a batch waits for its reads: some milliseconds are enough for a result that is no larger than most."""

NO_PASS = 10
"""After a wait that was not long enough none waits for so many times PASS_S: whoever asks for slow reads again and
again takes no more than a tenth of the time of everybody's commits."""

REST_S = 0.5
"""The next read waits as long as the last one took, at most this long: a thread that searches holds up all others, so
reads have half of the time of a process, however many calls ask for them."""

MAX_WAITING = 64
"""Reads of one project that wait for their turn; a call beyond them asks again, which takes its turn then."""

MAX_PARTS = 256
"""Parts that are being read, or wait for their calls to ask again."""

MAX_CACHED_BYTES = 2 * MAX_RESULT_BYTES
KEPT_S = 60.0
"""How long an output is kept: a run may be erased meanwhile, and its forks read nothing of it after that."""

MAX_AT_ONCE = 262_144
"""Bytes that are looked through between two other tasks of the process; more are in a thread."""

_EVENTS: TypeAdapter[Any] = TypeAdapter(ev.ToolCallFinished | ev.ToolCallDenied | ev.ChildEnded)


class OutputReader:
    """Gives every permitted call of an output tool the part that it asks for, or nothing yet: then it asks again."""

    def __init__(self, pool: Database, log: Logger) -> None:
        self._pool = pool
        self._log = log
        self._turns = FairThreads(max_waiting=MAX_WAITING, name="outputs")
        self._parts: dict[tuple[UUID, UUID, str], asyncio.Task[JsonObject]] = {}
        self._kept: dict[tuple[UUID, UUID], tuple[float, StoredOutput]] = {}
        self._rested_at = 0.0
        self._waits_from = 0.0

    async def load(self, states: Mapping[UUID, RunState], facts: Mapping[UUID, Sequence[InboxFact]]) -> None:
        """Put into the facts what can be read at once; what takes longer is there when its call asks again."""
        wanted = [
            (item, item.fact, self._reading(states[run_id], item.fact))
            for run_id, items in facts.items()
            for item in items
            if run_id in states and isinstance(item.fact, InternalToolPermittedFact)
        ]
        reading = [task for _, _, task in wanted if task is not None]
        if reading:
            await self._wait(reading)
        for item, fact, task in wanted:
            part = None if task is None else self._part(task)
            if part is not None or fact.output is not None:  # nobody else fills it in
                item.replace_fact(fact.model_copy(update={"output": part}))

    async def _wait(self, reading: Sequence[asyncio.Task[JsonObject]]) -> None:
        waits = monotonic() >= self._waits_from
        _, late = await asyncio.wait(reading, timeout=PASS_S if waits else 0)
        if waits and late:
            self._waits_from = monotonic() + NO_PASS * PASS_S

    def _reading(self, state: RunState, fact: InternalToolPermittedFact) -> asyncio.Task[JsonObject] | None:
        """Return the reading of what a call asks for; None for other tools, and for arguments that are refused."""
        call = output_call(state, fact)
        execution_id = None if call is None else output_asked_for(*call)
        if call is None or execution_id is None:
            return None
        key = (state.run_id, fact.execution_id, canonical_json(call[1]))
        task = self._parts.pop(key, None)
        if task is None or (task.done() and task.exception() is not None):
            task = asyncio.create_task(self._read(state, *call, execution_id))
        self._parts[key] = task
        while len(self._parts) > MAX_PARTS:
            self._parts.pop(next(iter(self._parts)))
        return task

    def _part(self, task: asyncio.Task[JsonObject]) -> JsonObject | None:
        if not task.done():
            return None
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, ProblemError):  # too many of one project wait
            self._log.warning("an output can't be read, its call asks again", error=repr(error))
        return None

    async def _read(self, state: RunState, tool: str, args: JsonObject, execution_id: UUID) -> JsonObject:
        async with self._turns.turn(state.created.project):
            await asyncio.sleep(self._rested_at - monotonic())
            began = monotonic()
            try:
                stored = await self._output(state, execution_id)
                read = partial(part_of_output, tool, args, stored, state.created.context_limit)
                if stored is None or len(stored.data) <= MAX_AT_ONCE:
                    return read()
                return await self._turns.compute(read)
            finally:
                ended = monotonic()
                self._rested_at = ended + min(REST_S, ended - began)

    async def _output(self, state: RunState, execution_id: UUID) -> StoredOutput | None:
        self._forget(monotonic() - KEPT_S)
        _, kept = self._kept.get((state.run_id, execution_id), (0.0, None))
        if kept is None:
            kept = await self._find(state, execution_id)
            if kept is not None:
                self._keep((state.run_id, execution_id), kept)
        return kept

    async def _find(self, state: RunState, execution_id: UUID) -> StoredOutput | None:
        """Look in the run's log, then in those that it was forked from, each before the step of its fork."""
        run_id, before, created = state.run_id, None, state.created
        for _ in range(MAX_ANCESTORS):
            event = await self._event(run_id, execution_id)
            if event is not None:
                known = before is None or event.step < before
                return await self._stored(created.project, event) if known else None
            if created.forked_from is None:
                return None
            run_id = created.forked_from.run_id
            before = created.forked_from.step if before is None else min(before, created.forked_from.step)
            rows = await self._pool.fetch(QUERIES.events_page, run_id, 0, 1, 0)  # one event, however large
            if not rows:
                return None
            above = ev.RunCreated.model_validate(json.loads(rows[0]["event"]))
            if above.project != created.project:
                return None
            created = above
        return None

    async def _event(self, run_id: UUID, execution_id: UUID) -> Any:
        names = {"tool_call_finished": "execution_id", "tool_call_denied": "execution_id", "child_ended": "child_id"}
        beginnings = [f'{{"type":"{kind}","{name}":"{execution_id}"' for kind, name in names.items()]
        rows = await self._pool.fetch(QUERIES.output_event, run_id, beginnings)
        return _EVENTS.validate_python(json.loads(rows[0]["event"])) if rows else None

    async def _stored(self, project: str, event: Any) -> StoredOutput | None:
        if isinstance(event, ev.ChildEnded):
            answer = event.final if event.status == "completed" else {"status": event.status, "reason": event.reason}
            return _output(f"agent:{event.child_id}", event, event.status, as_text(answer))
        if not isinstance(event, ev.ToolCallFinished) or not event.blob:
            return _output(event.tool, event, call_status(event), as_text(response_of(event)))
        rows = await self._pool.fetch(QUERIES.texts, project, [storable(event.result_digest or "")], MAX_RESULT_BYTES)
        if not rows:
            return None
        text, _ = await self._turns.compute(partial(stored_text, bytes(rows[0]["data"])))
        return _output(event.tool, event, call_status(event), text)

    def _keep(self, key: tuple[UUID, UUID], output: StoredOutput) -> None:
        self._kept[key] = monotonic(), output
        while sum(len(one.data) for _, one in self._kept.values()) > MAX_CACHED_BYTES and len(self._kept) > 1:
            self._kept.pop(next(iter(self._kept)))

    def _forget(self, before: float) -> None:
        """Drop what was read *before*; the oldest come first."""
        while self._kept and next(iter(self._kept.values()))[0] < before:
            self._kept.pop(next(iter(self._kept)))


def _output(tool: str, event: Any, status: str, text: str) -> StoredOutput:
    return StoredOutput(tool=tool, step=event.step, status=status, data=text.encode("utf-8", "replace"))
