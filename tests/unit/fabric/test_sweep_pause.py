"""A reader compares rarely while nothing moves, and soon after anything did."""

import asyncio

import pytest

from towpath_fabric.nats import sweep_pause
from towpath_fabric.nats.sweep_pause import SweepPause

SOON_S = 60


@pytest.fixture(autouse=True)
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_pause, "QUIET_TIMES", 1_000_000)


async def test_after_a_change_the_pause_is_short() -> None:
    await asyncio.wait_for(SweepPause().wait(0.01, quiet=False), SOON_S)


async def test_a_quiet_pause_ends_when_something_moves() -> None:
    pause = SweepPause()
    for _ in range(2):
        waiting = asyncio.create_task(pause.wait(0.01, quiet=True))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        pause.moved()
        await asyncio.wait_for(waiting, SOON_S)


async def test_what_moved_during_a_comparison_is_not_forgotten() -> None:
    pause = SweepPause()
    pause.moved()
    await asyncio.wait_for(pause.wait(0.01, quiet=True), SOON_S)


async def test_a_quiet_pause_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_pause, "QUIET_TIMES", 5)
    await asyncio.wait_for(SweepPause().wait(0.01, quiet=True), SOON_S)
