"""Hostile messages on every subject, and every message said again: short forms of the catalogue's tests 12 and 13."""

from pathlib import Path

from tests.chaos.load.steady_load import Steady
from tests.chaos.load.strike import Strike
from tests.chaos.scenarios.messages import TWO_OF_EACH, finish, hostile, repeated, rivals


async def test_hostile_messages_end_no_process_and_cause_nothing(folder: Path) -> None:
    strike = Strike()
    async with Steady(folder, starts="fork") as work:
        injected = await hostile(work, strike, seed=13, rounds=6)
        report = await finish(work, strike)
    assert report.problems == (), report
    assert injected.sent.keys() >= {"svc", "task", "tool", "run", "decide", "log"}


async def test_what_is_said_again_late_and_in_any_order_changes_nothing(folder: Path) -> None:
    strike = Strike()
    async with Steady(folder, workers=2, replicas=TWO_OF_EACH, starts="fork") as work:
        await repeated(work, strike, seed=12, runs=20, longest_s=2)
        await rivals(work, strike)
        report = await finish(work, strike)
    assert report.problems == (), report
