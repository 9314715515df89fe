"""`towpath demo flood`: many runs at once on the demo's platform, and how long they took.

Decisions are played, so no model is asked: what is measured is the platform on this machine, with everything that it
checks, stores and records of a run of three steps and one call.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any
from uuid import uuid4

from towpath.cli.administration.embedded_platform import EmbeddedPlatform
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import RunView
from towpath_fabric.clock import monotonic

MODEL = "scripted:task"
DECISIONS: list[dict[str, Any]] = [
    {"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": "billing"}},
    {"action": "USE_TOOL", "action_details": {"tool_name": "orders.find", "tool_params": {"order_id": "8812"}}},
    {"action": "RESPOND", "action_details": {"payload": {"message": "It was delivered."}}},
]
MESSAGE = "Where is order 8812?"
LABEL = "flood"
"""Its value is this flood's own: the record of an earlier one may be kept in the same folder."""

AT_ONCE = 16
"""Submits that wait for their answer at the same time."""

PAGE = 200
FLOOD_POLL_S = 0.5
STANDSTILL_S = 60.0
"""For how long no run has to end before the demo gives up."""


async def run_flood(platform: EmbeddedPlatform, out: OutputPrinter, count: int) -> dict[str, Any]:
    """Submit *count* runs at once, wait until all have ended, and return what was measured."""
    out.write(f"\n  {count} runs of 3 steps and a call of orders.find, {AT_ONCE} submits at once:", "bold")
    flood = uuid4().hex
    async with Client(platform.url, api_key=platform.token) as client:
        began = monotonic()
        with out.progress("Submitting") as line:
            await _submit(client, flood, count, lambda done: line.count(done, "runs", of=count))
        submitted_s = monotonic() - began
        out.write(f"  all accepted after {submitted_s:.1f} s")
        with out.progress("Waiting for their ends") as line:
            runs = await _ended(client, flood, count, lambda ended: line.count(ended, "runs", of=count))
    result = summary(runs, submitted_s)
    _show(result, out)
    return result


async def _submit(client: Client, flood: str, count: int, tell: Callable[[int], None]) -> None:
    """Submit all; raises the error of the first that is refused."""
    room, done = asyncio.Semaphore(AT_ONCE), 0

    async def submit() -> None:
        nonlocal done
        async with room:
            await client.submit("support", MESSAGE, model=MODEL, script=DECISIONS, labels={LABEL: flood})
        done += 1
        tell(done)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(submit())
    except ExceptionGroup as refused:
        raise refused.exceptions[0] from None


async def _ended(client: Client, flood: str, count: int, tell: Callable[[int], None]) -> list[RunView]:
    """Return the runs once all have ended; ProblemError where none ends for a minute."""
    before, moved = -1, monotonic()
    while True:
        runs = await _runs(client, flood)
        ended = sum(run.status in FINAL_STATUSES for run in runs)
        if len(runs) == count == ended:
            return runs
        tell(ended)
        if ended != before:
            before, moved = ended, monotonic()
        elif monotonic() - moved > STANDSTILL_S:
            detail = f"{count - ended} of {count} runs go on, and none has ended for {STANDSTILL_S:.0f} s"
            raise ProblemError(problem("service_failed", detail))
        await asyncio.sleep(FLOOD_POLL_S)


async def _runs(client: Client, flood: str) -> list[RunView]:
    label = f"{LABEL}={flood}"
    page = await client.runs(label=label, limit=PAGE)
    found = list(page.runs)
    while page.next_before is not None:
        page = await client.runs(label=label, limit=PAGE, before=page.next_before)
        found += page.runs
    return found


def summary(runs: Sequence[RunView], submitted_s: float) -> dict[str, Any]:
    """Return how many of *runs* ended how, how many a second, and their seconds from their submit to their end."""
    seconds = [(run.ended_at - run.created_at).total_seconds() for run in runs if run.ended_at is not None]
    first, last = min(run.created_at for run in runs), max(run.ended_at or run.created_at for run in runs)
    took = max((last - first).total_seconds(), 0.001)
    cuts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 19
    return {
        "runs": len(runs),
        "statuses": dict(Counter(run.status for run in runs)),
        "submitted_s": round(submitted_s, 2),
        "took_s": round(took, 2),
        "runs_per_s": round(len(runs) / took, 1),
        "p50_s": round(cuts[9], 2),
        "p95_s": round(cuts[18], 2),
    }


def _show(result: dict[str, Any], out: OutputPrinter) -> None:
    statuses = ", ".join(f"{count} {status}" for status, count in result["statuses"].items())
    out.write(f"  {statuses} in {result['took_s']:.1f} s: {result['runs_per_s']:.1f} runs/s", "bold")
    out.write(f"  from submit to end: p50 {result['p50_s']:.2f} s, p95 {result['p95_s']:.2f} s")
