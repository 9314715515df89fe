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


async def test_a_run_is_not_told_as_finished_whose_call_began_since_it_was_asked_about() -> None:
    busy: set[UUID] = set()
    heard: list[HookEvent] = []
    known = ends(busy, heard)
    for run_id in (ROOT, BELOW):
        known.note(ToolContext(run_id=run_id))
    busy.add(ROOT)  # between the question and its answer
    known.take([ROOT, BELOW])
    busy.add(BELOW)  # between the answer and the hook
    await known.notify()
    assert heard == []
    busy.clear()
    assert known.questions() == [(ROOT, BELOW)], "they are asked about again"
    known.take([ROOT, BELOW])
    await known.notify()
    assert [event.run_id for event in heard] == [ROOT, BELOW]


async def test_of_ends_that_wait_for_a_slow_hook_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_ends, "MAX_RUNS", 2)
    heard: list[HookEvent] = []
    known = ends(set(), heard)
    runs = [uuid4() for _ in range(3)]
    for run_id in runs:
        known.note(ToolContext(run_id=run_id))
        known.take([run_id])
    await known.notify()
    assert [event.run_id for event in heard] == runs[1:]


async def test_who_has_hooks_called_also_waits_for_those_that_are_called_already() -> None:
    heard: list[UUID | None] = []
    goes_on = asyncio.Event()

    async def hear(event: HookEvent) -> None:
        await goes_on.wait()
        heard.append(event.run_id)

    known = RunEnds(Hooks([Hook("run_finished", hear)], lambda *_: None), "w-1", set)
    for run_id in (ROOT, BELOW):
        known.note(ToolContext(run_id=run_id))
    known.take([ROOT, BELOW])
    calling = asyncio.create_task(known.run())
    await asyncio.sleep(0)
    stopping = asyncio.create_task(known.notify())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    goes_on.set()
    await stopping
    calling.cancel()
    assert heard == [ROOT, BELOW]


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
