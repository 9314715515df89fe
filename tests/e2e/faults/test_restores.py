"""The database is lost and restored from a backup; nothing that it does not know is done again in silence."""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.restore import lose_and_restore
from tests.support.tas.audit_bundle import exported


async def test_a_database_may_be_lost_and_restored_from_a_backup_of_the_middle_of_the_work(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork") as work:
        await lose_and_restore(folder, work, findings, runs=12)
        async with exported(work.platform.dsn(), "default") as (_, bundles):
            assert (await bundles.report()).faults == []
    assert not findings.problems, (findings.problems, findings.figures)
