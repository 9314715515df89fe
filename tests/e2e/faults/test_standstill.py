"""Processes stopped, drained or left alone with Postgres: short forms of the catalogue's tests 10, 19 and 29."""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.messages import finish
from tests.chaos.scenarios.processes import (
    FIRST,
    PAIRS,
    SECOND,
    SLOW,
    STOPPED,
    TIME_TO_END,
    TOOL_QUEUES,
    drain_processes,
    freeze_processes,
    run_without_redelivery,
)


async def test_what_stood_still_is_overtaken_and_a_clean_end_leaves_no_doubt(folder: Path) -> None:
    findings, notices = ScenarioFindings(), list[str]()
    options = {"replicas": PAIRS, "role_environment": SLOW, "environment": TIME_TO_END, "starts": "fork"}
    async with SteadyLoad(folder, workers=2, notice=notices.append, **options) as work:
        await drain_processes(work, findings, notices, [FIRST, SECOND], runs=6)
        await freeze_processes(work, findings, STOPPED, runs=12)
        report = await finish(work, findings)
    assert report.problems == (), report


async def test_runs_end_although_the_broker_repeats_nothing(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork") as work:
        await run_without_redelivery(work, findings, seed=29, strikes=2, runs=12, queues=TOOL_QUEUES, victims=("tas",))
        report = await finish(work, findings)
    assert report.problems == (), report
