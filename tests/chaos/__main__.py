"""`python -m tests.chaos`: runs scenarios of the catalogue; ends with one document of JSON.

A scenario breaks what a plain schedule of kills does not: disks, clocks, versions, messages, single lines of code.
Progress goes to stderr and the document to stdout; the exit status is 0 where everything held, 1 where something did
not, 2 where the command line can't be followed.
"""

import argparse
import asyncio
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport, catalogue

from towpath_contracts.problems.input_faults import option_fault, tell_faults
from towpath_contracts.problems.registry import ProblemError, problem
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
from towpath_fabric.clock import monotonic


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--scenario",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="scenarios by name, or `all`: those that need no privileges",
    )
    parser.add_argument("--privileged", action="store_true", help="the scenarios that need root")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--long", action="store_true", help="the form whose figures the catalogue names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="keep the platforms below this folder")
    options = parser.parse_args(words)
    if options.list or not (options.scenario or options.privileged):
        print_document({"scenarios": _listed()})
        return HELD
    try:
        chosen = choose_scenarios(split_words(tuple(options.scenario)), privileged=options.privileged)
        return asyncio.run(_run(chosen, options))
    except ProblemError as error:
        return print_problem(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _listed() -> list[dict[str, Any]]:
    return [
        {"number": s.number, "name": s.name, "needs_privileges": s.needs_privileges, "summary": s.summary}
        for s in catalogue()
    ]


def choose_scenarios(names: Sequence[str], *, privileged: bool) -> tuple[Scenario, ...]:
    """`all` are those that need no privileges; `--privileged` alone are those that do, and with `all` everything.

    Raises ProblemError where a name is no scenario's.
    """
    found = catalogue()
    known = [scenario.name for scenario in found]
    unknown = [
        option_fault("--scenario", f"there is no scenario {name}; there are {known}", "invalid")
        for name in names
        if name not in (*known, "all")
    ]
    if unknown:
        raise ProblemError(problem("request_invalid", tell_faults(unknown), errors=tuple(unknown)))
    chosen = [scenario for scenario in found if scenario.name in names]
    if "all" in names:
        chosen += [scenario for scenario in found if not scenario.needs_privileges]
    if privileged:
        chosen += [scenario for scenario in found if scenario.needs_privileges]
    return tuple(dict.fromkeys(chosen))


async def _run(chosen: Sequence[Scenario], options: argparse.Namespace) -> int:
    """Run one scenario after the other, each in a folder of its own."""
    cancel_on_signals()
    reports: list[dict[str, Any]] = []
    for scenario in chosen:
        report_progress(f"{scenario.number} {scenario.name}: {scenario.summary}")
        began = monotonic()
        with work_folder(options.data, scenario.name) as folder:
            context = ScenarioContext(folder=folder, seed=options.seed, notice=report_progress, long=options.long)
            report = await _report(scenario, context)
        reports.append(
            {
                "number": scenario.number,
                "name": scenario.name,
                "outcome": report.outcome,
                "figures": dict(report.figures),
                "problems": [*report.problems],
                "reason": report.reason,
                "seconds": round(monotonic() - began, 1),
            }
        )
        report_progress(f"{scenario.name}: {report.outcome} {report.reason}".rstrip())
    print_document({"seed": options.seed, "versions": component_versions(), "scenarios": reports})
    return FAILED if any(report["outcome"] == "failed" for report in reports) else HELD


async def _report(scenario: Scenario, context: ScenarioContext) -> ScenarioReport:
    try:
        return await scenario.run(context)
    except Exception as error:  # noqa: BLE001 - the outermost loop: one that breaks must not hide the others
        traceback.print_exc()
        return ScenarioReport.of({}, [f"it broke: {type(error).__name__}: {error}"])


if __name__ == "__main__":
    sys.exit(main())
