"""What the tool-access service adds to a step of W1: the time that a call's messages stay with it.

A call without it would go from the orchestrator to the worker and back. With it a request stays until its invocation is
sent (authorize: registry, schema, grants, matrix, ledger and audit committed, ticket signed) and an outcome until the
run is told (settle: ledger and audit committed). Both are read from its own histogram (`towpath_tas_stay_seconds`),
between two of whose marks a share is interpolated. A call that is not pure also asks before it starts; that shows in
`step`, the whole of a step from decision to decision, compared with `pure`.

`uv run python bench/tas_step.py [--quick] [--tools pure,idempotent,irreversible]` prints one JSON line, milliseconds.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import nats

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

sys.path.insert(0, str(Path(__file__).parent))
from processes import realtime
from w1 import HERE, Client, network

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
KINDS = {"request": "authorize", "outcome": "settle"}
MARK = re.compile(r'^towpath_tas_stay_seconds_bucket\{kind="(\w+)",le="([^"]+)"\} (\S+)', re.MULTILINE)

Marks = dict[str, dict[float, float]]


async def marks(platform: Platform) -> Marks:
    """Read the histogram: how many messages stayed no longer than each mark."""
    found: Marks = {kind: {} for kind in KINDS}
    async with httpx2.AsyncClient() as client:
        text = (await client.get(f"{platform.health_url('tas')}/metrics")).text
    for kind, most, count in MARK.findall(text):
        found[kind][float(most)] = float(count)
    return found


def stays(before: Mapping[float, float], after: Mapping[float, float]) -> dict[str, float]:
    """Return how long what came in between stayed, in milliseconds."""
    counts = {most: after[most] - before.get(most, 0.0) for most in sorted(after)}
    total = max(counts.values(), default=0.0)
    found: dict[str, float] = {"messages": total}
    for name, share in SHARES.items():
        low, below = 0.0, 0.0
        for most, count in counts.items():
            if count >= share * total > 0:
                width = 0.0 if most == float("inf") else most - low
                found[name] = round((low + width * (share * total - below) / max(count - below, 1)) * 1000, 3)
                break
            low, below = most, count
    return found


def figures(seconds: list[float]) -> dict[str, float]:
    """Return the median and the tail, in milliseconds."""
    ordered = sorted(seconds)
    return {name: round(ordered[int(len(ordered) * share)] * 1000, 3) for name, share in SHARES.items()}


def added(before: Marks, after: Marks) -> dict[str, Any]:
    """Return what was added between two readings: each part, and both together."""
    parts = {word: stays(before[kind], after[kind]) for kind, word in KINDS.items()}
    both = {name: round(sum(part.get(name, 0.0) for part in parts.values()), 3) for name in SHARES}
    return {**parts, "added": both}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform, measure each class alone and under load, stop it."""
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), concurrency=64)],
        )
        async with platform:
            await asyncio.sleep(1)
            nc = await nats.connect(platform.nats_url)
            found = {tool: await one_class(platform, Client(nc), tool, options) for tool in options.tools.split(",")}
            await nc.close()
            return {"bench": "tas_step", **found}


async def one_class(platform: Platform, client: Client, tool: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one effect class: one run at a time, then many at once."""
    name = f"echo_{tool}"
    control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    body = PublishNetwork(project="default", actor="bench", spec=network(name)).model_dump_json()
    await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)
    await control.close()
    for _ in range(5):
        await client.run(name, 10)
    favoured = options.realtime and realtime(on=True)
    first = await marks(platform)
    steps = [await client.run(name, 10) / 10 for _ in range(20 if options.quick else 100)]
    second = await marks(platform)
    realtime(on=False)
    await asyncio.gather(*(client.run(name, 10) for _ in range(50 if options.quick else 200)))
    third = await marks(platform)
    alone = {"step": figures(steps), **added(first, second)}
    return {"realtime": favoured, "alone": alone, "together": added(second, third)}


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tools", default="pure,idempotent,irreversible")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
