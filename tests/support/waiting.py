"""Waiting on a predicate with a deadline, or on the broker, never on a sleep."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nats.aio.client import Client

Found = TypeVar("Found")


async def eventually(true: Callable[[], bool], *, within_s: float = 120) -> None:
    """Return when *true* says so; fail after *within_s*."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"did not become true within {within_s} s")


async def until(
    look: Callable[[], Awaitable[Found]], true: Callable[[Found], object], *, within_s: float = 120
) -> Found:
    """Return what *look* finds as soon as *true* holds of it; fail after *within_s*."""
    end = time.monotonic() + within_s
    while not true(found := await look()):
        assert time.monotonic() < end, f"after {within_s} s it is still {found}"
        await asyncio.sleep(0.05)
    return found


async def all_sent(client: Client) -> None:
    """Return once the broker knows all that *client* has said, above all its subscriptions.

    The PING of nats-py's `flush` is written before what is still pending, so its answer says nothing of a subscription
    made just before; that of a second one does.
    """
    await client.flush()
    await client.flush()
