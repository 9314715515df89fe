"""Workload W1 on the whole platform: a run is N steps, a step is one scripted decision and one `echo` call.

Everything is durable (Postgres with fsync on) and every process is a real one. Prints one JSON line. Usage:
`uv run python bench/w1.py [--quick] [--tools pure,idempotent,irreversible] [--replicas N] [--phases alone,together]`.
Phases: alone (one run at a time), length (10, 50, 100, 500 steps; pure only), together (200 runs at once),
memory (200 runs at once; only when it is asked for). bench/compare.py sets the figures beside those of other systems.
"""

import argparse
import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import nats

from harness import DEFAULT_PHASES, FULL, PHASES, QUICK, phases
from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from workload import decision

HERE = Path(__file__).parent
SCALED = ("orchestrator", "decider", "tas")


def script(steps: int, tool: str) -> list[dict[str, Any]]:
    """Decisions of ~300 bytes, each with other arguments, then the answer."""
    decisions = [decision(tool, n) for n in range(steps)]
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
                wanted = [phase for phase in options.phases if phase != "length" or tool == "pure"]
                results[tool] = await phases(
                    partial(client.run, name), QUICK if options.quick else FULL, wanted, favour=options.realtime
                )
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
    parser.add_argument("--phases", type=lambda text: text.split(","), default=DEFAULT_PHASES, help=", ".join(PHASES))
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    parser.add_argument("--log-writers", type=int, default=1)
    parser.add_argument("--hold", type=float, default=0)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
