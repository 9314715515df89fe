"""Few places for work, and of them a share for each owner."""

import asyncio

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.turns.work_turns import WorkTurns


async def begin(turns: WorkTurns, owner: str, at_work: list[str], over: asyncio.Event) -> None:
    async with turns.held(owner):
        at_work.append(owner)
        await over.wait()


async def test_an_owner_has_its_share_and_others_find_a_place_beside_it() -> None:
    turns, at_work, over = WorkTurns(4, lambda _: 2, 10.0), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(begin(turns, owner, at_work, over)) for owner in ["a"] * 50 + ["b"]]
    await asyncio.sleep(0.01)
    assert at_work == ["a", "a", "b"]
    over.set()
    await asyncio.gather(*tasks)
    assert len(at_work) == 51


async def test_who_finds_no_place_in_time_is_refused_and_holds_none() -> None:
    turns, at_work, over = WorkTurns(1, lambda _: 1, 0.01, "project_share_full"), list[str](), asyncio.Event()
    first = asyncio.create_task(begin(turns, "a", at_work, over))
    for owner in ("a", "b", "b"):
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as refused:
            await begin(turns, owner, at_work, over)
        assert refused.value.problem.code == "project_share_full"
    over.set()
    await first
    await asyncio.gather(*(begin(turns, owner, at_work, over) for owner in ("a", "b", "b")))
    assert at_work == ["a", "a", "b", "b"]


async def test_who_goes_while_it_waits_holds_no_place() -> None:
    turns, at_work, over = WorkTurns(1, lambda _: 2, 10.0), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(begin(turns, "a", at_work, over)) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in tasks[1:]:
        task.cancel()
    over.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(begin(turns, owner, at_work, over) for owner in ("a", "b")))
    assert at_work == ["a", "a", "b"]


async def test_who_finds_too_many_of_its_own_waiting_is_refused_at_once() -> None:
    turns, at_work, over = WorkTurns(1, lambda _: 1, 10.0, max_waiting=2), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(begin(turns, owner, at_work, over)) for owner in ("a", "a", "a", "b")]
    await asyncio.sleep(0.01)
    for _ in range(2):
        with pytest.raises(ProblemError):
            await begin(turns, "a", at_work, over)
    over.set()
    await asyncio.gather(*tasks)
    assert sorted(at_work) == ["a", "a", "a", "b"]
    await begin(turns, "a", at_work, over)
