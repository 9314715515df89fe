"""Answers of the health paths that cost the same however many ask: one making for all that wait, and requests in slots.

Nobody needs a key for these paths, so a service must have its time for its own work beside a flood of them. An answer
is never older than the request that it answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from towpath_fabric.clock import monotonic

T = TypeVar("T")

SLOT_S = 0.5
"""What comes on top of `ANSWERS_PER_SLOT` waits for the next slot: less than the second that probes wait."""

ANSWERS_PER_SLOT = 32
"""Far more than probes and scrapers ask for; a connection that wants more is answered twice a second."""


class SharedAnswer(Generic[T]):
    """What *make* returns, made at most once in *every_s* seconds, for all that asked before that."""

    def __init__(self, make: Callable[[], Awaitable[T]], every_s: float) -> None:
        self._make = make
        self._every_s = every_s
        self._next: asyncio.Future[T] | None = None
        self._began = -every_s

    async def get(self) -> T:
        """Return what the next making finds; raises what that raises."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._make_next())
        return await asyncio.shield(self._next)

    async def _make_next(self) -> T:
        await asyncio.sleep(max(0.0, self._began + self._every_s - monotonic()))
        self._next = None  # who asks from here on wants to know what is only known later
        self._began = monotonic()
        return await self._make()


class RequestSlots:
    """Lets a few requests through at once; more wait for the end of the slot, and go on together then."""

    def __init__(self, most: int = ANSWERS_PER_SLOT, slot_s: float = SLOT_S) -> None:
        self._most = most
        self._slot_s = slot_s
        self._slot = -1
        self._passed = 0

    async def wait(self) -> None:
        """Wait for the turn of one more request."""
        slot, part = divmod(monotonic(), self._slot_s)
        if slot != self._slot:
            self._slot, self._passed = int(slot), 0
        self._passed += 1
        if self._passed > self._most:
            await asyncio.sleep(self._slot_s - part)
