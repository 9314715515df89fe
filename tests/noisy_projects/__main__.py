"""`python -m tests.noisy_projects --runs 2000`: one project floods, another makes a run at a time; what does it notice?

Prints one line of JSON: the quiet project's seconds alone and among the flood, and how much of the flood ended while a
run of it was under way. Ends with 1 if a run of the quiet project saw more than a tenth of the flood's runs end.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.noisy_projects.flood import NOISY, QUIET, Load, TwoProjects, platform_of, quiet_runs_among

ALONE = 10
"""Runs that the quiet project makes before the flood; the first one, to which all is new, is not counted."""

MOST = 0.1
"""Part of the flood's runs that may end while one run of the quiet project is under way."""


async def measure(load: Load) -> dict[str, Any]:
    """Measure on a platform of their own."""
    with TemporaryDirectory() as name:
        async with platform_of(Path(name)) as platform:
            projects = await TwoProjects.set_up(platform)
            alone = []
            for number in range(ALONE + 1):
                alone.append(await projects.submit(QUIET, 2_000_000 + number))
                await projects.until_ended(QUIET, number + 1)
            before = await projects.meanwhile(alone[1:])
            began = time.monotonic()
            among = await quiet_runs_among(projects, load)
            await projects.until_ended(NOISY, load.runs)
            flood_s = time.monotonic() - began
            await projects.close()
    alone_s, among_s = ([row["seconds"] for row in rows] for rows in (before, among))
    return {
        "flood_runs": load.runs,
        "flood_calls": load.calls_in_all,
        "flood_s": round(flood_s, 1),
        "quiet_runs": load.quiet_runs,
        "alone_s_p50": round(statistics.median(alone_s), 3),
        "among_s_p50": round(statistics.median(among_s), 3),
        "among_s_max": round(max(among_s), 3),
        "times_as_long": round(statistics.median(among_s) / statistics.median(alone_s), 1),
        "flood_runs_ended_meanwhile_max": max(row["runs"] for row in among),
        "flood_calls_ended_meanwhile_max": max(row["calls"] for row in among),
    }


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.noisy_projects", description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000, help="runs that the noisy project submits at once")
    parser.add_argument("--calls", type=int, default=4, help="calls of each of their two steps, at the same time")
    parser.add_argument("--quiet-runs", type=int, default=20)
    options = parser.parse_args()
    load = Load(runs=options.runs, calls=options.calls, quiet_runs=options.quiet_runs)
    figures = asyncio.run(measure(load))
    sys.stdout.write(json.dumps(figures) + "\n")
    return int(figures["flood_runs_ended_meanwhile_max"] > MOST * load.runs)


if __name__ == "__main__":
    sys.exit(main())
