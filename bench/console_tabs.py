"""What open pages of the console cost: workload W1 without, with and without 200 of them, in turns, on one platform.

120 runs are executed at once all the time: 60 of 10 steps in a row, as fast as they go, and 60 long ones, whose pages
are open and whose tool takes about a second, so that they grow little while it is measured. A process of its own holds
the tabs as browsers do: it gets each page, follows its stream, and connects again where that ends. 50 show the first
page, 50 the list of runs, 60 a run that is under way, 40 the approvals, for a number of people who share nothing.
Prints one JSON line. Usage: `uv run python bench/console_tabs.py [--pairs 3] [--seconds 60] [--people 10] [--storm]`.
A shorter time than the minute after which a page is drawn again at the latest says too little.
With `--storm` the gateway is killed: how long answers take once it is back, without tabs and while all come back.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

import asyncpg
import nats

from harness import STEPS
from processes import processor_seconds
from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, Client, network, script

LOOKED_AT = {"/": 50, "/runs": 50, "/runs/RUN": 60, "/approvals": 40}
LONG_RUNS, SHORT_RUNS, LONG_STEPS, WAITING_RUNS = LOOKED_AT["/runs/RUN"], 60, 990, 10
PURE, PACED, ASKED = "echo_pure", "echo_paced", "echo_idempotent"
SETTLE_S, TABS_SETTLE_S, WARM_UP_S = 3.0, 20.0, 100.0
OPEN_S = 300.0
"""How long is waited for all tabs to be open; how many were is in the result (`live`)."""

POLICY = """kind: Policy
rules:
  - {name: asked, tool: echo_idempotent, effect: require_approval}
  - {name: rest, tool: "echo_*", effect: allow}
"""


LONGEST_S = 1_200.0
"""How long tabs are held at most, whoever may have forgotten them."""


class Tab(NamedTuple):
    """One open page: its path, and whose it is."""

    path: str
    person: int


class Tabs:
    """Open pages of *url*, which are opened with *authorization*: what they were sent, counted."""

    def __init__(self, url: str, authorization: str, tabs: Sequence[Tab]) -> None:
        self.place = urlsplit(url)
        self.authorization = authorization
        self.tabs = tabs
        self.events: Counter[str] = Counter()
        self.drawn: set[tuple[Tab, bytes]] = set()
        self.bytes = 0
        self.live = 0
        self.all_live = asyncio.Event()
        self._loads = asyncio.Semaphore(2)  # people open pages one after the other

    async def follow(self, tab: Tab) -> None:
        """Load the page, and follow it for ever."""
        found = None
        while found is None:
            with contextlib.suppress(OSError):
                async with self._loads:
                    page = await self._load(tab)
                if (found := re.search(rb"seen=(\w+)", page)) is None:
                    await asyncio.sleep(1)  # refused for now, or the run has ended
        seen, retry_s = found[1], 1.0
        while True:
            counted = False
            with contextlib.suppress(OSError):
                reader, writer = await self._ask(tab, f"/console/live?page={quote(tab.path)}", seen)
                try:
                    while part := await reader.read(1 << 18):
                        self.bytes += len(part)
                        if not counted:
                            counted = True
                            self._count(1)
                        if wait := re.search(rb"retry: (\d+)", part):
                            retry_s = int(wait[1]) / 1000
                        if ids := re.findall(rb"(?:^|\n)id: (\w+)", part):
                            seen = ids[-1]
                            self.events[kind_of(tab.path)] += len(ids)
                            self.drawn |= {(tab, one) for one in ids}
                finally:
                    writer.close()
            self._count(-counted)
            await asyncio.sleep(retry_s * random.uniform(0.7, 1.3))

    def _count(self, more: int) -> None:
        self.live += more
        if self.live == len(self.tabs):
            self.all_live.set()
        else:
            self.all_live.clear()

    async def _load(self, tab: Tab) -> bytes:
        reader, writer = await self._ask(tab, tab.path, None)
        page = await reader.read()
        writer.close()
        return page

    async def _ask(self, tab: Tab, path: str, seen: bytes | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.place.hostname, self.place.port, limit=1 << 20)
        last = f"Last-Event-ID: {seen.decode()}\r\n" if seen else "Connection: close\r\nAccept: text/html\r\n"
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {self.place.netloc}\r\nAuthorization: {self.authorization}\r\n"
            f"Cookie: person={tab.person}\r\n{last}\r\n".encode()
        )
        return reader, writer


def kind_of(path: str) -> str:
    """Name a page by what it shows."""
    return {"/": "overview", "/runs": "runs", "/approvals": "approvals"}.get(path, "run")


def tabs_of(run_ids: Sequence[str], people: int) -> list[Tab]:
    """Return all tabs, those of each kind in turns of *people*."""
    runs = iter(run_ids)
    paths = [path for path, number in LOOKED_AT.items() for _ in range(number)]
    paths = [path.replace("RUN", next(runs)) if "RUN" in path else path for path in paths]
    return [Tab(path, number % people) for number, path in enumerate(paths)]


async def hold_tabs() -> None:
    """Open the tabs that stdin tells of; each further line is answered with what was counted since the last."""
    told = json.loads(sys.stdin.readline())
    tabs = Tabs(told["url"], told["authorization"], [Tab(*one) for one in told["tabs"]])
    tasks = [asyncio.create_task(tabs.follow(tab)) for tab in tabs.tabs]
    asyncio.get_running_loop().call_later(LONGEST_S, os._exit, 1)
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if command == "wait":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tabs.all_live.wait(), OPEN_S)
        counted = {"events": dict(tabs.events), "drawn": len(tabs.drawn), "bytes": tabs.bytes, "live": tabs.live}
        tabs.events.clear()
        tabs.drawn.clear()
        tabs.bytes = 0
        print(json.dumps(counted), flush=True)
    for task in tasks:
        task.cancel()


class OpenTabs:
    """The process that holds the tabs, from here."""

    def __init__(self, platform: Platform, tabs: Sequence[Tab]) -> None:
        self._first = {
            "url": platform.gateway_url,
            "authorization": platform.access.authorization().get("Authorization", "none"),
            "tabs": tabs,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--hold-tabs", stdin=pipe, stdout=pipe
        )
        self._say(json.dumps(self._first))
        await self.told("wait")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        await self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def told(self, command: str) -> dict[str, Any]:
        """Return what was counted since the last time; with "wait" once all tabs are live."""
        assert self._process is not None and self._process.stdout is not None
        self._say(command)
        return json.loads(await self._process.stdout.readline())


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
        async with OpenTabs(platform, tabs_of(load.long_runs, options.people)) as tabs:
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
    async with OpenTabs(platform, tabs_of(load.long_runs, options.people)) as tabs:
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
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--storm", action="store_true")
    parser.add_argument("--hold-tabs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold_tabs:
        asyncio.run(hold_tabs())
    else:
        print(json.dumps(asyncio.run(measure(options))))


if __name__ == "__main__":
    main()
