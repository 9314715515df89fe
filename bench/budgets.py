"""What budgets add to a step of W1: runs without one, with one of their own, and with every account there can be.

The three are measured side by side, in blocks that take turns, so that a noisy machine disturbs all of them alike:
`none` has no limit anywhere; `run` a budget of its own (one account); `tree` that and limits of its caller, of its
project, and of both for the day (five accounts, of which four are shared by all runs). `accounts_touched_without` is
how often `runs.budget` was read or written while ten runs without a limit ran, by pg_stat_user_tables.

`uv run python bench/budgets.py [--quick]` prints one JSON line, milliseconds.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import nats

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

sys.path.insert(0, str(Path(__file__).parent))
from processes import realtime
from w1 import HERE, Client, network, script

STATISTICS_S = 1.5
"""Postgres tells what was touched a second later."""

STEPS = 10
TOOL = "echo_pure"
OWN = {"tokens": 10**12, "model_calls": 10**9, "tool_calls": 10**9}
SHARED = [
    {"kind": kind, "name": name, "per_day": per_day}
    for kind, name in (("caller", "anonymous"), ("project", "default"))
    for per_day in (False, True)
]


class Spender(Client):
    """Submits with a budget, or without."""

    async def spend(self, budget: dict[str, int] | None) -> float:
        """Run once; returns the seconds from submit to the recorded end."""
        task: dict[str, Any] = {"network": f"w1-{TOOL}", "user_message": "go", "script": script(STEPS, TOOL)}
        task |= {"max_steps": STEPS + 1} | ({"budget": budget} if budget is not None else {})
        started = time.perf_counter()
        reply = json.loads((await self._nc.request("task.submit", json.dumps(task).encode(), timeout=60)).data)
        body = json.dumps({"run_id": reply["run_id"], "wait_ms": 30_000}).encode()
        while True:
            view = json.loads((await self._nc.request("task.get.anonymous", body, timeout=40)).data)
            if view.get("ended_at"):
                break
        if view["status"] != "completed":
            raise SystemExit(f"a run ended as {view['status']}: {view['final']}")
        return time.perf_counter() - started


async def limited(api: httpx2.AsyncClient, *, on: bool) -> None:
    """Set every shared limit, far above what is spent, or lift them all; returns once every replica knows."""
    for one in SHARED:
        answer = await api.post("/v1/budgets", json={**one, "budget": OWN if on else None, "reason": "bench"})
        if not answer.is_success:
            raise SystemExit(answer.text)
    await asyncio.sleep(0.6)


def figures(seconds: list[float]) -> dict[str, float]:
    """Return the time of a step: median, tail, least, in milliseconds."""
    ordered = sorted(one * 1000 / STEPS for one in seconds)
    named = {"p50": 0.5, "p95": 0.95}
    return {"least": round(ordered[0], 3)} | {
        name: round(ordered[int(len(ordered) * share)], 3) for name, share in named.items()
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform, measure, stop it."""
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), concurrency=64)],
        )
        async with platform, httpx2.AsyncClient(base_url=platform.client_url, timeout=30) as api:
            await asyncio.sleep(1)
            control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
            body = PublishNetwork(project="default", actor="bench", spec=network(TOOL)).model_dump_json()
            await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)
            await control.close()
            nc = await nats.connect(platform.nats_url)
            database = await asyncpg.connect(platform.dsn())
            try:
                return await blocks(Spender(nc), api, database, options)
            finally:
                await nc.close()
                await database.close()


async def blocks(
    client: Spender, api: httpx2.AsyncClient, database: "asyncpg.Connection[Any]", options: argparse.Namespace
) -> dict[str, Any]:
    """Take turns; then all of a kind at once."""
    for _ in range(5):
        await client.spend(None)
    favoured = options.realtime and realtime(on=True)
    seconds: dict[str, list[float]] = {"none": [], "run": [], "tree": []}
    await asyncio.sleep(STATISTICS_S)
    before = await touched(database)
    for _ in range(10):
        await client.spend(None)
    await asyncio.sleep(STATISTICS_S)
    untouched = await touched(database) - before
    for _ in range(2 if options.quick else 8):
        for _ in range(10):
            seconds["none"].append(await client.spend(None))
        for _ in range(10):
            seconds["run"].append(await client.spend(OWN))
        await limited(api, on=True)
        for _ in range(10):
            seconds["tree"].append(await client.spend(OWN))
        await limited(api, on=False)
    realtime(on=False)
    found: dict[str, Any] = {kind: figures(times) for kind, times in seconds.items()}
    for kind in ("run", "tree"):
        found[kind]["added_p50"] = round(found[kind]["p50"] - found["none"]["p50"], 3)
    many = 50 if options.quick else 200
    rates = {}
    for kind in seconds:
        if kind == "tree":
            await limited(api, on=True)
        started = time.perf_counter()
        await asyncio.gather(*(client.spend(None if kind == "none" else OWN) for _ in range(many)))
        rates[kind] = round(many * STEPS / (time.perf_counter() - started), 1)
    found |= {"steps_per_s": rates, "accounts_touched_without": untouched}
    return {"bench": "budgets", "realtime": favoured, **found}


async def touched(database: "asyncpg.Connection[Any]") -> int:
    """Return how often rows of accounts were read or changed so far."""
    return int(
        await database.fetchval(
            "SELECT seq_scan + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd FROM pg_stat_user_tables "
            "WHERE schemaname = 'runs' AND relname = 'budget'"
        )
    )


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
