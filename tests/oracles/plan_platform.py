"""Random plans and workflows as whole runs on an embedded platform: their agents play scripts, each one its own.

The order in which agents end is read from the log; all else must follow from it, as `plan_course` says.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from tests.oracles.plan_course import Course
from tests.oracles.plan_rules import Happened, calls_of
from tests.oracles.plan_runs import Trace
from tests.oracles.plan_shapes import SWARM, Case, a_case

from towpath.client.client import Client
from towpath.errors import RefusedError
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry
from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder

HANDS = tuple(f"w{number:03}" for number in range(50))
"""Agents of the network, as many as one may have."""

AT_ONCE = 6
RUN_S = 300.0


def hired(case: Case) -> Case:
    """Return *case* with an agent of its own for every call, so that each can be told how to end."""
    hands = iter(HANDS)
    case = deepcopy(case)
    if case.stages:
        names = sorted(name for stage in case.stages for name in stage)
        for_name = dict(zip(names, hands, strict=False))
        case.stages = [[for_name[name] for name in stage] for stage in case.stages]
        case.flow = " >> ".join(f"({' | '.join(stage)})" if len(stage) > 1 else stage[0] for stage in case.stages)
        return case
    for step in case.plan["steps"]:
        for _path, call in calls_of(step):
            call["agent_key"] = next(hands)
    return case


def script_of(case: Case, calls: dict[str, str]) -> list[dict[str, Any]]:
    """Return what everybody says; *calls* are the agents by the name of their call. Who fails has nothing to say."""
    dice = random.Random(case.seed)
    lines: list[dict[str, Any]] = []
    if case.by_prompt:
        plans = [*case.drafts, case.plan, case.plan][:2]
        lines += [{**plan, "kind": "compile_plan"} for plan in plans]
    for name, agent in calls.items():
        fate = case.fate(name)
        if fate.status == "completed":
            details = {"payload": fate.final}
            lines.append(
                {
                    "agent": agent,
                    "action": "RESPOND",
                    "action_reasoning": "as written",
                    "action_details": details,
                    "delay_ms": dice.randrange(150),
                }
            )
    return lines


def calls_by_name(steps: list[dict[str, Any]]) -> dict[str, str]:
    """Return the agent of every call by the name that the log has for it."""
    found = {}
    for step in steps:
        for place, (_path, call) in enumerate(calls_of(step)):
            found[f"{step['id']}[{place}]" if "parallel" in step else step["id"]] = call["agent_key"]
    return found


def agents_of(names: Iterable[str], default: str = "") -> list[dict[str, Any]]:
    """Return agents as a network lists them; a swarm says itself where it begins."""
    return [
        {"key": key, "allow_respond": True, "prompt_template": "Go.", "is_default": key == default} for key in names
    ]


async def carried_out(client: Client, case: Case, steps: list[dict[str, Any]]) -> list[LogEntry]:
    """Submit a case and return its log once it has ended."""
    script = script_of(case, calls_by_name(steps))
    more: dict[str, Any] = {"script": script or [{"agent": "nobody"}]}
    if case.stages:
        network = f"flow{case.seed}"
        members = [name for stage in case.stages for name in stage]
        swarm = {"mode": "workflow", "flow": case.flow}
        await client.networks.publish({"name": network, "agents": agents_of(members), "swarm": swarm})
    else:
        network = "hands"
        plan = {"prompt": "Plan it."} if case.by_prompt else {"plan": case.plan}
        limit = {} if case.max_parallel is None else {"max_parallel": case.max_parallel}
        more["plan"] = {**plan, **limit, "bindings": case.bindings}
    accepted = await client.submit(network, "What is new?", timeout_ms=case.run_ms, **more)
    await client.result(accepted.run_id, timeout=RUN_S)
    return [entry async for entry in client.events(accepted.run_id)]


def told(log: list[LogEntry]) -> tuple[Trace, list[tuple[str, str, Any, str, int]]]:
    """Return the trace of a log, and the ends of its agents in their order."""
    trace, ended = Trace(), []
    for entry in log:
        trace.observe(entry.event, entry.at)
        if isinstance(entry.event, ev.ChildEnded):
            event = entry.event
            ended.append((trace.names[event.child_id], event.status, event.final, event.reason, 0))
    return trace, ended


def without_asks(course: Course) -> Course:
    """Leave out what no log holds."""
    kept: list[Happened] = [one for one in course.trace if one[0] != "ask"]
    course.trace = kept
    return course


async def refused_paths(client: Client, case: Case) -> set[str]:
    """Return what the platform refuses a plan for; nothing where it takes it."""
    limit = {} if case.max_parallel is None else {"max_parallel": case.max_parallel}
    try:
        await client.submit("hands", "What is new?", plan={"plan": case.plan, **limit, "bindings": case.bindings})
    except RefusedError as refused:
        return {path_of(one.pointer.removeprefix("/plan/plan")) for one in refused.problem.errors}
    return set()


def path_of(pointer: str) -> str:
    """Return a JSON pointer as a path."""
    path = ""
    for part in pointer.split("/")[1:]:
        path += f"[{part}]" if part.isdecimal() else f".{part}" if path else part
    return path


async def compare_all(plans: int, seed: int, one: Any) -> Counter[str]:
    """Compare *plans* cases, several at once; *one* compares one. Raises what it raises."""
    seen: Counter[str] = Counter()
    with temporary_folder() as folder:
        platform = Platform(folder / "d", workers=[], durable=False, starts="fork")
        async with platform, Client(platform.client_url) as client, asyncio.TaskGroup() as group:
            await client.networks.publish({"name": "hands", "agents": agents_of(HANDS, HANDS[0])})
            room = asyncio.Semaphore(AT_ONCE)

            async def compared(number: int) -> None:
                async with room:
                    seen.update(await one(client, a_case(number, simple=True)))

            for number in range(seed, seed + plans):
                group.create_task(compared(number))
    return seen


def is_playable(case: Case) -> bool:
    """Say whether scripted agents can play the case: there are enough of them, and no nested swarm."""
    if case.stages:
        return all(SWARM not in stage for stage in case.stages)
    return sum(len(calls_of(step)) for step in case.plan["steps"]) <= len(HANDS)
