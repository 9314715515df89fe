"""Attacks by number: floods of small requests beside which others shall be served."""

import asyncio
import json
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from nats.aio.client import Client as NatsClient
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.availability import held_up
from tests.attacks.target import NETWORK, Target

from towpath_fabric.clock import monotonic

QUESTIONS = 40_000
"""Of one flood: one after the other they are work for a minute."""


async def submits_beside(target: Target, attempt: Awaitable[Any], at_least: int = 20) -> list[float]:
    """Submit tasks as the platform's owner until *attempt* is over; return the seconds that each submit took."""
    doing, found = asyncio.ensure_future(attempt), list[float]()
    task = {"network": NETWORK["name"], "user_message": "go", "script": [], "labels": {}}
    async with target.client() as client:
        while len(found) < at_least or not doing.done():
            began = monotonic()
            answer = await client.post("/v1/runs", json=task)
            found.append(monotonic() - began)
            if answer.status_code >= 300:
                raise AttackWorkedError(f"a submit was answered {answer.status_code}: {answer.text[:200]}")
    await doing
    return found


async def flood(connection: NatsClient, subject: str, body: bytes, count: int = QUESTIONS) -> None:
    """Publish *count* requests on *subject* as fast as the broker takes them; nobody reads the answers."""
    inbox = connection.new_inbox()
    for place in range(count):
        await connection.publish(subject, body, reply=f"{inbox}.{place}")
        if place % 500 == 0:
            await connection.flush()
    await connection.flush()


@attack(Position.NEIGHBOUR_PROCESS, keys=False, timed=True)
async def a_flood_of_questions_over_the_broker(target: Target) -> str:
    """Ask for runs, their events and their end over NATS, thousands of times at once, while the owner submits tasks."""
    body = json.dumps({"run_id": str(uuid4())}).encode()
    waits = json.dumps({"run_id": str(uuid4()), "wait_ms": 30_000}).encode()
    found: list[float] = []
    async with target.broker() as stranger:
        for verb, text in (("get", body), ("events", waits), ("cancel", body)):
            found += await submits_beside(target, flood(stranger, f"task.{verb}.anonymous", text))
    return held_up(max(found), "a submit of the owner took")


SCRAPERS = 400
SCRAPED_S = 4.0


@attack(Position.NEIGHBOUR_PROCESS, timed=True)
async def scrapes_without_end(target: Target) -> str:
    """Ask for the metrics and the readiness of the orchestrator on 400 connections while the owner submits tasks."""
    address = urlsplit(target.platform.health_url("orchestrator"))

    async def scrape(path: str) -> None:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
                try:
                    while True:
                        writer.write(request)
                        head = await reader.readuntil(b"\r\n\r\n")
                        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.2)

    async def flood_of_scrapes() -> None:
        doing = [asyncio.create_task(scrape(("/metrics", "/readyz")[place % 2])) for place in range(SCRAPERS)]
        await asyncio.sleep(SCRAPED_S)
        for task in doing:
            task.cancel()
        await asyncio.gather(*doing, return_exceptions=True)

    found = await submits_beside(target, flood_of_scrapes(), at_least=5)
    return held_up(max(found), "a submit of the owner took")
