"""Folds a log to a state, creates a run, and replays recorded facts to see whether they still give the recorded log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from towpath_contracts.events.log import LogEntry, RunCreated
from towpath_contracts.facts import AnyFact
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_engine.advance import advance
from towpath_engine.evolve import evolve
from towpath_engine.state.run import RunState, initial


def fold(run_id: UUID, snapshot: NetworkSnapshot, entries: Iterable[LogEntry]) -> RunState:
    """Return the state that a log gives."""
    state = initial(run_id, snapshot)
    for entry in entries:
        state = evolve(state, entry)
    return state


def create(run_id: UUID, snapshot: NetworkSnapshot, task: RunCreated, now: datetime) -> tuple[RunState, LogEntry]:
    """Return a new run's first state and event."""
    entry = LogEntry(seq=1, at=now, event=task)
    return evolve(initial(run_id, snapshot), entry), entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where a replay went another way than the record."""

    seq: int
    recorded: str
    replayed: str


def replay(
    run_id: UUID,
    snapshot: NetworkSnapshot,
    recorded: tuple[LogEntry, ...],
    facts: Iterable[tuple[AnyFact, datetime]],
) -> Divergence | None:
    """Feed *facts* to the machine again and compare with the *recorded* log; None when they agree byte for byte."""
    if not recorded or not isinstance(recorded[0].event, RunCreated):
        return Divergence(seq=1, recorded="", replayed="run_created")
    state = evolve(initial(run_id, snapshot), recorded[0])
    made: list[LogEntry] = [recorded[0]]
    for fact, now in facts:
        entries, _effects, state = advance(state, fact, now)
        made.extend(entries)
    for index in range(max(len(recorded), len(made))):
        old = recorded[index].model_dump_json() if index < len(recorded) else ""
        new = made[index].model_dump_json() if index < len(made) else ""
        if old != new:
            return Divergence(seq=index + 1, recorded=old, replayed=new)
    return None
