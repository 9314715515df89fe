"""What it costs to compose agents: stages that overlap, the start of a child run, a parallel step.

Everything is durable (Postgres with fsync on) and every process is a real one. Things that are compared are measured in
blocks that take turns, so that a noisy machine disturbs them alike; times are from submit to the recorded end.

- `overlap`: `(a | b | c) >> d` next to `a >> b >> c >> d`; each agent calls one tool that takes 200 ms, and answers.
- `spawn`: a plan of 12 agents, one after the other, that answer at once, next to one run in which the same 12 agents
  decide once each, handing over. The difference, divided by 12, is what a child run adds to a decision.
- `parallel`: a plan with one step of four agents, each of which calls a tool and answers (8 decisions, 4 calls), next
  to one run that makes the same four calls at once and answers (2 decisions, 4 calls), and one that makes them one
  after the other (5 decisions, 4 calls).

`wall_ms` are medians of one at a time. `cpu_ms` is the processor time of all processes (the client too) for each, with
many at once. `uv run python bench/compose.py [--quick]` prints one JSON line.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import nats

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

sys.path.insert(0, str(Path(__file__).parent))
from processes import processor_seconds, realtime
from w1 import HERE

POLICY = """
kind: Policy
rules:
  - {name: compose, tool: 'compose_*', effect: allow}
"""
TOOL_MS = 200
AGENTS = 12
WIDE = 4
NAMES = [f"a{n:02}" for n in range(AGENTS)]

Task = dict[str, Any]


def says(agent: str) -> dict[str, Any]:
    """Return the decision to answer."""
    return {"agent": agent, "action": "RESPOND", "action_reasoning": "r", "action_details": {"payload": "done"}}


def uses(agent: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the decision to make some calls at once."""
    made = [{"tool_name": tool, "tool_params": params} for tool, params in calls]
    return {"agent": agent, "action": "USE_TOOL", "action_reasoning": "r", "action_details": {"calls": made}}


def echo(n: int) -> tuple[str, dict[str, Any]]:
    """Return a call that takes no time; each has other arguments."""
    return "compose_echo", {"text": "x" * 120, "n": n}


def networks() -> list[dict[str, Any]]:
    """Return a network whose agents hand over in a row, and the two workflows."""
    row = [
        {
            "key": name,
            "is_default": name == NAMES[0],
            "allow_respond": True,
            "allowed_routes": NAMES[n + 1 : n + 2],
            "equipped_tools": ["compose_echo"],
            "prompt_template": "Go on.",
        }
        for n, name in enumerate(NAMES)
    ]
    four = [{"key": key, "equipped_tools": ["compose_wait"], "prompt_template": "Wait."} for key in "abcd"]
    flows = {"fan": "(a | b | c) >> d", "row": "a >> b >> c >> d"}
    return [
        {"name": "compose", "agents": row, "max_steps": 20},
        *({"name": name, "agents": four, "swarm": {"mode": "workflow", "flow": flow}} for name, flow in flows.items()),
    ]


def overlapping() -> dict[str, Task]:
    """Return a workflow with a parallel stage, and the same agents one after the other."""
    script = [
        entry for key in "abcd" for entry in (uses(key, ("compose_wait", {"who": key, "ms": TOOL_MS})), says(key))
    ]
    return {name: {"network": name, "user_message": "go", "script": script} for name in ("fan", "row")}


def spawning() -> dict[str, Task]:
    """Return a plan of agents that answer at once, and one run in which they hand over."""
    steps = [{"type": "agent", "agent": {"agent_key": name, "prompt": "go"}} for name in NAMES]
    plan = {"network": "compose", "plan": {"plan": {"steps": steps}}, "script": [says(name) for name in NAMES]}
    hand_over = [
        {
            "agent": name,
            "action": "ROUTE_TO_AGENT",
            "action_reasoning": "r",
            "action_details": {"target_agent_name": NAMES[n + 1]},
        }
        for n, name in enumerate(NAMES[:-1])
    ]
    run = {"network": "compose", "user_message": "go", "script": [*hand_over, says(NAMES[-1])]}
    return {"plan": plan, "run": run}


def paralleling() -> dict[str, Task]:
    """Return a parallel step, and the same calls in one run: at once, and one after the other."""
    wide = NAMES[:WIDE]
    calls = [{"agent_key": name, "prompt": "go"} for name in wide]
    step = {"type": "parallel", "parallel": {"steps": calls}}
    first = NAMES[0]
    scripts = {
        "calls_at_once": [uses(first, *(echo(n) for n in range(WIDE))), says(first)],
        "calls_in_a_row": [*(uses(first, echo(n)) for n in range(WIDE)), says(first)],
    }
    return {
        "plan_step": {
            "network": "compose",
            "plan": {"plan": {"steps": [step]}},
            "script": [entry for n, name in enumerate(wide) for entry in (uses(name, echo(n)), says(name))],
        },
        **{name: {"network": "compose", "user_message": "go", "script": script} for name, script in scripts.items()},
    }


async def took(nc: Any, task: Task) -> float:
    """Run one task; returns the milliseconds from its submit to its end. Whatever does not complete ends the bench."""
    started = time.perf_counter()
    accepted = json.loads((await nc.request("task.submit", json.dumps(task).encode(), timeout=60)).data)
    if "run_id" not in accepted:
        raise SystemExit(f"a task was refused: {accepted}")
    body = json.dumps({"run_id": accepted["run_id"], "wait_ms": 30_000}).encode()
    while True:
        view = json.loads((await nc.request("task.get.anonymous", body, timeout=40)).data)
        if view.get("ended_at"):
            break
    if view["status"] != "completed":
        raise SystemExit(f"a run ended as {view['status']}: {view['final']}")
    return (time.perf_counter() - started) * 1000


async def compare(nc: Any, tasks: dict[str, Task], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure tasks in turns, alone; then each with many at once, for their processor time."""
    walls: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        await asyncio.gather(*(took(nc, task) for _ in range(3)))  # not counted: everything is new to everybody
    favoured = options.realtime and realtime(on=True)
    for _ in range(options.blocks):
        for name, task in tasks.items():
            walls[name] += [await took(nc, task) for _ in range(options.runs)]
    realtime(on=False)
    cpu: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(options.repeats):
        for name, task in tasks.items():
            cpu[name].append(await processor_ms(nc, task, options.many))
    return {
        name: {
            "wall_ms_p50": round(statistics.median(times), 2),
            "wall_ms_p95": round(sorted(times)[int(len(times) * 0.95)], 2),
            "cpu_ms": round(statistics.median(cpu[name]), 2),
            "realtime": favoured,
        }
        for name, times in walls.items()
    }


async def processor_ms(nc: Any, task: Task, many: int) -> float:
    """Return what one of *many* runs at once costs, in milliseconds of all processes."""
    before = sum(processor_seconds(os.getpid()).values())
    await asyncio.gather(*(took(nc, task) for _ in range(many)))
    return (sum(processor_seconds(os.getpid()).values()) - before) * 1000 / many


def told(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Say what the figures mean, beside the figures."""
    fan, row = (found["overlap"][name]["wall_ms_p50"] for name in ("fan", "row"))
    plan, run = found["spawn"]["plan"], found["spawn"]["run"]
    wide, once, in_row = (found["parallel"][name] for name in ("plan_step", "calls_at_once", "calls_in_a_row"))
    return {
        "overlap": {
            **found["overlap"],
            "tools_ms_sum": 4 * TOOL_MS,
            "tools_ms_longest_path": 2 * TOOL_MS,
            "fan_over_row": round(fan / row, 3),
            "fan_beyond_its_tools_ms": round(fan - 2 * TOOL_MS, 1),
        },
        "spawn": {
            **found["spawn"],
            "added_wall_ms": round((plan["wall_ms_p50"] - run["wall_ms_p50"]) / AGENTS, 2),
            "added_cpu_ms": round((plan["cpu_ms"] - run["cpu_ms"]) / AGENTS, 2),
            "wall_ratio": round(plan["wall_ms_p50"] / run["wall_ms_p50"], 2),
            "cpu_ratio": round(plan["cpu_ms"] / run["cpu_ms"], 2),
        },
        "parallel": {
            **found["parallel"],
            "wall_over_calls_at_once": round(wide["wall_ms_p50"] / once["wall_ms_p50"], 2),
            "wall_over_calls_in_a_row": round(wide["wall_ms_p50"] / in_row["wall_ms_p50"], 2),
            "cpu_over_calls_at_once": round(wide["cpu_ms"] / once["cpu_ms"], 2),
            "cpu_over_calls_in_a_row": round(wide["cpu_ms"] / in_row["cpu_ms"], 2),
        },
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform, measure, stop it."""
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text(POLICY, "utf-8")
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "compose_tools.py"),), concurrency=64)],
        )
        async with platform:
            await asyncio.sleep(1)
            control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
            for one in networks():
                body = PublishNetwork(project="default", actor="bench", spec=one).model_dump_json()
                answer = json.loads(
                    (await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)).data
                )
                if "version" not in answer:
                    raise SystemExit(f"a network was refused: {answer}")
            await control.close()
            nc = await nats.connect(platform.nats_url)
            kinds = {"overlap": overlapping(), "spawn": spawning(), "parallel": paralleling()}
            load = os.getloadavg()[0]
            found = {name: await compare(nc, tasks, options) for name, tasks in kinds.items()}
            await nc.close()
    return {"bench": "compose", "load_before": round(load, 2), **told(found)}


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    options = parser.parse_args()
    options.blocks, options.runs, options.many, options.repeats = (2, 3, 10, 1) if options.quick else (6, 5, 40, 3)
    print(json.dumps(asyncio.run(measure(options))))


if __name__ == "__main__":
    main()
