"""`python -m tests.chaos.launchers.skewed_clock towpath_worker ARGUMENTS`: runs a role under a wrong clock.

Only the time of day is moved, as on a machine whose clock is wrong; monotonic time stays. The offset in seconds is in a
file that is read for every look at the clock, so a clock can jump while the role runs.
"""

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Final

from tests.chaos.launchers.rebind import rebind

from towpath_fabric import clock

VARIABLE: Final = "TOWPATH_CHAOS_CLOCK"
"""The setting that names the file with the seconds by which the clock is ahead."""

NS: Final = 1_000_000_000


def move(place: Path) -> None:
    """Move this process's wall clock by the seconds that *place* holds whenever the clock is read."""
    true_ns = time.time_ns

    def moved_ns() -> int:
        return true_ns() + int(ahead_s(place) * NS)

    def moved_s() -> float:
        return moved_ns() / NS

    rebind({"time_ns": (true_ns, moved_ns), "time": (time.time, moved_s)})
    clock._source.wall_ns = moved_ns  # what every look at the wall clock asks


def ahead_s(place: Path) -> float:
    """Return the seconds in *place*; 0 while it is being written."""
    try:
        return float(place.read_text() or 0)
    except (OSError, ValueError):
        return 0.0


def main() -> None:
    """Move the clock, then be the role."""
    module = sys.argv[1]
    move(Path(os.environ[VARIABLE]))
    sys.argv = [module, *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
