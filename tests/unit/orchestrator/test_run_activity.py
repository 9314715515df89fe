"""Loops rest only while no run is unfinished, and no longer than until one begins."""

import asyncio
from collections.abc import Callable

import pytest

from towpath_orchestrator.app import run_activity
from towpath_orchestrator.app.run_activity import RunActivity

SOON_S = 60


@pytest.fixture(autouse=True)
def long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_activity, "REST_S", 10_000.0)
    monkeypatch.setattr(run_activity, "UNCOUNTED_S", -1.0)


async def rests(activity: RunActivity, then: Callable[[], None]) -> None:
    """Check that a pause goes on until *then* ends it."""
    pause = asyncio.create_task(activity.pause(0.01))
    await asyncio.sleep(0.2)
    assert not pause.done()
    then()
    await asyncio.wait_for(pause, SOON_S)


async def test_there_may_be_runs_until_they_were_counted() -> None:
    await asyncio.wait_for(RunActivity().pause(0.01), SOON_S)


async def test_nobody_rests_while_a_run_is_unfinished() -> None:
    activity = RunActivity()
    activity.counted(1)
    await asyncio.wait_for(activity.pause(0.01), SOON_S)


async def test_a_rest_ends_when_a_run_begins() -> None:
    activity = RunActivity()
    activity.counted(0)
    await rests(activity, activity.begun)
    await rests(activity, activity.begun)


async def test_several_loops_rest_and_each_is_woken() -> None:
    activity = RunActivity()
    activity.counted(0)
    also = asyncio.create_task(activity.pause(0.01))
    await rests(activity, activity.begun)
    await asyncio.wait_for(also, SOON_S)


async def test_a_run_that_no_count_holds_yet_keeps_them_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_activity, "UNCOUNTED_S", 10_000.0)
    activity = RunActivity()
    activity.begun()
    activity.counted(0)
    await asyncio.wait_for(activity.pause(0.01), SOON_S)


async def test_a_rest_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_activity, "REST_S", 0.1)
    activity = RunActivity()
    activity.counted(0)
    await asyncio.wait_for(activity.pause(0.01), SOON_S)
