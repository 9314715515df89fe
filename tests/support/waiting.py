"""Waiting on a predicate with a deadline, never on a sleep."""

import asyncio
import time
from collections.abc import Callable


async def eventually(true: Callable[[], bool], *, within_s: float = 120) -> None:
    """Return when *true* says so; fail after *within_s*."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"did not become true within {within_s} s")
