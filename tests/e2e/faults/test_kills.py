"""Every part of the platform is killed while it holds work; nothing is lost and nothing happens twice."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import httpx2
import nats
import nats.errors
from tests.support.platform.broker_queues import unacknowledged_messages
from tests.support.platform.marked_runs import SLOTS, TOOLS, judged, platform_of, publish, quiet, script, submit

from towpath_embedded.platform import Platform

KILLS_EACH = 2
UNDER_WAY = 30
STREAMS = {
    "orchestrator": ("INBOX",),
    "decider": ("DECIDE",),
    "tas": ("TOOLREQ", "TOOLOUT"),
    "worker": ("TOOLEXEC",),
    "log_writer": ("EVENTS",),
}
ROLES = (*STREAMS, "gateway", "nats", "postgres")


class Waiting:
    """Clients that wait at the gateway for their runs; the work that a gateway holds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.open = 0
        self.run_ids: list[str] = []
        self.done = asyncio.Event()

    async def client(self, number: int) -> None:
        """Submit under a key and wait for the end; ask again when the gateway is gone."""
        async with httpx2.AsyncClient(base_url=self.url, verify=False, timeout=30) as client:
            turn = 0
            while not self.done.is_set():
                await self._one(client, f"wait-{number}-{turn}")
                turn += 1

    async def _one(self, client: httpx2.AsyncClient, key: str) -> None:
        body = {"network": "marks", "user_message": key, "script": script(6, TOOLS, hash(key) % 1000), "max_steps": 50}
        while True:
            self.open += 1
            try:
                answer = await client.post("/v1/runs", json=body, headers={"Idempotency-Key": key, "Prefer": "wait=5"})
            except httpx2.TransportError:
                await asyncio.sleep(0.2)
                continue
            finally:
                self.open -= 1
            if answer.status_code in (200, 202):
                self.run_ids.append(str(answer.json()["run_id"]))
                return
            assert answer.status_code == 503, answer.text
            await asyncio.sleep(0.2)


async def held(platform: Platform, role: str, waiting: Waiting) -> int:
    """How much unacknowledged work a role holds; NATS and Postgres hold everybody's."""
    if role == "gateway":
        return waiting.open
    try:
        pending = await unacknowledged_messages(platform)
    except (OSError, nats.errors.Error):
        return 0
    return sum(pending.get(name, 0) for name in STREAMS.get(role, tuple(pending)))


async def kill_under_load(platform: Platform, role: str, nth: int, waiting: Waiting, log: list[str]) -> None:
    """Kill a replica of *role* at a moment when the role holds work."""
    replicas = sorted(name for name in platform.processes if name.split("-")[0] == role)
    name = replicas[nth % len(replicas)]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        work = await held(platform, role, waiting)
        if work and platform.processes[name].pid:
            platform.kill(name)
            log.append(f"{name} killed with {work} unacknowledged")
            return
        await asyncio.sleep(0.005)
    log.append(f"{name} not killed: {role} held nothing")


async def keep_submitting(nc: Any, run_ids: list[str], done: asyncio.Event) -> None:
    """Start with the runs that shall be under way, then add more until the kills are over."""
    run_ids += await asyncio.gather(*(submit(nc, number, 12) for number in range(UNDER_WAY)))
    number = UNDER_WAY
    while not done.is_set():
        run_ids.append(await submit(nc, number, 12))
        number += 1
        await asyncio.sleep(0.1)


async def test_kills_lose_nothing_and_repeat_nothing(folder: Path) -> None:
    platform = platform_of(folder, replicas=2, workers=2)
    log: list[str] = []
    async with platform:
        await publish(platform)
        nc = await nats.connect(platform.nats_url, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
        run_ids: list[str] = []
        waiting = Waiting(platform.client_url)
        submitting = asyncio.create_task(keep_submitting(nc, run_ids, waiting.done))
        clients = [asyncio.create_task(waiting.client(n)) for n in range(4)]
        while len(run_ids) < UNDER_WAY:  # noqa: ASYNC110 - a level, not an edge
            await asyncio.sleep(0.05)
        plan = [(role, nth) for role in ROLES for nth in range(KILLS_EACH)]
        random.Random(7).shuffle(plan)
        for role, nth in plan:
            await kill_under_load(platform, role, nth, waiting, log)
            await asyncio.sleep(0.6)
        waiting.done.set()
        await asyncio.gather(submitting, *clients)
        await platform.wait_ready(60)
        run_ids += list(dict.fromkeys(waiting.run_ids))
        await quiet(platform, run_ids, 120)
        verdict = await judged(platform, folder / "effects.txt", run_ids)
        report = f"{verdict}\n" + "\n".join(log)
        assert verdict.clean, report
        assert not [line for line in log if "not killed" in line], report
        # Nobody answers here, so a run with an unknown call waits. A killed worker leaves at most a call per slot.
        assert set(verdict.waiting) <= {"unknown_effect"}, report
        assert verdict.completed + verdict.waiting.get("unknown_effect", 0) == len(run_ids), report
        assert {unknown.effect_class for unknown in verdict.unknown} <= {"irreversible"}, report
        assert len(verdict.unknown) <= KILLS_EACH * SLOTS, report
        await nc.close()
