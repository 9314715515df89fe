"""Processes stopped, drained or left alone with Postgres: short forms of the catalogue's tests 10, 19 and 29."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
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
from tests.chaos.soak.__main__ import read_samples
from tests.chaos.soak.mixture import RULES
from tests.chaos.soak.report import growth_report
from tests.chaos.soak.run import SoakSettings, soak_on, worker_of_soak
from tests.chaos.soak.slopes import LIMITS

from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

KILLS = 3
"""After so many the soak is ended."""


@pytest.fixture(scope="module")
def notices() -> list[str]:
    """What the platform said."""
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def work(notices: list[str]) -> AsyncIterator[SteadyLoad]:
    """Two processes of each service."""
    options = {"replicas": PAIRS, "role_environment": SLOW, "environment": TIME_TO_END, "starts": "fork"}
    with temporary_folder() as folder:
        async with SteadyLoad(folder, workers=2, notice=notices.append, rules=RULES, **options) as begun:
            yield begun


async def test_what_stood_still_is_overtaken_and_a_clean_end_leaves_no_doubt(
    work: SteadyLoad, notices: list[str]
) -> None:
    findings = ScenarioFindings()
    await drain_processes(work, findings, notices, [FIRST, SECOND], runs=6)
    await freeze_processes(work, findings, STOPPED, runs=12)
    report = await finish(work, findings)
    assert report.problems == (), report


async def test_a_soak_that_is_ended_early_accounts_for_every_run_that_it_submitted(
    work: SteadyLoad, folder: Path
) -> None:
    outside, ending, said = folder / "outside.txt", asyncio.Event(), list[str]()
    outside.touch()
    await work.platform.add_worker(worker_of_soak(outside))

    def say(line: str) -> None:
        said.append(line)
        if sum(words.startswith("killed") for words in said) == KILLS:
            ending.set()

    settings = SoakSettings(
        runs=1_000_000, kills_every_s=0.5, at_once=24, replays=1_000_000, sample_every_s=0.5, minutes=10
    )
    report = await soak_on(work.platform, settings, folder, ending, say)
    assert report["problems"] == [], said
    assert sum(report["kills"].values()) >= KILLS
    assert report["accounted"] == report["accepted"] == report["replays"]["runs"] >= 24
    assert len(report["kinds"]) > 4 and report["effects"] and report["replays"]["different"] == 0
    samples, others = read_samples(folder)
    assert {line["killed"] for line in others if "killed" in line}
    for name in ("orchestrator", "worker", "nats", "postgres"):
        assert all(samples[-1]["services"][name][measure] > 0 for measure in (*LIMITS, "rss_mib", "cpu_s")), name
    assert growth_report(samples)["stored"]["table_bytes_per_run"]["runs.run_event"] > 0


async def test_runs_end_although_the_broker_repeats_nothing(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork") as work:
        await run_without_redelivery(work, findings, seed=29, strikes=2, runs=12, queues=TOOL_QUEUES, victims=("tas",))
        report = await finish(work, findings)
    assert report.problems == (), report
