"""Requests that a service takes with it when it is killed are answered by the one that follows it, and done once."""

import asyncio
import random
from pathlib import Path

import asyncpg
import httpx2
from tests.support.platform.marked_runs import platform_of, publish, script

from towpath import Client
from towpath_embedded.platform import Platform

KILLS = 8
KILL_WITHIN_S = 0.04
"""After a submit was begun: it is then on its way, in work, or just answered."""


def task(number: int) -> dict[str, object]:
    return {"network": "marks", "user_message": f"run {number}", "script": script(1, ("mark.pure",), number)}


async def over_http(url: str, number: int) -> str:
    """Submit without an idempotency key, which a lost answer would make two runs of; and list runs."""
    async with httpx2.AsyncClient(base_url=url, verify=False, timeout=30) as client:
        submitted, listed = await asyncio.gather(
            client.post("/v1/runs", json=task(number)), client.get("/v1/runs", params={"limit": 5})
        )
    assert listed.status_code == 200, listed.text
    assert submitted.status_code == 202, submitted.text
    assert "duplicate" not in submitted.json() or not submitted.json()["duplicate"]
    return str(submitted.json()["run_id"])


async def over_nats(client: Client, number: int) -> str:
    run = await client.submit(**task(number))
    return str(run.run_id)


async def stored_messages(platform: Platform) -> list[str]:
    connection = await asyncpg.connect(platform.dsn())
    try:
        rows = await connection.fetch("SELECT user_message FROM runs.run")
    finally:
        await connection.close()
    return sorted(row["user_message"] for row in rows)


async def test_submits_in_flight_at_the_death_of_the_orchestrator_are_answered_and_are_one_run_each(
    folder: Path,
) -> None:
    chance = random.Random(5)
    run_ids: list[str] = []
    platform = platform_of(folder, replicas=1, workers=1, longest_pause_s=0.2)
    async with platform, Client(platform.nats_url) as client:
        await publish(platform)
        for kill in range(KILLS):
            first = kill * 8
            asked = [
                *(asyncio.create_task(over_http(platform.client_url, first + n)) for n in range(4)),
                *(asyncio.create_task(over_nats(client, first + 4 + n)) for n in range(4)),
            ]
            await asyncio.sleep(chance.random() * KILL_WITHIN_S)
            platform.kill("orchestrator")
            run_ids += await asyncio.gather(*asked)
            await platform.wait_ready(60)
        assert len(set(run_ids)) == KILLS * 8
        assert await stored_messages(platform) == sorted(f"run {number}" for number in range(KILLS * 8))
