"""Attacks by many messages: what one worker sends of its own may hold up nobody's calls."""

import asyncio
import json
import uuid
from collections.abc import Callable

import nats
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.corpus.availability import held_up
from tests.attacks.corpus.workers import CREDENTIAL
from tests.attacks.target import Target

from towpath_contracts import rpc, subjects
from towpath_fabric.clock import monotonic

FLOOD = 6_000
REGISTER = subjects.for_toolset(rpc.REGISTER_TOOLS.subject, "default", "desk")


def _unreadable() -> bytes:
    return b"{}"


def _of_no_call() -> bytes:
    named = {"execution_id": str(uuid.uuid4()), "run_id": str(uuid.uuid4()), "attempt": 1}
    return json.dumps({**named, "tool": "x", "status": "succeeded", "ticket": "a.b", "worker": "w"}).encode()


@attack(Position.WORKER)
async def outcomes_without_end(target: Target) -> str:
    """Send thousands of outcomes that are none, or of no call, in front of the outcome that a run waits for."""
    longest = 0.0
    for make in (_unreadable, _of_no_call):
        longest = max(longest, await _run_behind(target, make))
    return held_up(longest, "a run behind them took")


async def _run_behind(target: Target, make: Callable[[], bytes]) -> float:
    """Send FLOOD outcomes, and return how long a run with one call took meanwhile."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    try:
        for _ in range(FLOOD):
            await worker.publish(subjects.TOOL_OUTCOME, make())
        await worker.flush()
        began = monotonic()
        async with target.client() as client, asyncio.timeout(60):
            await target.run(client, [("desk.label", {"ids": ["m-1"]})], "Label it.")
        return monotonic() - began
    finally:
        await worker.close()


REGISTRATIONS, TOOLS = 12, 13
"""More than one project may have: each registration has about 0.86 MB."""


@attack(Position.WORKER)
async def tools_without_end(target: Target) -> str:
    """Register ever more tools with long definitions, which the service has to keep and to read."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    made, longest = uuid.uuid4().hex[:8], 0.0
    try:
        for number in range(REGISTRATIONS):
            names = [f"desk.long-{made}-{number}-{place}" for place in range(TOOLS)]
            long = {"effect_class": "irreversible", "system_params": ["s" * 66_000]}
            tools = [{"name": name, "toolset": "desk", **long} for name in names]
            body = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o", "tools": tools}
            began = monotonic()
            answer = await worker.request(REGISTER, json.dumps(body).encode(), timeout=30)
            longest = max(longest, monotonic() - began)
            if json.loads(answer.data).get("code") == "project_tools_full":
                return f"refused after {number * TOOLS} tools; a registration took {longest:.2f} s at most"
    finally:
        await worker.close()
        async with target.database() as database:
            taken_out = "UPDATE tas.tool SET withdrawn = true WHERE starts_with(name, $1)"
            await database.execute(taken_out, f"desk.long-{made}-")
    raise AttackWorkedError(f"{REGISTRATIONS * TOOLS} long tools are registered")
