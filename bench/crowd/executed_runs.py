"""Executes what is cloned: a short run, one that was approved, one that waits, and one with a long log."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import yaml

from w1 import network, script

WITHIN_S = 120
LONG_STEPS = 300
"""So many that the log has more than 2,000 events."""

ANSWER = {"message": "It was delivered on Monday."}
SHORT = [
    {
        "agent": "triage",
        "action": "ROUTE_TO_AGENT",
        "action_reasoning": "It is about a delivery.",
        "action_details": {"target_agent_name": "tech", "context": "The customer asks for a delivery."},
    },
    {
        "agent": "tech",
        "action": "RESPOND",
        "action_reasoning": "The day is known.",
        "action_details": {"payload": ANSWER},
    },
]


class Executed(NamedTuple):
    """The ids of the runs."""

    short: str
    approved: str
    waiting: str
    long: str


async def execute(api: httpx2.AsyncClient, sample: Path) -> Executed:
    """Publish the networks and execute a run of each sort."""
    for spec in (yaml.safe_load((sample / "network.yaml").read_text("utf-8")), network("echo_pure")):
        async with asyncio.timeout(WITHIN_S):
            while not (await api.post("/v1/networks", json={"spec": spec})).is_success:  # noqa: ASYNC110 - tools come
                await asyncio.sleep(0.2)
    long = await submit(api, "w1-echo_pure", "Echo", script(LONG_STEPS, "echo_pure"), max_steps=LONG_STEPS + 1)
    refund = json.loads((sample / "script.json").read_text("utf-8"))
    short = await submit(api, "support", "Where is order 8811?", SHORT)
    waiting, approved = [await submit(api, "support", "Refund order 8812", refund) for _ in range(2)]
    gate = await until(api, f"/v1/gates?status=pending&run_id={approved}", lambda found: bool(found["gates"]))
    decided = {"reason": "looked at it"}
    (await api.post(f"/v1/gates/{gate['gates'][0]['gate_id']}/approve", json=decided)).raise_for_status()
    await until(api, f"/v1/gates?status=pending&run_id={waiting}", lambda found: bool(found["gates"]))
    for run_id in (short, approved, long):
        await until(api, f"/v1/runs/{run_id}", lambda found: found["status"] == "completed")
    await asyncio.sleep(2)  # until the log-writer has written what there is
    return Executed(short, approved, waiting, long)


async def submit(api: httpx2.AsyncClient, network: str, words: str, script: list[Any], **options: int) -> str:
    """Submit a task and return the id of its run."""
    task = {"network": network, "user_message": words, "script": script, **options}
    return str((await api.post("/v1/runs", json=task)).raise_for_status().json()["run_id"])


async def until(api: httpx2.AsyncClient, path: str, is_so: Any) -> dict[str, Any]:
    """Return what is at *path* once it is so."""
    async with asyncio.timeout(WITHIN_S):
        while not is_so(found := (await api.get(path)).raise_for_status().json()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return dict(found)
