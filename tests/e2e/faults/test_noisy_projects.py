"""A project that floods the platform: another one's runs go through in their turn, its quota and rights are its own."""

import asyncio
from datetime import datetime
from pathlib import Path
from uuid import UUID

from tests.noisy_projects.flood import ACTIVE_RUNS, LOUD, NOISY, QUIET, Load, TwoProjects, platform_of, quiet_runs_among
from tests.support.platform.marked_runs import TOOLS

from towpath_contracts import rpc
from towpath_contracts.budgets import SetQuota, ShowQuota
from towpath_contracts.runs.views import GetRun
from towpath_fabric.clock import wall

LOAD = Load(runs=120, calls=2, quiet_runs=3)

USED_UP = f"project {NOISY} has used its tool calls of this minute"

MOST = ACTIVE_RUNS
"""Runs of the flood that may end while one of the quiet project is under way: as many as have room at once. Without
turns it is all that came before: most of a hundred for the first one."""


async def test_a_project_that_floods_holds_up_no_other_ones_runs(folder: Path) -> None:
    async with platform_of(folder) as platform:
        projects = await TwoProjects.set_up(platform)
        await projects.limit(NOISY, runs_per_day=LOAD.runs + 1)
        await projects.limit(QUIET, runs_per_day=LOAD.quiet_runs + 1, unfinished_runs=1)
        found = await quiet_runs_among(projects, LOAD)
        assert [row["status"] for row in found] == ["completed"] * LOAD.quiet_runs
        assert max(row["runs"] for row in found) <= MOST, found
        await its_rights_are_its_own(projects)
        await its_quota_is_its_own(projects)
        await projects.until_ended(NOISY, LOAD.runs)
        await its_calls_wait_for_the_next_minute(projects)
        assert (await projects.refused(NOISY, LOAD.runs))["code"] == "quota_exceeded"
        await runs_whose_calls_are_postponed_hold_no_room(projects)
        await projects.close()


async def its_rights_are_its_own(projects: TwoProjects) -> None:
    """What the noisy project's policy allows thousands of times is denied to the quiet one."""
    run_id = await projects.submit(QUIET, 3_000_000, tools=TOOLS[2:])
    await projects.until_ended(QUIET, LOAD.quiet_runs + 1)
    text = "SELECT type FROM runs.run_event WHERE run_id = $1::uuid AND type LIKE 'tool_call_%' ORDER BY seq"
    types = {row["type"] for row in await projects.connection.fetch(text, run_id)}
    assert "tool_call_denied" in types
    assert "tool_call_finished" not in types


async def its_calls_wait_for_the_next_minute(projects: TwoProjects) -> None:
    """Of three calls two are in one minute, and one of them is postponed; the run says so, and goes on."""
    await projects.limit(NOISY, tool_calls_per_minute=1)
    run_id = await projects.submit(NOISY, LOAD.runs, calls=3)
    until = datetime.fromisoformat((await projects.until_event(run_id, "tool_call_postponed"))["until"])
    asked = GetRun(project=NOISY, run_id=UUID(run_id))
    view = await projects.tell(rpc.GET_RUN, asked)
    while wall() < until and view["status"] == "running":
        # The call that was allowed is still at work.
        await asyncio.sleep(0.05)
        view = await projects.tell(rpc.GET_RUN, asked)
    if wall() < until:
        assert view["status"] == "waiting"
        assert view["waits"][0].startswith("quota: mark.pure is asked for again at ")
        assert view["waits"][0].endswith(USED_UP)
    await projects.limit(NOISY, runs_per_day=LOAD.runs + 1)


async def runs_whose_calls_are_postponed_hold_no_room(projects: TwoProjects) -> None:
    """Two projects with more runs than there is room for, nearly all of which wait for a minute to come."""
    for project in (NOISY, LOUD):
        await projects.limit(project, tool_calls_per_minute=1)
        await asyncio.gather(*(projects.submit(project, 5_000_000 + n) for n in range(ACTIVE_RUNS)))
    await projects.until_postponed(ACTIVE_RUNS + 20)
    await projects.limit(QUIET, runs_per_day=1_000)
    ended = await projects.ended(QUIET)
    run_id = await projects.submit(QUIET, 6_000_000)
    await projects.until_ended(QUIET, ended + 1)
    (found,) = await projects.meanwhile([run_id])
    assert (found["status"], found["runs"] <= 2) == ("completed", True), found
    await who_waits_is_freed_with_the_limit(projects)


async def who_waits_is_freed_with_the_limit(projects: TwoProjects) -> None:
    """Of the runs that still wait most were told a minute that is some minutes away."""
    text = "SELECT count(*) FROM runs.run WHERE project = $1"
    await projects.tell(rpc.SET_QUOTA, SetQuota(project=NOISY, quota=None, actor="test", roles=("operator",)))
    await projects.limit(LOUD, tool_calls_per_minute=1_000)
    for project in (NOISY, LOUD):
        await projects.until_ended(project, await projects.connection.fetchval(text, project))


async def its_quota_is_its_own(projects: TwoProjects) -> None:
    status = await projects.tell(rpc.SHOW_QUOTA, ShowQuota(project=QUIET))
    used = {use["name"]: use["used"] for use in status["uses"]}
    assert used == {"unfinished_runs": 0, "runs_per_day": LOAD.quiet_runs + 1}
    refused = await projects.refused(QUIET, 4_000_000)
    assert refused["detail"].startswith(f"project {QUIET} has used {LOAD.quiet_runs + 1} of {LOAD.quiet_runs + 1}")
