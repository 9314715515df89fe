"""The servers under the platform fail; runs end all the same, each effect at most once, and without help from a person.

Short forms of the scenarios of `towpath chaos`; the faults share platforms, since each has to leave a whole one behind.
"""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios import broker, clocks, database


async def test_a_broker_may_die_lose_its_data_or_get_old_or_damaged_data_back(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork", durable=False, longest_pause_s=0.5) as work:
        await broker.kill_under_load(work, findings, runs=20, kills=2)
        await broker.lose_everything(work, findings, runs=60)
        await broker.restore_old_copy(work, findings, runs=20)
        await broker.damage(work, findings, "zero-consumers", runs=20)
        await broker.damage(work, findings, "bit-flips", runs=20)
        await broker.finish(work, findings)
    assert not findings.problems, (findings.problems, findings.figures)
    assert int(str(findings.figures["unfinished_then"])) > 0, findings.figures


async def test_a_database_may_freeze_die_or_refuse_and_history_may_be_written_later(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork") as work:
        await database.freeze_and_stop_database(work, findings, runs=20, frozen_s=3.0, refused_s=3.0)
        await database.refuse_statements(work, findings, runs=6, seconds=0.8)
        await database.run_without_log_writer(work, findings, runs=50)
        await broker.finish(work, findings)
    assert not findings.problems, (findings.problems, findings.figures)


async def test_every_process_may_have_a_wrong_clock(folder: Path) -> None:
    findings = ScenarioFindings()
    async with clocks.skewed_work(folder, durable=False, starts="fork") as work:
        await clocks.skew_clocks(work, findings, runs=6, rounds=1)
        await broker.finish(work, findings)
    assert not findings.problems, (findings.problems, findings.figures)
