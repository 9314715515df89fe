"""Attacks by work: one message shall hold up what others ask for."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target

from towpath_fabric.clock import monotonic

LONGEST_S = 5.0
"""The service itself may be held up for a second; the rest is for machines that do something else."""


async def longest_answer(target: Target, attempt: Awaitable[Any]) -> float:
    """Ask for the policy of another project until *attempt* is over; return the seconds of the slowest answer."""
    doing, longest = asyncio.ensure_future(attempt), 0.0
    async with target.client(project="bystander") as client:
        while True:
            over, began = doing.done(), monotonic()
            answer = await client.get("/v1/policy")
            longest = max(longest, monotonic() - began)
            if answer.status_code >= 500:
                raise AttackWorkedError(f"another project was answered {answer.status_code} after {longest:.1f} s")
            if over:
                await doing
                return longest
            await asyncio.sleep(0.02)


@attack(Position.KEY_HOLDER)
async def many_values_and_a_long_task(target: Target) -> str:
    """Have the origin of 500 values looked up in a task of 90,000 characters while another project asks."""
    ids = [f"v{place}@x.example" for place in range(500)]
    async with target.client() as client:
        doing = target.run(client, [("desk.notify", {"ids": ids})], "a " * 45_000)
        longest = await longest_answer(target, doing)
    if longest > LONGEST_S:
        raise AttackWorkedError(f"another project waited {longest:.1f} s")
    return f"another project waited {longest:.2f} s at most"
