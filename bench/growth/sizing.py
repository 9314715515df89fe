"""How many processes and servers so many runs a day take: arithmetic with unit costs that were measured. Pure.

    uv run python bench/growth/sizing.py [--runs 10000000] [--steps 10] [--peak 3] [--busy 0.5] [--days 30] [--disk 4]

Prints the table of docs/scaling-out.md. Costs of a step are those of docs/benchmarks.md (2 processors, AMD EPYC):
processor time from "A step among many" (`bench/step_profile.py`, 790 steps/s), bytes from "Length of a run"
(`bench/scale.py`).
"""

import argparse
import math
from collections.abc import Iterator

CPU_MS = {
    "orchestrator": 0.69,
    "decider": 0.30,
    "tas": 0.26,
    "worker": 0.24,
    "log_writer": 0.15,
    "watchdog": 0.07,
    "nats": 0.33,
    "postgres": 0.23,
}
"""Processor time of a step by process."""

STORED_BYTES = 7_961
"""Of a step, as rows; indexes and dead rows come on top."""

WAL_BYTES = 11_979
"""Written to Postgres's log for a step."""

SHARED_FACTOR = 10.82 / 4.61
"""What a step costs with two replicas of each on one database, beside one of each: `bench/scale.py`, "Replicas"."""

SECONDS = 86_400


def processes(cpu_ms: float, steps_s: float, busy: float) -> int:
    """Return how many processes of one thread that takes, each busy for the share *busy* of its processor."""
    return max(1, math.ceil(cpu_ms * steps_s / 1_000 / busy))


def sizing(*, runs: int, steps: int, peak: float, busy: float, days: int, disk_tb: float) -> Iterator[tuple[str, str]]:
    """Yield what so many *runs* a day take; *disk_tb* is what one Postgres server keeps, for so many *days*."""
    a_day = runs * steps
    at_peak = a_day / SECONDS * peak
    yield "steps a second, mean and peak", f"{a_day / SECONDS:,.0f} and {at_peak:,.0f}"
    for name, cpu_ms in CPU_MS.items():
        fewest, most = (processes(cost, at_peak, busy) for cost in (cpu_ms, cpu_ms * SHARED_FACTOR))
        yield f"{name}: processors", f"{fewest} to {most}"
    kept = a_day * STORED_BYTES * days / 1e12
    yield "rows a day", f"{a_day * STORED_BYTES / 1e9:,.0f} GB"
    yield f"rows of {days} days", f"{kept:,.1f} TB"
    yield "Postgres's log a day", f"{a_day * WAL_BYTES / 1e9:,.0f} GB"
    yield "Postgres's log at the peak", f"{at_peak * WAL_BYTES / 1e6:,.0f} MB/s"
    yield f"Postgres servers of {disk_tb:g} TB", f"{max(1, math.ceil(kept / disk_tb))}"


def table(*, runs: int, steps: int, peak: float, busy: float, days: int, disk_tb: float) -> str:
    """Return the table as Markdown."""
    rows = sizing(runs=runs, steps=steps, peak=peak, busy=busy, days=days, disk_tb=disk_tb)
    return "\n".join([f"| {runs:,} runs a day of {steps} steps | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--runs", type=int, default=10_000_000, help="runs a day")
    found.add_argument("--steps", type=int, default=10, help="steps of a run")
    found.add_argument("--peak", type=float, default=3.0, help="the busiest second beside the mean")
    found.add_argument("--busy", type=float, default=0.5, help="share of its processor that a process uses at the peak")
    found.add_argument("--days", type=int, default=30, help="how long rows are kept")
    found.add_argument("--disk", type=float, default=4.0, dest="disk_tb", help="TB that one Postgres server keeps")
    return found


if __name__ == "__main__":
    print(table(**vars(parser().parse_args())))
