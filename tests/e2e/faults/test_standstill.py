"""Processes stopped, drained or left alone with Postgres: short forms of the catalogue's tests 10, 19 and 29."""

from pathlib import Path

from tests.chaos.load.steady_load import Steady
from tests.chaos.load.strike import Strike
from tests.chaos.scenarios.messages import finish
from tests.chaos.scenarios.processes import (
    FIRST,
    PAIRS,
    SECOND,
    SLOW,
    STOPPED,
    TOOL_QUEUES,
    drained,
    nothing_twice,
    stopped,
)


async def test_what_stood_still_is_overtaken_and_a_clean_end_leaves_no_doubt(folder: Path) -> None:
    strike, notices = Strike(), list[str]()
    options = {"replicas": PAIRS, "role_environment": SLOW, "notice": notices.append, "starts": "fork"}
    async with Steady(folder, workers=2, **options) as work:
        await drained(work, strike, notices, [FIRST, SECOND], runs=6)
        await stopped(work, strike, STOPPED, runs=12)
        report = await finish(work, strike)
    assert report.problems == (), report


async def test_runs_end_although_the_broker_repeats_nothing(folder: Path) -> None:
    strike = Strike()
    async with Steady(folder, starts="fork") as work:
        await nothing_twice(work, strike, seed=29, strikes=2, runs=12, queues=TOOL_QUEUES, victims=("tas",))
        report = await finish(work, strike)
    assert report.problems == (), report
