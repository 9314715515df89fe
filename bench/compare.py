"""Towpath and its peers on workload W1, alternately in one queue: one table, the ratios, and a chart.

`uv run python bench/compare.py [--quick] [--repeat 3] [--peers postgres,restate,langgraph,dbos] [--json FILE]
[--svg docs/benchmarks.svg] [--page docs/benchmarks.md]`. Every round measures each system once, in the same order
(A B C A B C …), each with fresh servers, so that a machine that gets slower meets all of them. docs/benchmarks.md says
what the figures mean. `--from FILE` measures nothing and shows what `--json` has stored.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

from comparison.chart import svg
from comparison.environments import Environment, NotInstalledError, cache_folder, install
from comparison.figures import Comparison, Figures, figures_of
from comparison.measurement import Manner, Measured, MeasurementError, measure_peer, measure_towpath
from comparison.systems import PEERS, TITLES, TOWPATH
from comparison.table import in_page, text
from harness import FULL, QUICK

Measurements = dict[str, dict[int, Measured]]


def machine() -> str:
    """Name the processors, the memory and the kernel."""
    named = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    processor = named[1] if named else platform.machine()
    return f"{processor}, {os.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}"


def say(line: str) -> None:
    """Tell people how far it is; the result alone goes to standard output."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def installed(names: list[str], cache: Path, missing: dict[str, str]) -> dict[str, Environment]:
    """Install the peers; those that can't be are added to *missing* with the reason."""
    environments = {}
    for name in names:
        say(f"installing {TITLES[name]}")
        try:
            environments[name] = install(name, PEERS[name], cache)
        except NotInstalledError as error:
            missing[name] = f"could not be installed: {error}"
            say(f"{TITLES[name]} {missing[name]}")
    return environments


async def measure(
    environments: dict[str, Environment], missing: dict[str, str], *, repeat: int, manner: Manner
) -> Measurements:
    """Measure every system once a round; one that fails is added to *missing* and left out from then on."""
    found: Measurements = {}
    queue = [*TOWPATH, *environments]
    for number in range(1, repeat + 1):
        for system in [name for name in queue if name not in missing]:
            say(f"round {number} of {repeat}: {TITLES[system]}")
            try:
                measured = await (
                    measure_towpath(system, manner)
                    if system in TOWPATH
                    else measure_peer(system, environments[system], manner)
                )
            except MeasurementError as error:
                missing[system] = f"failed in round {number}: {error}"
                say(f"{TITLES[system]} {missing[system]}")
            else:
                found.setdefault(system, {})[number] = measured
    return found


def compared(measurements: Measurements, missing: dict[str, str], *, quick: bool) -> Comparison:
    """Read the figures out of all measurements."""
    every = [measured for rounds in measurements.values() for measured in rounds.values()]
    rounds: dict[str, dict[int, Figures]] = {
        system: {number: figures_of(system, measured) for number, measured in found.items()}
        for system, found in measurements.items()
    }
    return Comparison(
        date=time.strftime("%Y-%m-%d"),
        machine=machine(),
        quick=quick,
        runs_together=(QUICK if quick else FULL).together,
        rounds=rounds,
        missing=missing,
        versions={name: next(iter(measurements[name].values()))["versions"] for name in measurements if name in PEERS},
        cpu_share_of_others=max((measured["together"]["cpu_share_of_others"] for measured in every), default=0.0),
        realtime=all(measured["realtime"] for measured in every),
    )


def stored(path: Path) -> Comparison:
    """Read what `--json` has stored."""
    values: dict[str, Any] = json.loads(path.read_text("utf-8"))["comparison"]
    numbered = {name: {int(number): row for number, row in found.items()} for name, found in values["rounds"].items()}
    return Comparison(**{**values, "rounds": numbered})


def options() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false", help="ordinary priority for runs alone")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where the peers are installed")
    parser.add_argument("--json", type=Path, help="store everything that was measured")
    parser.add_argument("--svg", type=Path, help="draw the chart")
    parser.add_argument("--page", type=Path, help="put the tables between the marks of a page")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, show a stored comparison")
    given = parser.parse_args()
    given.peers = [name for name in given.peers.split(",") if name]
    if unknown := [name for name in given.peers if name not in PEERS]:
        parser.error(f"there are no peers {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return given


def main() -> None:
    """Measure or load, then print, draw and store."""
    given = options()
    if given.source:
        comparison = stored(given.source)
    else:
        missing: dict[str, str] = {}
        manner = Manner(quick=given.quick, realtime=given.realtime)
        environments = installed(given.peers, given.cache, missing)
        measurements = asyncio.run(measure(environments, missing, repeat=given.repeat, manner=manner))
        comparison = compared(measurements, missing, quick=given.quick)
        if given.json:
            everything = {"comparison": dataclasses.asdict(comparison), "measurements": measurements}
            given.json.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")
    print(text(comparison))
    if given.svg:
        given.svg.write_text(svg(comparison), "utf-8")
    if given.page:
        given.page.write_text(in_page(given.page.read_text("utf-8"), text(comparison)), "utf-8")


if __name__ == "__main__":
    main()
