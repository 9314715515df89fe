"""`python -m towpath_embedded.chaos`: one campaign; ends with one document of JSON.

Progress goes to stderr and the document, or the problem, to stdout; the exit status is 0 where everything held, 1
where something did not, 2 where the command line can't be followed. Nothing is left running.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from towpath_fabric.garbage_collector import paused

with paused():
    from cyclopts import App, Parameter

    from towpath_contracts.problems.registry import ProblemError
    from towpath_embedded.chaos.campaign import Campaign, CampaignSettings, campaign_platform, outside_file
    from towpath_embedded.chaos.command_line import (
        FAILED,
        HELD,
        INTERRUPTED,
        cancel_on_signals,
        component_versions,
        print_document,
        print_problem,
        report_progress,
        split_words,
        work_folder,
    )
    from towpath_embedded.chaos.faults import FAULTS
    from towpath_embedded.chaos.judge import judge_record
    from towpath_embedded.chaos.options import DEFAULT_SEED, ChaosOptions, campaign_settings
    from towpath_embedded.chaos.outside import read_marks
    from towpath_embedded.chaos.replays import replay_mismatches
    from towpath_embedded.chaos.report import CampaignFindings, differing_runs, report_document
    from towpath_embedded.chaos.stored_runs import descendant_runs, read_record
    from towpath_fabric.clock import monotonic

Flag = Annotated[bool, Parameter(negative="")]
Names = Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)]

app = App(name="chaos", help="Break a whole platform on purpose, and judge what is left of it.")


@app.default
def chaos(
    *,
    network: Path | None = None,
    decisions: Path | None = None,
    tools: Path | None = None,
    policy: Path | None = None,
    faults: Names = (),
    kills: int | None = None,
    runs: int = 0,
    seed: int = DEFAULT_SEED,
    quick: Flag = False,
    long: Flag = False,
    data: Path | None = None,
    list: Flag = False,  # noqa: A002 - the option's name
) -> int:
    """Carry out a campaign; `towpath chaos --help` describes each option."""
    options = ChaosOptions(
        network=network,
        decisions=decisions,
        tools=tools,
        policy=policy,
        faults=split_words(faults),
        kills=kills,
        runs=runs,
        seed=seed,
        quick=quick,
        long=long,
        data=data,
    )
    if list:
        print_document({"faults": [*FAULTS]})
        return HELD
    try:
        return asyncio.run(_run(options))
    except ProblemError as error:
        return print_problem(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


async def _run(options: ChaosOptions) -> int:
    cancel_on_signals()
    found = await _campaign(campaign_settings(options), options)
    print_document(found)
    return FAILED if found["problems"] else HELD


async def _campaign(settings: CampaignSettings, options: ChaosOptions) -> dict[str, Any]:
    began, load = monotonic(), os.getloadavg()[0]
    with work_folder(options.data) as folder:
        async with campaign_platform(settings, folder, report_progress) as platform:
            result = await Campaign(settings, platform, folder, report_progress).run()
            report_progress("judging")
            run_ids = [*result.run_ids, *await descendant_runs(platform.dsn(), result.run_ids)]
            record = await read_record(platform.dsn(), run_ids)
            verdict = judge_record(record, read_marks(outside_file(folder)), run_ids)
            found = CampaignFindings(
                result=result,
                record=record,
                verdict=verdict,
                differing=differing_runs(result, record, verdict),
                replay_mismatches=await replay_mismatches(platform.dsn(), run_ids),
            )
    facts = {
        "networks": [workload.name for workload in settings.workloads],
        "versions": component_versions(),
        "cores": os.cpu_count(),
        "load": {"before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
        "seconds": round(monotonic() - began, 1),
        "phases_s": {name: round(took, 1) for name, took in result.seconds.items()},
    }
    return report_document(
        found, seed=settings.seed, expected=(*settings.faults, *dict.fromkeys(settings.rare)), facts=facts
    )


if __name__ == "__main__":
    sys.exit(app(result_action="return_value"))
