"""How a system is measured on workload W1: the same for Towpath and for its peers. Standard library only.

A system gives a function that executes one run of so many steps and returns the seconds from its submission to its
recorded end. CPU is counted over all processes of a system, with that of the client, which submits and waits.
"""

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple

from processes import Memory, machine_seconds, processor_seconds, realtime

STEPS = 10
LENGTHS = (10, 50, 100, 500)
WARM_UP_RUNS = 5
PHASES = ("alone", "length", "together", "memory")
DEFAULT_PHASES = PHASES[:3]
MIB = 1024 * 1024

TimedRun = Callable[[int], Awaitable[float]]


class Sizes(NamedTuple):
    """How much is measured: runs one at a time, runs at once, and how often the latter."""

    alone: int = 60
    together: int = 200
    rounds: int = 3


FULL = Sizes()
QUICK = Sizes(alone=20, together=50, rounds=1)


async def alone(run: TimedRun, runs: int) -> dict[str, Any]:
    """One run at a time."""
    per_step = sorted([await run(STEPS) * 1000 / STEPS for _ in range(runs)])
    return {
        "runs": runs,
        "ms_per_step_p50": round(statistics.median(per_step), 3),
        "ms_per_step_p95": round(per_step[int(len(per_step) * 0.95)], 3),
        "ms_per_step_min": round(per_step[0], 3),
    }


async def length(run: TimedRun, repeats: int) -> dict[str, float]:
    """Longer runs: the cost of a step must not grow."""
    return {
        str(steps): round(statistics.median([await run(steps) * 1000 / steps for _ in range(repeats)]), 3)
        for steps in LENGTHS
    }


async def together(run: TimedRun, runs: int, rounds: int, *roots: int) -> dict[str, Any]:
    """Many runs at once; *roots* are the system's processes where they are not all below this one."""
    roots = roots or (os.getpid(),)
    steps = runs * STEPS
    rates, costs, without_client, foreign, shares = [], [], [], [], {}
    for _ in range(rounds):
        before, machine, started = processor_seconds(*roots), machine_seconds(), time.perf_counter()
        await asyncio.gather(*(run(STEPS) for _ in range(runs)))
        took, busy, after = time.perf_counter() - started, machine_seconds() - machine, processor_seconds(*roots)
        used = {name: after[name] - before.get(name, 0) for name in after}
        shares = {name: round(seconds * 1000 / steps, 3) for name, seconds in used.items()}
        rates.append(steps / took)
        costs.append(sum(used.values()) * 1000 / steps)
        without_client.append(costs[-1] - used["client"] * 1000 / steps)
        foreign.append(max(0.0, busy - sum(used.values())) / took / (os.cpu_count() or 1))
    return {
        "runs": runs,
        "steps_per_s": round(statistics.median(rates), 1),
        "steps_per_s_all": [round(rate, 1) for rate in rates],
        "cpu_ms_per_step": round(statistics.median(costs), 3),
        "cpu_ms_per_step_without_client": round(statistics.median(without_client), 3),
        "cpu_ms_per_step_by_process": shares,
        "cpu_share_of_others": round(max(foreign), 3),
    }


async def memory(run: TimedRun, runs: int, *roots: int) -> dict[str, Any]:
    """Many runs at once again, this time for their peak of memory: to look at it costs time, so this is not timed."""
    seen = Memory(*roots)
    watch = asyncio.create_task(seen.watch())
    await asyncio.gather(*(run(STEPS) for _ in range(runs)))
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    seen.sample()
    by_process = {name: round(used / MIB, 1) for name, used in seen.peak.items()}
    return {"runs": runs, "pss_mb": round(seen.peak_of_all / MIB, 1), "pss_mb_by_process": by_process}


async def phases(
    run: TimedRun, sizes: Sizes, wanted: Collection[str], *roots: int, favour: bool = True
) -> dict[str, Any]:
    """Measure the *wanted* phases after some runs that are not measured.

    With *favour* latencies are measured at real-time priority where the machine allows it: `realtime` says so.
    """
    await alone(run, WARM_UP_RUNS)
    found: dict[str, Any] = {"realtime": favour and realtime(*roots, on=True)}
    if "alone" in wanted:
        found["alone"] = await alone(run, sizes.alone)
    if "length" in wanted:
        found["length"] = await length(run, sizes.rounds)
    realtime(*roots, on=False)
    if "together" in wanted:
        found["together"] = await together(run, sizes.together, sizes.rounds, *roots)
    if "memory" in wanted:
        found["memory"] = await memory(run, sizes.together, *roots)
    return found
