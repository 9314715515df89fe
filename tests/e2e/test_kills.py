"""Every part of the platform is killed while it holds work; nothing is lost and nothing happens twice."""

import asyncio
import json
import random
import time
from pathlib import Path
from urllib.request import urlopen

import nats
from tests.support.checker import judge
from tests.support.marked_runs import platform_of, publish, quiet, submit

from towpath_embedded.platform import Platform

KILLS_EACH = 3
STREAMS = {
    "orchestrator": ("INBOX",),
    "decider": ("DECIDE",),
    "tas": ("TOOLREQ", "TOOLOUT"),
    "worker": ("TOOLEXEC",),
    "log_writer": ("EVENTS",),
}


def unacknowledged(platform: Platform) -> dict[str, int]:
    """Messages delivered and not acknowledged, by stream, as the broker itself counts them."""
    url = platform.describe()["nats_monitoring_url"] + "/jsz?consumers=true"
    found: dict[str, int] = {}
    body = json.loads(urlopen(url, timeout=2).read())
    for account in body.get("account_details", []):
        for stream in account.get("stream_detail", []):
            for consumer in stream.get("consumer_detail") or []:
                found[stream["name"]] = found.get(stream["name"], 0) + consumer.get("num_ack_pending", 0)
    return found


async def holds_work(platform: Platform, role: str) -> int:
    """How much unacknowledged work a role holds; NATS and Postgres hold everybody's."""
    try:
        pending = await asyncio.to_thread(unacknowledged, platform)
    except OSError:
        return 0
    return sum(pending.get(name, 0) for name in STREAMS.get(role, tuple(pending)))


async def kill_under_load(platform: Platform, name: str, log: list[str]) -> None:
    """Kill *name* at a moment when it holds work."""
    role = (
        name.split("-", maxsplit=1)[0].rstrip("0123456789").rstrip("_-")
        if name.startswith(("worker", "orch", "tas", "dec", "log"))
        else name
    )
    end = time.monotonic() + 20
    while time.monotonic() < end:
        held = await holds_work(platform, role)
        if held:
            platform.kill(name)
            log.append(f"{name} killed with {held} unacknowledged")
            return
        await asyncio.sleep(0.005)
    log.append(f"{name} not killed: it held nothing")


async def keep_submitting(nc: nats.aio.client.Client, count: int, run_ids: list[str], done: asyncio.Event) -> None:
    """Keep at least *count* runs under way until the kills are over."""
    number = 0
    while not done.is_set():
        run_ids.append(await submit(nc, number, 12))
        number += 1
        if number >= count:
            await asyncio.sleep(0.3)


async def test_kills_lose_nothing_and_repeat_nothing(folder: Path) -> None:
    platform = platform_of(folder, replicas=2, workers=2)
    log: list[str] = []
    async with platform:
        await publish(platform)
        nc = await nats.connect(platform.nats_url, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
        run_ids: list[str] = []
        done = asyncio.Event()
        submitting = asyncio.create_task(keep_submitting(nc, 50, run_ids, done))
        while len(run_ids) < 10:  # noqa: ASYNC110 - a level, not an edge
            await asyncio.sleep(0.05)
        victims = [name for name in platform.processes if not name.startswith("gateway")]
        plan = victims * KILLS_EACH
        random.Random(7).shuffle(plan)
        for name in plan:
            await kill_under_load(platform, name, log)
            await asyncio.sleep(0.5)
            await platform.wait_ready(60)
        done.set()
        await submitting
        statuses = await quiet(nc, run_ids, 150)
        await asyncio.sleep(6)
        verdict = await judge(platform.dsn(), folder / "effects.txt", run_ids)
        report = f"{statuses and ''}{verdict}\n" + "\n".join(log)
        assert verdict.clean, report
        assert not [line for line in log if "not killed" in line], report
        assert verdict.completed >= 0.95 * len(run_ids), report
        await nc.close()
