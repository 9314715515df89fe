"""Random tasks in the harness of `towpath.testing` and on a platform: both must write the same log.

`python -m tests.oracles.harness --tasks 300 [--seed 1]` starts a platform and runs each task on both: scripts over two
networks with rules that allow, ask and deny, tools that fail, routes, decisions that are none, and budgets. Events are
compared in their order and in every field, but for ids, times, who decided, and what is sent again.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

from towpath import Client
from towpath.networks.network import Agent, Network
from towpath.networks.spec_files import PolicyFile
from towpath.testing import NoGateError, harness, script
from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch

TOOLS_FILE = ROOT / "tests/support/worker/agreement_tools.py"
TOOLS = ("shop.look", "shop.put", "shop.pay", "shop.break")
POLICY = """
kind: Policy
rules:
  - {name: looks, tool: shop.look, effect: allow}
  - {name: no-gold, tool: shop.look, effect: deny, when: args.item == "gold"}
  - {name: puts, who: {agent: clerk}, tool: shop.put, effect: allow, max_calls_per_run: 2}
  - {name: small, who: {agent: clerk}, tool: shop.pay, effect: allow, when: args.amount <= 100}
  - {name: large, who: {agent: clerk}, tool: shop.pay, effect: require_approval, when: args.amount > 100}
  - {name: breaks, tool: shop.break, effect: allow}
"""
NETWORKS = (
    Network(
        "pair",
        [
            Agent("front", prompt="Hand over.", tools=["shop.look"], routes=["clerk"], default=True, can_respond=True),
            Agent("clerk", prompt="{tools} {tool_history}", tools=TOOLS, routes=["front"], can_respond=True),
        ],
        max_steps=9,
    ),
    Network("lone", [Agent("clerk", prompt="Do it.", tools=TOOLS, can_respond=True, default=True)], max_steps=4),
)
DIFFERENT = {
    *("at", "request_id", "execution_id", "gate_id", "approval_id", "effect_id", "run_id", "root_run_id", "trace_id"),
    *("duration_ms", "worker", "caller", "by", "deadline", "expires_at", "resend_at", "started_at", "closed_by"),
    *("snapshot_digest", "version", "policy_version", "thread_id", "idempotency_key", "fact_id", "single_person"),
}
"""Fields that name the platform, the time or a person; everything else must be equal."""

SENT_AGAIN = {"effect_resent"}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)")
DECIDED_S = 60.0
PERSON = "local"
"""Who decides on a platform of one person: reasons name who it was."""


class DifferentError(AssertionError):
    """The harness and the platform have written different logs of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task, and what the person at its gates says, gate by gate."""

    seed: int
    network: Network
    script: list[Any]
    verdicts: tuple[str, ...]
    options: dict[str, Any]


def task_of(seed: int) -> Task:
    """Draw a task."""
    chance = random.Random(seed)
    network = chance.choice(NETWORKS)
    entries = [_decision(chance, network) for _ in range(chance.randint(1, 7))]
    if chance.random() < 0.7:
        entries.append({"action": "RESPOND", "action_details": {"payload": {"message": f"done {seed}"}}})
    options: dict[str, Any] = {}
    if chance.random() < 0.2:
        options["budget"] = {"tool_calls": chance.randint(1, 2)}
    if chance.random() < 0.2:
        options["max_steps"] = chance.randint(1, 5)
    verdicts = tuple(chance.choice(("approve", "deny", "edit")) for _ in range(10))
    return Task(seed=seed, network=network, script=entries, verdicts=verdicts, options=options)


def _decision(chance: random.Random, network: Network) -> Any:
    draw = chance.random()
    if draw < 0.08:
        return chance.choice(("no JSON at all", {"action": "DANCE"}, {"action": "USE_TOOL", "action_details": {}}))
    if draw < 0.25:
        return {"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": chance.choice(("clerk", "front"))}}
    tool = chance.choice((*TOOLS, "shop.unknown"))
    args: dict[str, Any] = {"item": chance.choice(("salt", "gold", "tea"))}
    if tool == "shop.pay":
        args = {"to": "ann", "amount": chance.choice((5, 100, 101, 450, 700))}
    if chance.random() < 0.08:
        args = {"strange": True}
    return {"action": "USE_TOOL", "action_details": {"tool_name": tool, "tool_params": args}}


def normalised(entries: list[LogEntry]) -> list[Any]:
    """Return a log without what names a platform, a time or a person."""
    logged = [json.loads(entry.event.model_dump_json()) for entry in entries]
    for event in logged:
        if event.get("step") != 1:  # from then on a prompt shows outputs, with the ids of their calls
            event.pop("prompt_digest", None)
        if event.get("reserved"):  # by the length of all that, and of how long each call took
            del event["reserved"]["tokens"]
    return [_stripped(event) for event in logged if event["type"] not in SENT_AGAIN]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(one) for name, one in value.items() if name not in DIFFERENT}
    if isinstance(value, list):
        return [_stripped(one) for one in value]
    return _TIME.sub("TIME", _ID.sub("ID", value)) if isinstance(value, str) else value


async def in_harness(task: Task) -> list[Any]:
    """Run *task* in the harness; its policy is said to be from the file that the platform follows."""
    written = PolicyFile(text=POLICY, source="policy.yaml")
    network = {"network": task.network, "policy": written, "tools": [TOOLS_FILE], "model": script(task.script)}
    async with harness(**network) as h:
        run = await h.run(f"Do {task.seed}.", **task.options)
        ended = asyncio.create_task(run.result(DECIDED_S))
        for verdict in task.verdicts:
            opened = asyncio.create_task(h.next_gate(DECIDED_S))
            await asyncio.wait((ended, opened), return_when=asyncio.FIRST_COMPLETED)
            if not opened.done():
                opened.cancel()
                break
            if isinstance(opened.exception(), NoGateError):  # the run has ended
                break
            gate = opened.result()
            if gate.kind != "approval" or verdict == "deny":
                await gate.deny("no", by=PERSON)
            else:
                await gate.approve("yes", edit={"amount": 7} if verdict == "edit" else None, by=PERSON)
        return normalised(list((await ended).entries))


async def on_platform(client: Client, task: Task) -> list[Any]:
    """Run *task* on a platform."""
    accepted = await client.submit(task.network.name, f"Do {task.seed}.", script=task.script, **task.options)
    verdicts = iter(task.verdicts)
    settled: set[Any] = set()
    while (await client.get(accepted.run_id)).status not in FINAL_STATUSES:
        for gate in await client.gates.list(run_id=accepted.run_id):
            if gate.gate_id in settled:
                continue
            settled.add(gate.gate_id)
            verdict = next(verdicts)
            if gate.gate_type != "approval" or verdict == "deny":
                await client.gates.deny(gate.gate_id, "no")
            elif verdict == "edit":
                await client.gates.edit(gate.gate_id, {**gate.detail["args"], "amount": 7}, reason="yes")
            else:
                await client.gates.approve(gate.gate_id, reason="yes")
        await asyncio.sleep(0.02)
    return normalised([entry async for entry in client.events(accepted.run_id)])


@asynccontextmanager
async def shop_platform(folder: Path) -> AsyncIterator[Client]:
    """Give a client of a platform with the tools, the policy and the networks."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    platform = Platform(
        folder / "data",
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(policy), "TOWPATH_SINGLE_PERSON": "true"}},
        workers=[WorkerLaunch(modules=(str(TOOLS_FILE),))],
        durable=False,
        starts="fork",
    )
    async with platform, Client(platform.client_url) as client:
        for network in NETWORKS:
            await client.networks.publish(network)
        yield client


async def compare(client: Client, seed: int) -> Counter[str]:
    """Run the task of *seed* on both; returns the types of the events. Raises DifferentError."""
    task = task_of(seed)
    here = await in_harness(task)
    there = await on_platform(client, task)
    for place in range(max(len(here), len(there))):
        ours, theirs = here[place : place + 1], there[place : place + 1]
        if ours != theirs:
            msg = f"seed {seed}, event {place + 1}\nharness:  {ours}\nplatform: {theirs}\nscript: {task.script}"
            raise DifferentError(msg)
    return Counter(event["type"] for event in here)


async def _compare_all(first: int, tasks: int) -> int:
    failed, events = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        async with shop_platform(Path(folder)) as client:
            for seed in range(first, first + tasks):
                try:
                    events += await compare(client, seed)
                except DifferentError as error:
                    failed += 1
                    sys.stdout.write(f"{error}\n")
    sys.stdout.write(", ".join(f"{name} {count}" for name, count in sorted(events.items())) + "\n")
    sys.stdout.write(f"{tasks} tasks from seed {first}, {events.total()} equal events, {failed} differ\n")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(1 if asyncio.run(_compare_all(given.seed, given.tasks)) else 0)
