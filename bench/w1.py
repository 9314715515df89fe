"""Workload W1 on the whole platform: a run is N steps, a step is one scripted decision and one `echo` call.

Everything is durable (Postgres with fsync on) and every process is a real one. Prints one JSON line. Usage:
`uv run python bench/w1.py [--quick] [--tools pure,idempotent,irreversible] [--replicas N]`.
Phases: alone (one run at a time), together (200 runs at once), length (10, 50, 100, 500 steps).
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import nats

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

HERE = Path(__file__).parent
TICK = os.sysconf("SC_CLK_TCK")
SCALED = ("orchestrator", "decider", "tas")


def script(steps: int, tool: str) -> list[dict[str, Any]]:
    """Decisions of ~300 bytes, each with other arguments, then the answer."""
    decisions: list[dict[str, Any]] = [
        {
            "action": "USE_TOOL",
            "action_reasoning": "r" * 60,
            "action_details": {"tool_name": tool, "tool_params": {"text": "x" * 120, "n": n}},
        }
        for n in range(steps)
    ]
    return [*decisions, {"action": "RESPOND", "action_reasoning": "r", "action_details": {"payload": "done"}}]


def network(tool: str) -> dict[str, Any]:
    """One agent with one tool."""
    agent = {
        "key": "a",
        "is_default": True,
        "allow_respond": True,
        "equipped_tools": [tool],
        "prompt_template": "Echo.",
    }
    return {"name": f"w1-{tool}", "agents": [agent], "max_steps": 1000, "timeout_ms": 3_600_000}


def processor_seconds(root: int) -> dict[str, float]:
    """Processor time of every process below *root*, by its first words."""
    children: dict[int, list[int]] = {}
    used: dict[int, tuple[str, float]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        pid = int(folder.name)
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = (role_of(words), (int(fields[11]) + int(fields[12])) / TICK)
    total: dict[str, float] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        name, seconds = used.get(pid, ("gone", 0.0))
        name = "client" if pid == root else name
        total[name] = total.get(name, 0.0) + seconds
    return total


def tree(root: int) -> list[int]:
    """Every process below *root*, itself included."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit():
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def realtime(*, on: bool) -> bool:
    """Give every thread of the platform real-time priority, so that other users of the machine cost no wake-ups.

    The peers' harness measures latency the same way. False where the system does not allow it.
    """
    policy, priority = (os.SCHED_RR, os.sched_param(1)) if on else (os.SCHED_OTHER, os.sched_param(0))
    for pid in tree(os.getpid()):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                try:
                    os.sched_setscheduler(int(thread.name), policy, priority)
                except PermissionError:
                    return False
    return True


def role_of(words: str) -> str:
    """Name a process by its command line."""
    for role in ("orchestrator", "decider", "tas", "worker", "log_writer", "gateway"):
        if f"towpath_{role}" in words and "postgres" not in words:
            return role
    return "postgres" if "postgres" in words else "nats" if "nats" in words else "other"


class Client:
    """Submits over NATS and waits for the end of runs."""

    def __init__(self, nc: Any) -> None:
        self._nc = nc

    async def run(self, tool: str, steps: int) -> float:
        """Run once; returns the seconds from submit to the recorded end."""
        task = {"network": f"w1-{tool}", "user_message": "go", "script": script(steps, tool), "max_steps": steps + 1}
        started = time.perf_counter()
        reply = json.loads((await self._nc.request("task.submit", json.dumps(task).encode(), timeout=60)).data)
        if "code" in reply:
            raise SystemExit(f"a run was refused: {reply}")
        body = json.dumps({"run_id": reply["run_id"], "wait_ms": 30_000}).encode()
        while True:
            answer = await self._nc.request("task.get.anonymous", body, timeout=40)
            view = json.loads(answer.data)
            if "code" in view:
                raise SystemExit(f"a run could not be read: {view}")
            if view.get("ended_at"):
                break
        if view["status"] != "completed":
            raise SystemExit(f"a run ended as {view['status']}: {view['final']}")
        return time.perf_counter() - started


async def alone(client: Client, tool: str, runs: int) -> dict[str, Any]:
    """One run at a time."""
    per_step = [await client.run(tool, 10) * 100 for _ in range(runs)]
    per_step.sort()
    return {
        "runs": runs,
        "ms_per_step_p50": round(statistics.median(per_step), 3),
        "ms_per_step_p95": round(per_step[int(len(per_step) * 0.95)], 3),
        "ms_per_step_min": round(per_step[0], 3),
    }


async def together(client: Client, tool: str, runs: int, repeats: int) -> dict[str, Any]:
    """Many runs at once."""
    rates, costs, shares = [], [], {}
    for _ in range(repeats):
        before = processor_seconds(os.getpid())
        started = time.perf_counter()
        await asyncio.gather(*(client.run(tool, 10) for _ in range(runs)))
        took = time.perf_counter() - started
        after = processor_seconds(os.getpid())
        shares = {name: round((after[name] - before.get(name, 0)) * 1000 / (runs * 10), 3) for name in after}
        rates.append(runs * 10 / took)
        costs.append(sum(shares.values()))
    return {
        "runs": runs,
        "steps_per_s": round(statistics.median(rates), 1),
        "steps_per_s_all": [round(rate, 1) for rate in rates],
        "cpu_ms_per_step": round(statistics.median(costs), 3),
        "cpu_ms_per_step_by_process": shares,
    }


async def length(client: Client, tool: str, repeats: int) -> dict[str, float]:
    """Longer runs: the cost of a step must not grow."""
    return {
        str(steps): round(statistics.median([await client.run(tool, steps) * 1000 / steps for _ in range(repeats)]), 3)
        for steps in (10, 50, 100, 500)
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform, measure, stop it."""
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            replicas={**dict.fromkeys(SCALED, options.replicas), "log_writer": options.log_writers},
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), count=options.replicas, concurrency=64)],
        )
        async with platform:
            await asyncio.sleep(1)
            nc = await nats.connect(platform.nats_url)
            control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
            results: dict[str, Any] = {"workload": "W1", "replicas": options.replicas}
            for tool in options.tools.split(","):
                name = f"echo_{tool}"
                body = PublishNetwork(project="default", actor="bench", spec=network(name)).model_dump_json()
                await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)
                client = Client(nc)
                await alone(client, name, 5)
                favoured = options.realtime and realtime(on=True)
                found: dict[str, Any] = {"realtime": favoured}
                found["alone"] = await alone(client, name, 20 if options.quick else 60)
                if tool == "pure":
                    found["length"] = await length(client, name, 1 if options.quick else 3)
                realtime(on=False)
                found["together"] = await together(
                    client, name, 50 if options.quick else 200, 1 if options.quick else 3
                )
                results[tool] = found
            await nc.close()
            await control.close()
            if options.hold:
                print(json.dumps(results), flush=True)
                await asyncio.sleep(options.hold)
            return results


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tools", default="pure,idempotent,irreversible")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    parser.add_argument("--log-writers", type=int, default=1)
    parser.add_argument("--hold", type=float, default=0)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
