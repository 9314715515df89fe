"""One unreadable run among others, and two versions side by side: short forms of the catalogue's tests 17 and 18."""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.messages import finish
from tests.chaos.scenarios.versions import (
    HALF,
    SETTLE_S,
    judge_versions,
    make_log_unreadable,
    next_version_options,
    upgrade_and_roll_back,
)


async def test_an_upgrade_loses_nothing_and_an_unreadable_log_quarantines_one_run(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork", **next_version_options(folder)) as work:
        await upgrade_and_roll_back(work, findings, folder, [HALF], runs=4)
        await work.until_ended(timeout_s=SETTLE_S)
        await judge_versions(work, findings)
        await make_log_unreadable(work, findings, runs=30)
        report = await finish(work, findings)
    assert report.problems == (), report
