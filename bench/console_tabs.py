"""What open pages of the console cost: workload W1 without, with and without 200 of them, in turns, on one platform.

120 runs are executed at once all the time: 60 of 10 steps in a row, as fast as they go, and 60 long ones, whose pages
are open and whose tool takes about a second, so that they grow little while it is measured. A process of its own holds
the tabs as browsers do: it gets each page, follows its stream, and connects again where that ends. 50 show the first
page, 50 the list of runs, 60 a run that is under way, 40 the approvals, for a number of people who share nothing.
Browsers close the stream of a tab that is not in view: with `--one-in-view` each person looks at one of their tabs at a
time, ten seconds each; otherwise all 200 are in view at once, on 200 screens.
Prints one JSON line. Usage:
`uv run python bench/console_tabs.py [--pairs 2] [--seconds 120] [--people 10] [--one-in-view] [--storm]`.
A shorter time than the two minutes after which a page is drawn again at the latest says too little.
With `--storm` the gateway is killed: how long answers take once it is back, without tabs and while all come back.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import nats

from harness import STEPS
from open_tabs import LOOKED_AT, OpenTabs, tabs_of
from processes import processor_seconds
from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, Client, network, script

LONG_RUNS, SHORT_RUNS, LONG_STEPS, WAITING_RUNS = LOOKED_AT["/runs/RUN"], 60, 990, 10
PURE, PACED, ASKED = "echo_pure", "echo_paced", "echo_idempotent"
SETTLE_S, TABS_SETTLE_S, WARM_UP_S = 3.0, 20.0, 200.0
POLICY = """kind: Policy
rules:
  - {name: asked, tool: echo_idempotent, effect: require_approval}
  - {name: rest, tool: "echo_*", effect: allow}
"""


def opened_tabs(platform: Platform, load: "Load", options: argparse.Namespace) -> OpenTabs:
    """Return the tabs that *options* tell of."""
    return OpenTabs(platform, tabs_of(load.long_runs, options.people), one_in_view=options.one_in_view)


class Load:
    """Keeps runs of W1 at work on *platform*, and counts their steps."""

    def __init__(self, platform: Platform, nc: Any, database: asyncpg.Connection) -> None:
        self._platform = platform
        self._nc = nc
        self._database = database
        self._client = Client(nc)
        self.tasks: list[asyncio.Task[Any]] = []
        self.long_runs: list[str] = []
        self.refused = 0

    async def begin(self) -> None:
        """Start everything."""
        for _ in range(LONG_RUNS):
            self.long_runs.append(await self._submit(PACED, LONG_STEPS))
        for _ in range(WAITING_RUNS):
            await self._submit(ASKED, 1)
        self.tasks = [asyncio.create_task(self._again()) for _ in range(SHORT_RUNS)]

    async def _submit(self, tool: str, steps: int) -> str:
        task = {"network": f"w1-{tool}", "user_message": "go", "script": script(steps, tool), "max_steps": steps + 1}
        reply = json.loads((await self._nc.request("task.submit", json.dumps(task).encode(), timeout=60)).data)
        return str(reply["run_id"])

    async def _again(self) -> None:
        while True:
            try:
                await self._client.run(PURE, STEPS)
            except SystemExit:  # a machine that has too much to do refuses some
                self.refused += 1
                await asyncio.sleep(1)

    async def steps(self) -> int:
        """Return how many steps were taken."""
        return int(await self._database.fetchval("SELECT sum(step) FROM runs.run"))

    async def measured(self, seconds: float) -> dict[str, float]:
        """Return steps a second, and the processor time of a second, by process."""
        before, steps, began = processor_seconds(os.getpid()), await self.steps(), time.perf_counter()
        await asyncio.sleep(seconds)
        took, steps = time.perf_counter() - began, await self.steps() - steps
        after = processor_seconds(os.getpid())
        used = {name: (after[name] - before.get(name, 0)) / took for name in after}
        return {"steps_per_s": steps / took} | {name: round(one, 3) for name, one in used.items()}


async def compared(options: argparse.Namespace, platform: Platform, load: Load) -> dict[str, Any]:
    """Measure without tabs, with them, and without them again, in turns."""
    pairs: list[dict[str, Any]] = []
    await asyncio.sleep(WARM_UP_S)  # the first steps on empty tables are the fastest
    before = await load.measured(options.seconds)
    for _ in range(options.pairs):
        found: dict[str, Any] = {}
        async with opened_tabs(platform, load, options) as tabs:
            await asyncio.sleep(TABS_SETTLE_S)
            await tabs.told("count")
            found["with"] = await load.measured(options.seconds)
            found["sent"] = await tabs.told("count")
        await asyncio.sleep(SETTLE_S)
        after = await load.measured(options.seconds)
        # Tables grow: what is between both stands beside their mean.
        found["without"] = {name: (before.get(name, 0.0) + after.get(name, 0.0)) / 2 for name in {*before, *after}}
        found["steps_per_s"] = [round(one["steps_per_s"], 1) for one in (before, found["with"], after)]
        before = after
        pairs.append(found)
        print(json.dumps(found), file=sys.stderr, flush=True)

    def middle(side: str, name: str) -> float:
        return statistics.median(pair[side][name] for pair in pairs)

    ratios = [pair["with"]["steps_per_s"] / pair["without"]["steps_per_s"] for pair in pairs]
    return {
        "tabs": sum(LOOKED_AT.values()),
        "tabs_live": min(pair["sent"]["live"] for pair in pairs),
        "refused_requests_of_the_load": load.refused,
        "people": options.people,
        "steps_per_s_without": round(middle("without", "steps_per_s"), 1),
        "steps_per_s_with": round(middle("with", "steps_per_s"), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(one, 3) for one in ratios],
        "before_with_after": [pair["steps_per_s"] for pair in pairs],
        "gateway_cpu_without": round(middle("without", "gateway"), 3),
        "gateway_cpu_with": round(middle("with", "gateway"), 3),
        "client_cpu_with": round(middle("with", "other"), 3),
        "redraws_sent_per_s": round(middle("sent", "drawn") / options.seconds, 1),
        "events_per_s": {
            kind: round(statistics.median(pair["sent"]["events"].get(kind, 0) for pair in pairs) / options.seconds, 1)
            for kind in ("overview", "runs", "run", "approvals")
        },
        "mbytes_per_s": round(middle("sent", "bytes") / options.seconds / 1e6, 2),
    }


async def storm(options: argparse.Namespace, platform: Platform, load: Load) -> dict[str, Any]:
    """Kill the gateway without tabs and with them: how long answers take in the seconds after it is back."""
    found: dict[str, Any] = {"without": await _killed(platform)}
    await asyncio.sleep(SETTLE_S)
    async with opened_tabs(platform, load, options) as tabs:
        await asyncio.sleep(SETTLE_S)
        platform_back = asyncio.create_task(_killed(platform))
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await tabs.told("wait")
        found["all_tabs_live_after_s"] = round(0.5 + time.perf_counter() - began, 1)
        found["with"] = await platform_back
    return found


async def _killed(platform: Platform, seconds: float = 8.0) -> dict[str, float]:
    """Kill the gateway; return how long it was away, and how long its answers took after that."""
    began = time.perf_counter()
    platform.kill("gateway")
    place = urlsplit(platform.gateway_url)
    head = platform.access.authorization().get("Authorization", "none")
    asked = f"GET /v1/runs?limit=1 HTTP/1.1\r\nHost: x\r\nAuthorization: {head}\r\nConnection: close\r\n\r\n".encode()

    async def answered() -> bool:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(asked)
        answer = await reader.read()
        writer.close()
        return b" 200 " in answer.partition(b"\r\n")[0]

    async def is_there(answer: Awaitable[bool]) -> bool:
        with contextlib.suppress(OSError):
            return await answer
        return False

    while not await is_there(answered()):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    away, took = time.perf_counter() - began, []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        at = time.perf_counter()
        await answered()
        took.append((time.perf_counter() - at) * 1000)
        await asyncio.sleep(0.05)
    took.sort()
    return {
        "away_s": round(away, 2),
        "answer_ms_p50": round(statistics.median(took), 1),
        "answer_ms_p95": round(took[int(len(took) * 0.95)], 1),
        "answer_ms_max": round(took[-1], 1),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform and the runs, measure, stop."""
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text(POLICY)
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), concurrency=64 + LONG_RUNS)],
        )
        async with platform:
            nc = await nats.connect(platform.nats_url)
            control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
            for tool in (PURE, PACED, ASKED):
                body = PublishNetwork(project="default", actor="bench", spec=network(tool)).model_dump_json()
                await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)
            await control.close()
            database = await asyncpg.connect(platform.dsn())
            load = Load(platform, nc, database)
            await load.begin()
            await asyncio.sleep(SETTLE_S)
            try:
                return await (storm if options.storm else compared)(options, platform, load)
            finally:
                for task in load.tasks:
                    task.cancel()
                await asyncio.wait(load.tasks, timeout=5)
                await database.close()
                await nc.close()


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--one-in-view", action="store_true")
    parser.add_argument("--storm", action="store_true")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options))))


if __name__ == "__main__":
    main()
