"""How cost grows: with replicas, with the length of a run, with runs that are queued, with runs that wait for a person.

Everything is durable (Postgres with fsync on), every process is a real one, and each phase has fresh servers (with
`--quick` the last three share theirs). Usage: `uv run python bench/scale.py [--quick] [--json FILE]
[--phases replicas,length,queued,parked] [--page docs/benchmarks.md]`. `--from FILE` measures nothing and shows what
`--json` has stored.

- `replicas`: 200 runs of 10 steps at once, with 1, 2 and 4 orchestrators, deciders, TAS and workers; conflicts are runs
  that another replica moved first, from the orchestrators' metrics.
- `length`: runs of 10, 100 and 1,000 steps, the last of which is the answer, one at a time. `first_*` and `last_*` are
  of the first and of the last tenth of the longest run. Stored are its rows in Postgres, without indexes and before
  compression; written is what Postgres wrote to its log (WAL) meanwhile.
- `queued`: runs of one call, submitted while no decider runs, with room for 50 at a time. Then the decider starts, and
  processor time is counted from the end of the 100th run to that of the 1,000th: with no more than these, and with
  10,000.
- `parked`: 1,000 runs whose call waits for a person's approval; a wake-up is the time from the approval to the end of
  its run, which still makes the call and one decision. The same with a few parked runs stands beside it.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx2

from compare import machine, say
from comparison.table import in_page
from growth.held_runs import measure_parked, measure_queued
from growth.length import measure_length
from growth.page import text
from growth.platform import FULL, PURE, QUICK, Found, Scene, Sizes, scene
from harness import STEPS, together
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_names import replica_names

CONFLICTS = {"conflicts": "towpath_seq_conflicts_total", "reloads": "towpath_state_reloads_total"}


async def counters(platform: Platform, replicas: int) -> Counter[str]:
    """Read what all orchestrators together have counted."""
    found: Counter[str] = Counter()
    async with httpx2.AsyncClient() as client:
        for name in replica_names("orchestrator", replicas):
            lines = (await client.get(f"{platform.health_url(name)}/metrics")).text.splitlines()
            values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            for counter, metric in CONFLICTS.items():
                found[counter] += int(float(values[metric]))
    return found


async def measure_replicas(sizes: Sizes) -> Found:
    """Measure many runs at once with more and more of each service."""
    found: Found = {}
    for replicas in sizes.replicas:
        say(f"replicas: {replicas} of each")
        async with scene(sizes, replicas) as at:
            await asyncio.gather(*(at.client.run(PURE, STEPS) for _ in range(sizes.together)))  # all of them warm
            before = await counters(at.platform, replicas)
            measured = await together(partial(at.client.run, PURE), sizes.together, sizes.rounds)
            counted = await counters(at.platform, replicas) - before
        thousands = sizes.together * STEPS * sizes.rounds / 1000
        found[str(replicas)] = {
            **measured,
            **{f"{name}_per_1000_steps": round(counted[name] / thousands, 2) for name in CONFLICTS},
        }
    return found


ALONE: dict[str, Callable[[Scene, Sizes], Awaitable[Found]]] = {
    "length": measure_length,
    "queued": measure_queued,
    "parked": measure_parked,
}
PHASES = ("replicas", *ALONE)


async def measure(options: argparse.Namespace) -> Found:
    """Measure the wanted phases one after the other."""
    sizes = QUICK if options.quick else FULL
    found = {"workload": "scale", "date": time.strftime("%Y-%m-%d"), "machine": machine(), "quick": options.quick}
    if "replicas" in options.phases:
        found["replicas"] = await measure_replicas(sizes)
    wanted = [name for name in ALONE if name in options.phases]
    for names in [wanted] if options.quick else [[name] for name in wanted]:
        async with scene(sizes, active=sizes.active) as at:
            for name in names:
                found[name] = await ALONE[name](at, sizes)
    return found


def phases_of(words: str) -> list[str]:
    """Read the names of phases; raise ValueError for one that there is not."""
    names = words.split(",")
    if unknown := [name for name in names if name not in PHASES]:
        raise argparse.ArgumentTypeError(f"there are no phases {', '.join(unknown)}; there are {', '.join(PHASES)}")
    return names


def main() -> None:
    """Measure or load, then print, store, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--phases", type=phases_of, default=PHASES, help=", ".join(PHASES))
    parser.add_argument("--json", type=Path, help="store what was measured")
    parser.add_argument("--page", type=Path, help="put the tables between the marks of a page")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, show what was stored")
    options = parser.parse_args()
    found = json.loads(options.source.read_text("utf-8")) if options.source else asyncio.run(measure(options))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(text(found))
    if options.page:
        options.page.write_text(in_page(options.page.read_text("utf-8"), text(found), "scale"), "utf-8")


if __name__ == "__main__":
    main()
