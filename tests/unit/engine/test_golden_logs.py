"""Recorded runs still replay, byte for byte: the same facts give the log that was written then."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.engine.golden_logs import FOLDER, SCENES, Golden
from tests.support.engine.machine import RUN

from towpath_contracts.events.log import LogEntry, RunFinished
from towpath_engine.advance import advance
from towpath_engine.evolve import evolve
from towpath_engine.replay import fold, replay
from towpath_engine.state.run import initial

FILES = sorted(FOLDER.glob("*.json"))


@pytest.fixture(params=FILES, ids=[path.stem for path in FILES])
def golden(request: pytest.FixtureRequest) -> Golden:
    path: Path = request.param
    return Golden(path)


def test_every_scene_was_recorded() -> None:
    assert {path.stem for path in FILES} >= set(SCENES)


def test_the_facts_still_give_the_log(golden: Golden) -> None:
    assert replay(RUN, golden.snapshot, golden.entries, golden.facts) is None


def test_every_step_folds_to_the_state_of_the_machine(golden: Golden) -> None:
    state, made = evolve(initial(RUN, golden.snapshot), golden.entries[0]), [golden.entries[0]]
    for fact, now in golden.facts:
        entries, _effects, state = advance(state, fact, now)
        made += entries
        assert fold(RUN, golden.snapshot, made) == state
    assert tuple(made) == golden.entries
    assert (state.is_final and isinstance(made[-1].event, RunFinished)) or made[-1].event.type == "fence_stored"


def test_what_was_written_is_still_what_is_read(golden: Golden) -> None:
    """A field may have been added since, with a default; none may be gone or mean something else."""
    for text, entry in zip(golden.texts, golden.entries, strict=True):
        assert holds(entry.model_dump(mode="json"), text)


def holds(now: Any, then: Any) -> bool:
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], value) for key, value in then.items())
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(holds, now, then))
    return bool(now == then)


def test_a_replay_that_goes_another_way_says_where(golden: Golden) -> None:
    changed = list(golden.entries)
    second = changed[1]
    changed[1] = LogEntry(seq=second.seq, at=second.at.replace(year=2020), event=second.event)
    found = replay(RUN, golden.snapshot, tuple(changed), golden.facts)
    assert found is not None and (found.seq, found.recorded != found.replayed) == (2, True)
    missing = replay(RUN, golden.snapshot, golden.entries[:-1], golden.facts)
    assert missing is not None and (missing.seq, missing.recorded) == (len(golden.entries), "")
    assert replay(RUN, golden.snapshot, (), golden.facts) is not None
