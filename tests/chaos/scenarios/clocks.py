"""Every service runs under a wrong clock of its own: off by an hour or by a day, and jumping.

What must hold: no order changes, no claim and no ticket expires early, no run's time is measured by a process; a
dispatch that is really too old is refused and authorised again.
"""

import asyncio
import sys
from typing import Any, Final

from tests.chaos.launchers import skewed_clock
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import SLOWLY_MS, finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.support.places import IMPORTS_TESTS

HOUR: Final = 3_600
DAY: Final = 24 * HOUR
ROLES: Final = ("orchestrator", "tas", "decider", "worker", "log_writer", "gateway")
ROUNDS: Final = (
    {"orchestrator": HOUR, "tas": -HOUR, "decider": DAY, "worker": -DAY, "log_writer": HOUR, "gateway": -HOUR},
    {"orchestrator": -DAY, "tas": DAY, "decider": -HOUR, "worker": HOUR, "log_writer": -DAY, "gateway": DAY},
    {"orchestrator": 0, "tas": -DAY, "decider": 0, "worker": DAY, "log_writer": 0, "gateway": 0},
)
"""How far each role is ahead, in seconds, one round after the other: from one to the next each clock jumps."""

JUMPS: Final = 6


async def skew_clocks(work: SteadyLoad, findings: ScenarioFindings, *, runs: int, rounds: int = len(ROUNDS)) -> None:
    """Let *runs* pass in each of the last *rounds*, then more while the clocks jump to and fro."""
    folder = work.outside.parent
    for ahead in ROUNDS[-rounds:]:
        _set(folder, ahead)
        await work.submit(runs, delay_ms=SLOWLY_MS)
        await work.until_ended(timeout_s=240)
    await work.submit(runs, steps=10, delay_ms=SLOWLY_MS)
    for number in range(JUMPS):
        _set(folder, ROUNDS[number % len(ROUNDS)])
        await asyncio.sleep(0.5)
    await work.until_ended(timeout_s=240)
    findings.figures.update(rounds=rounds, jumps=JUMPS, furthest_s=DAY)
    await _judge_times(work, findings)


async def _judge_times(work: SteadyLoad, findings: ScenarioFindings) -> None:
    """Times and ids are of Postgres's clock alone, and no call was authorised a second time for want of time."""
    backwards = await work.rows(
        "SELECT count(*) AS n FROM (SELECT at, lag(at) OVER (PARTITION BY run_id ORDER BY seq) AS before"
        " FROM runs.run_event) AS e WHERE at < before"
    )
    strayed = await work.rows(
        "SELECT count(*) AS n FROM runs.run_event WHERE abs(extract(epoch FROM at - now())) > 1800"
    )
    ids = await work.rows(
        "SELECT count(*) AS n FROM runs.run WHERE run_id NOT BETWEEN runs.uuid_at(created_at - interval '1 minute')"
        " AND runs.uuid_at(created_at + interval '1 minute')"
    )
    again = await work.rows("SELECT count(*) AS n FROM tas.tool_call WHERE attempt > 1")
    found: dict[str, Any] = {
        "backwards": backwards,
        "strayed_times": strayed,
        "strayed_ids": ids,
        "authorised_again": again,
    }
    for name, rows in found.items():
        findings.figures[name] = int(rows[0]["n"]) if rows else None
        findings.require(bool(rows) and rows[0]["n"] == 0, f"{name} is {findings.figures[name]}")


def _set(folder: Any, ahead: Any) -> None:
    for role, seconds in ahead.items():
        (folder / f"clock-{role}").write_text(str(seconds))


def skewed_work(context_folder: Any, **options: Any) -> SteadyLoad:
    """Return a platform whose roles run under clocks that files in *context_folder* move."""
    command = (sys.executable, "-m", "tests.chaos.launchers.skewed_clock")
    clocks = {role: {**IMPORTS_TESTS, skewed_clock.VARIABLE: str(context_folder / f"clock-{role}")} for role in ROLES}
    return SteadyLoad(
        context_folder,
        role_environment=clocks,
        commands={role: (*command, f"towpath_{role}") for role in ROLES},
        **options,
    )


async def _clocks(context: ScenarioContext) -> ScenarioReport:
    context.folder.mkdir(exist_ok=True)
    _set(context.folder, ROUNDS[0])
    async with skewed_work(context.folder, notice=context.notice) as work:
        findings = ScenarioFindings()
        await skew_clocks(work, findings, runs=60 if context.long else 15)
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=11, name="clock-skew", summary="every service under a wrong clock that jumps", run=_clocks),
)
