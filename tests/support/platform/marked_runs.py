"""Runs of the marking tools on a whole platform: publish, submit many, wait for quiet."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client
from tests.support.places import ROOT

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.chaos.judge import JudgeReport, judge
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import LONGEST_PAUSE_S

TOOLS = ("mark.pure", "mark.idempotent", "mark.irreversible")
SLOTS = 8
"""Calls that one worker executes at a time."""
POLICY = "kind: Policy\nrules:\n  - {name: marks, tool: 'mark.*', effect: allow}\n"
NETWORK = {
    "name": "marks",
    "agents": [
        {
            "key": "a",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": list(TOOLS),
            "prompt_template": "Mark.",
        }
    ],
    "max_steps": 50,
    "timeout_ms": 600_000,
}


def platform_of(
    folder: Path,
    replicas: int,
    workers: int,
    *,
    environment: dict[str, str] | None = None,
    durable: bool = True,
    longest_pause_s: float = LONGEST_PAUSE_S,
    policy: str = POLICY,
) -> Platform:
    """A platform whose workers mark `effects.txt` in *folder*; *environment* is every role's."""
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(policy)
    tools = ROOT / "tests" / "support" / "worker" / "effect_tools.py"
    return Platform(
        folder / "d",
        replicas=dict.fromkeys(("orchestrator", "decider", "tas"), replicas),
        starts="fork",
        durable=durable,
        longest_pause_s=longest_pause_s,
        environment=environment,
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}},
        workers=[
            WorkerLaunch(
                modules=(str(tools),),
                count=workers,
                concurrency=SLOTS,
                environment={"TOWPATH_TEST_EFFECTS": str(folder / "effects.txt")},
            )
        ],
    )


def script(steps: int, tools: tuple[str, ...], seed: int, parallel: int = 1) -> list[dict[str, Any]]:
    """Each step *parallel* calls of random tools, then the answer."""
    chance = random.Random(seed)
    numbers = iter(range(steps * parallel))

    def calls() -> list[dict[str, Any]]:
        return [{"tool_name": chance.choice(tools), "tool_params": {"n": next(numbers)}} for _ in range(parallel)]

    decisions: list[dict[str, Any]] = [
        {"action": "USE_TOOL", "action_reasoning": "mark", "action_details": {"calls": calls()}} for _ in range(steps)
    ]
    return [*decisions, {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}]


async def publish(platform: Platform) -> None:
    """Publish the network, as soon as the workers' tools are known."""
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    body = PublishNetwork(project="default", actor="test", spec=NETWORK).model_dump_json().encode()
    try:
        for _ in range(600):
            reply = await gateway.request(rpc.PUBLISH_NETWORK.subject, body, timeout=60)
            if not (reply.headers and rpc.PROBLEM_HEADER in reply.headers):
                return
            await asyncio.sleep(0.1)
    finally:
        await gateway.close()
    raise AssertionError(reply.data.decode())


async def ask(nc: Client, subject: str, body: dict[str, Any], patience_s: float = 60) -> dict[str, Any]:
    """Ask until somebody takes the request: parts of the platform are being killed, and many ask at once."""
    end = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            answer = json.loads((await nc.request(subject, json.dumps(body).encode(), timeout=12)).data)
            if answer.get("code") not in {"unavailable", "overloaded"}:
                assert "code" not in answer, answer
                return answer
        except (TimeoutError, nats.errors.Error):
            answer = {}
        if asyncio.get_running_loop().time() > end:
            raise TimeoutError(f"{subject}: {answer}")
        await asyncio.sleep(0.2)


async def submit(nc: Client, number: int, steps: int, tools: tuple[str, ...] = TOOLS, parallel: int = 1) -> str:
    """Submit one run under a key, so that asking again is safe."""
    task = {
        "network": "marks",
        "user_message": f"run {number}",
        "script": script(steps, tools, number, parallel),
        "max_steps": 50,
        "idempotency_key": f"run-{number}",
    }
    answer = await ask(nc, "task.submit", task)
    return str(answer["run_id"])


async def judged(platform: Platform, effects: Path, run_ids: list[str], within_s: float = 60) -> JudgeReport:
    """Judge when a last stray effect would have shown; again while the log-writer is still telling what happened.

    What was lost, doubled or done twice stays so, however often one looks.
    """
    await asyncio.sleep(1)
    end = asyncio.get_running_loop().time() + within_s
    while not (verdict := await judge(platform.dsn(), effects, run_ids)).clean:
        if asyncio.get_running_loop().time() > end:
            break
        await asyncio.sleep(1)
    return verdict


async def quiet(platform: Platform, run_ids: list[str], patience_s: float) -> dict[str, str]:
    """Wait until every run, of whatever caller, has ended or waits for a person; returns the statuses."""
    end = asyncio.get_running_loop().time() + patience_s
    statuses: dict[str, str] = {}
    gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    try:
        while True:
            for run_id in run_ids:
                if statuses.get(run_id) not in ("completed", "failed", "cancelled", "timed_out"):
                    wanted = {"project": "default", "run_id": run_id}
                    statuses[run_id] = str((await ask(gateway, rpc.GET_RUN.subject, wanted)).get("status"))
            if all(status not in ("queued", "running") for status in statuses.values()):
                return statuses
            if asyncio.get_running_loop().time() > end:
                return statuses
            await asyncio.sleep(0.5)
    finally:
        await gateway.close()
