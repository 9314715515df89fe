"""What a replay says of a record: the same, another way and where, parked then as now, or not comparable."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine.golden_logs import SCENES
from tests.support.engine.machine import Machine

from towpath_contracts.runs.records import ReplayResult
from towpath_engine.advance import advance
from towpath_engine.handlers.quarantine import quarantine_on_error
from towpath_engine.replay_diff import RecordedEvent
from towpath_orchestrator.app.api.run_export import FileRecord, RecordFileError
from towpath_orchestrator.core import replay_check
from towpath_orchestrator.core.replay_check import RecordedFact, RecordHeader, ReplayCheck


class MemoryRecord:
    """The record of a machine, as another version may have written it."""

    def __init__(self, machine: Machine) -> None:
        self.header = RecordHeader(
            run_id=machine.state.run_id,
            network="desk",
            version=1,
            status=str(machine.state.status),
            reason=machine.state.reason,
            snapshot_text=machine.network.model_dump_json(),
        )
        self.log = [RecordedEvent(seq=e.seq, at=e.at, text=e.event.model_dump_json()) for e in machine.entries]
        self.told: list[RecordedFact] = []
        state = replay_check.evolve(replay_check.initial(machine.state.run_id, machine.network), machine.entries[0])
        for fact, at in machine.facts:
            first = state.seq + 1
            made, _effects, state = advance(state, fact, at)
            if made:  # a fact that is ignored is not stored
                self.told.append(RecordedFact(first_seq=first, at=at, engine_version="0", text=fact.model_dump_json()))

    async def events(self) -> AsyncIterator[RecordedEvent]:
        for event in self.log:
            yield event

    async def facts(self) -> AsyncIterator[RecordedFact]:
        for fact in self.told:
            yield fact


def break_down(at: int) -> Any:
    """An engine that can't apply the fact that comes at seq *at*."""

    def broken(state: Any, fact: Any, now: Any) -> Any:
        if state.seq + 1 == at:
            raise KeyError("clerk")
        return advance(state, fact, now)

    return broken


@pytest.fixture
def record() -> MemoryRecord:
    return MemoryRecord(SCENES["answer"]())


async def found(record: MemoryRecord) -> ReplayResult:
    return await ReplayCheck(record).run()


async def test_a_snapshot_that_this_version_can_not_read_is_a_verdict(record: MemoryRecord) -> None:
    for text, why in ((None, "is gone"), ("{}", "none of this version"), ('{"agents": 7', "none of this version")):
        record.header = dataclasses.replace(record.header, snapshot_text=text)
        result = await found(record)
        assert (result.verdict, result.seq) == ("unreadable", 1) and why in result.why


@pytest.mark.parametrize("scene", SCENES)
async def test_every_golden_scene_is_identical(scene: str) -> None:
    record = MemoryRecord(SCENES[scene]())
    result = await found(record)
    assert (result.verdict, result.events, result.widened) == ("identical", len(record.log), 0), result
    assert result.engine_versions == ("0",)


async def test_another_engine_is_found_at_the_first_event_that_differs(
    record: MemoryRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath_engine.handlers.decision_requests.input_preview", lambda _state: "other")
    result = await found(record)
    assert (result.verdict, result.seq, result.events) == ("diverged", 3, 2)
    assert result.why == "the fact run.admitted gives another event"
    assert result.differences == ('/input_preview: recorded "What is new?", replayed "other"',)
    assert '"What is new?"' in result.recorded and '"other"' in result.replayed


async def test_an_engine_that_makes_more_or_fewer_events_is_found(
    record: MemoryRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = record.log.pop()
    assert (await found(record)).why == "this version makes one event more of the fact decision.made"
    record.log.append(last)
    monkeypatch.setattr(replay_check, "advance", lambda state, _fact, _now: ((), (), state))
    assert (await found(record)).why == "this version ignores the fact run.admitted"


async def test_a_fact_that_broke_the_machine_parks_the_replay_as_it_parked_the_run(
    record: MemoryRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_check, "advance", break_down(at=4))
    result = await found(record)
    assert result.verdict == "diverged" and result.why.startswith("this version can't apply the fact decision.made")
    fourth = record.log[3]
    state = replay_check.evolve(
        replay_check.initial(record.header.run_id, SCENES["answer"]().network), SCENES["answer"]().entries[0]
    )
    (parked,) = quarantine_on_error(state, KeyError("clerk"), fourth.at).entries
    record.log[3:] = [RecordedEvent(seq=4, at=fourth.at, text=parked.event.model_dump_json())]
    record.told = [fact for fact in record.told if fact.first_seq <= 4]
    result = await found(record)
    assert (result.verdict, result.events) == ("parked", 4) and "then as now" in result.why
    monkeypatch.setattr(replay_check, "advance", advance)
    result = await found(record)
    assert (result.verdict, result.seq) == ("parked", 4) and "this version goes on" in result.why


async def test_what_can_not_be_compared_is_reported(record: MemoryRecord) -> None:
    whole = list(record.told)
    record.told = whole[:1]
    assert (await found(record)).why == "no facts are stored for the events from 4 on: they can't be made again"
    record.told = whole[1:]
    assert (await found(record)).verdict == "incomplete"
    record.told = whole
    record.log[2] = RecordedEvent(seq=3, at=record.log[2].at, text='{"type": "of_no_version"}')
    assert (await found(record)).verdict == "diverged"
    record.log[0] = RecordedEvent(seq=1, at=record.log[0].at, text='{"type": "of_no_version"}')
    assert (await found(record)).verdict == "unreadable"


def test_a_file_that_this_version_wrote_is_read_and_one_of_another_form_is_named(tmp_path: Path) -> None:
    """Whoever keeps records in files reads them again with later versions."""
    file = tmp_path / "run.jsonl"
    about = f'"run_id":"{UUID(int=7)}","network":"desk","version":3,"status":"completed","reason":"","snapshot":null'
    file.write_text('{"towpath_record":1,' + about + "}\n")
    assert (FileRecord(file).header.network, FileRecord(file).header.version) == ("desk", 3)
    file.write_text('{"towpath_record":2,' + about + "}\n")
    with pytest.raises(RecordFileError, match="format 2; this version reads format 1"):
        FileRecord(file)
