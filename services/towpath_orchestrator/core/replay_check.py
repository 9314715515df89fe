"""Replays stored runs through the engine of this version and reports where they would go another way.

Nothing is changed, and nothing of a run is held but its state and a page of its record, so that any number of
runs of any length can be replayed.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.facts import AnyFact, fact_adapter
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.input_faults import entry_message
from towpath_contracts.runs.records import ReplayResult, Verdict
from towpath_engine import ENGINE_VERSION
from towpath_engine.advance import advance
from towpath_engine.evolve import evolve
from towpath_engine.handlers.quarantine import ENGINE_ERROR, quarantine_on_error
from towpath_engine.replay_diff import EventComparison, RecordedEvent, compare
from towpath_engine.state.run import RunState, initial

SHOWN_CHARS = 4_000
"""Of the two events that differ; the list of differences says what matters in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFact:
    """One fact as it is stored: `first_seq` is that of the first event it gave."""

    first_seq: int
    at: datetime
    engine_version: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeader:
    """What a record says about its run before the first fact. The snapshot is as it is stored: it may be unreadable."""

    run_id: UUID
    network: str
    version: int
    status: str
    reason: str
    snapshot_text: str | None


class RecordSource(Protocol):
    """A stored run, wherever it is stored. Both iterators give their rows in seq order."""

    header: RecordHeader

    def events(self) -> AsyncIterator[RecordedEvent]:
        """Yield the events."""

    def facts(self) -> AsyncIterator[RecordedFact]:
        """Yield the facts."""


@dataclass(slots=True)
class _Finding(Exception):  # noqa: N818 - it ends a replay with a verdict, it is no error
    """Ends a replay before the end of the record."""

    verdict: Verdict
    seq: int
    why: str
    comparison: EventComparison = field(default_factory=lambda: EventComparison(same=False))
    recorded: str = ""
    replayed: str = ""


class ReplayCheck:
    """The replay of one record. Use once."""

    def __init__(self, record: RecordSource) -> None:
        self._record = record
        self._events = record.events()
        self._agreed = 0
        self._widened = 0
        self._parked = ""
        self._versions: dict[str, None] = {}

    async def run(self) -> ReplayResult:
        """Replay the whole record; returns what was found."""
        try:
            await self._whole()
        except _Finding as finding:
            return self._result(finding)
        if self._parked:
            why = f"the same up to its end; a fact can't be applied, then as now: {self._parked}"
            return self._result(_Finding("parked", self._agreed, why))
        return self._result(None)

    async def _whole(self) -> None:
        state = await self._first()
        async for fact in self._record.facts():
            self._versions[fact.engine_version] = None
            if fact.first_seq != state.seq + 1:
                raise self._incomplete(state.seq + 1, fact.first_seq - 1)
            state = await self._apply(state, fact)
        left = await anext(self._events, None)
        if left is not None:
            raise self._incomplete(left.seq, None)
        if self._record.header.reason == "log_unreadable":
            raise _Finding("parked", self._agreed, "its log could not be read once; this version reads all of it")

    @staticmethod
    def _incomplete(first: int, last: int | None) -> _Finding:
        which = f"event {first}" if first == last else f"the events from {first} " + (f"to {last}" if last else "on")
        return _Finding("incomplete", first, f"no facts are stored for {which}: they can't be made again")

    async def _first(self) -> RunState:
        """Begin with the task, which comes from outside and not from a fact."""
        first = await anext(self._events, None)
        if first is None:
            raise _Finding("unreadable", 1, "no events are stored")
        snapshot = _snapshot_of(self._record.header)
        event = _event_of(first)
        if not isinstance(event, ev.RunCreated):
            raise _Finding("unreadable", 1, "the log does not begin with run_created", recorded=first.text)
        entry = LogEntry(seq=1, at=first.at, event=event)
        self._compared(first, entry)
        return evolve(initial(self._record.header.run_id, snapshot), entry)

    async def _apply(self, state: RunState, stored: RecordedFact) -> RunState:
        fact = _fact_of(stored)
        failed: Exception | None = None
        try:
            entries, _effects, after = advance(state, fact, stored.at)
        except Exception as error:  # noqa: BLE001 - what the loop does with a fact that breaks the machine, again
            failed = error
            transition = quarantine_on_error(state, error, stored.at)
            entries, after = tuple(transition.entries), transition.state
        if not entries:
            raise _Finding("diverged", stored.first_seq, f"this version ignores the fact {fact.type}")
        for entry in entries:
            recorded = await anext(self._events, None)
            if recorded is None:
                made = entry.event.model_dump_json()
                why = f"this version makes one event more of the fact {fact.type}"
                raise _Finding("diverged", entry.seq, why, replayed=made)
            self._compared(recorded, entry, fact, failed)
        if failed is not None:
            self._parked = repr(failed)[:200]
        return after

    def _compared(
        self, recorded: RecordedEvent, entry: LogEntry, fact: AnyFact | None = None, failed: Exception | None = None
    ) -> None:
        made = entry.event.model_dump_json()
        try:
            comparison = compare(recorded, entry, made)
        except ValueError as error:
            raise _Finding("unreadable", recorded.seq, f"not an event of this version: {_first_line(error)}") from error
        if comparison.same:
            self._agreed = entry.seq
            self._widened += comparison.widened
            return
        cause = "the task" if fact is None else f"the fact {fact.type}"
        verdict: Verdict = "diverged"
        why = f"{cause} gives another event"
        if failed is not None:
            why = f"this version can't apply {cause}: {failed!r}"
        elif _was_parked(recorded):
            verdict = "parked"
            why = f"the machine of then could not apply {cause} and parked the run; this version goes on"
        raise _Finding(verdict, recorded.seq, why, comparison, recorded.text, made)

    def _result(self, finding: _Finding | None) -> ReplayResult:
        header = self._record.header
        return ReplayResult(
            run_id=header.run_id,
            network=header.network,
            version=header.version,
            status=header.status,
            verdict="identical" if finding is None else finding.verdict,
            events=self._agreed,
            widened=self._widened,
            engine_version=ENGINE_VERSION,
            engine_versions=tuple(self._versions),
            seq=None if finding is None else finding.seq,
            why="" if finding is None else finding.why,
            differences=() if finding is None else finding.comparison.differences,
            recorded="" if finding is None else finding.recorded[:SHOWN_CHARS],
            replayed="" if finding is None else finding.replayed[:SHOWN_CHARS],
        )


def _event_of(recorded: RecordedEvent) -> ev.AnyEvent:
    try:
        return event_adapter.validate_json(recorded.text)
    except ValidationError as error:
        why = f"not an event of this version: {_first_line(error)}"
        raise _Finding("unreadable", recorded.seq, why, recorded=recorded.text) from error


def _snapshot_of(header: RecordHeader) -> NetworkSnapshot:
    if header.snapshot_text is None:
        raise _Finding("unreadable", 1, "the snapshot of its network is gone")
    try:
        return NetworkSnapshot.model_validate_json(header.snapshot_text)
    except ValidationError as error:
        why = f"the snapshot of its network is none of this version: {_first_line(error)}"
        raise _Finding("unreadable", 1, why) from error


def _fact_of(stored: RecordedFact) -> AnyFact:
    try:
        return fact_adapter.validate_json(stored.text)
    except ValidationError as error:
        why = f"not a fact of this version: {_first_line(error)}"
        raise _Finding("unreadable", stored.first_seq, why, recorded=stored.text) from error


def _was_parked(recorded: RecordedEvent) -> bool:
    return f'"code":"{ENGINE_ERROR}"' in recorded.text and '"type":"run_quarantined"' in recorded.text


def _first_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'/'.join(str(part) for part in first['loc'])}: {entry_message(first)}"
    return str(error).partition("\n")[0]
