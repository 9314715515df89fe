"""A worker remembers the runs that used its tools until it is told that they have ended, and then calls hooks once."""

import asyncio
from uuid import UUID, uuid4

import pytest

from towpath.hooks import Hook, HookEvent, Hooks
from towpath.tools.context import ToolContext
from towpath_worker.app import run_ends
from towpath_worker.app.run_ends import MAX_RUNS, RunEnds

ROOT, BELOW, OTHER = uuid4(), uuid4(), uuid4()


def ends(busy: set[UUID], heard: list[HookEvent]) -> RunEnds:
    def fail(hook: Hook, error: BaseException) -> None:
        raise AssertionError(error)

    async def hear(event: HookEvent) -> None:
        heard.append(event)

    return RunEnds(Hooks([Hook("run_finished", hear)], fail), "w-1", lambda: busy)


async def test_hooks_hear_of_the_end_of_a_run_that_used_a_tool_and_of_the_one_above_it_once() -> None:
    heard: list[HookEvent] = []
    known = ends(set(), heard)
    known.note(ToolContext(run_id=BELOW, root_run_id=ROOT))
    known.note(ToolContext(run_id=BELOW, root_run_id=ROOT))
    assert known.questions() == [(ROOT, BELOW)]
    known.take([BELOW, OTHER])
    calling = asyncio.create_task(known.run())
    await asyncio.sleep(0)
    known.take([BELOW, ROOT])
    await asyncio.sleep(0.01)
    calling.cancel()
    assert [(event.name, event.worker, event.run_id) for event in heard] == [
        ("run_finished", "w-1", BELOW),
        ("run_finished", "w-1", ROOT),
    ]
    assert known.questions() == []
    known.note(ToolContext(run_id=BELOW))
    assert known.questions() == [(BELOW,)], "another call of it, so another end"


async def test_the_end_of_a_run_waits_for_its_calls_here() -> None:
    busy = {BELOW}
    known = ends(busy, [])
    known.note(ToolContext(run_id=BELOW, root_run_id=ROOT))
    assert known.questions() == [(ROOT,)]
    busy.clear()
    assert known.questions() == [(ROOT, BELOW)]


async def test_nothing_is_remembered_where_no_hook_wants_to_hear_it() -> None:
    known = RunEnds(Hooks([], lambda *_: None), "w-1", set)
    known.note(ToolContext(run_id=BELOW))
    assert known.questions() == []


async def test_many_runs_are_asked_for_in_several_words_and_only_the_newest_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = ends(set(), [])
    runs = [UUID(int=number) for number in range(1, MAX_RUNS + 2)]
    for run_id in runs:
        known.note(ToolContext(run_id=run_id))
    asked = known.questions()
    assert [len(piece) for piece in asked] == [1_000] * 10
    assert [run_id for piece in asked for run_id in piece] == runs[1:]
    monkeypatch.setattr(run_ends, "MAX_RUNS", 2)
    known.note(ToolContext(run_id=ROOT))
    assert known.questions() == [(runs[-1], ROOT)]
