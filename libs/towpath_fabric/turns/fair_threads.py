"""Runs what computes for long in threads, so that the loop goes on; projects take turns.

Of one project one computation runs at a time and a few wait, and few run in all: threads share one interpreter, so that
each one more slows the loop down. The threads are its own (`dedicated_threads.py`). What is handed in has to be bounded
by itself, since a thread can't be stopped. What has waited for longer than *max_wait_s* is not computed any more.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.turns.dedicated_threads import DedicatedThreads

Result = TypeVar("Result")

MAX_WAITING = 16
"""Computations of one project that may wait."""

RETRY_AFTER_S = 1


@dataclass(slots=True)
class _ProjectTurn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: int = 0


class FairThreads:
    """Threads that projects take turns at: each has at most one place in the line for them."""

    def __init__(
        self,
        at_once: int = 1,
        *,
        max_waiting: int = MAX_WAITING,
        max_wait_s: float = math.inf,
        name: str = "turns",
    ) -> None:
        """Let *at_once* projects compute, and *max_waiting* of one project wait, each for *max_wait_s* at most."""
        self._room = asyncio.Semaphore(at_once)
        self._threads = DedicatedThreads(at_once, name)
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._turns: dict[str, _ProjectTurn] = {}

    async def run(self, project: str, compute: Callable[[], Result]) -> Result:
        """Return what *compute* returns, in a turn of its own; raises as `turn`."""
        async with self.turn(project):
            return await self.compute(compute)

    @asynccontextmanager
    async def turn(self, project: str) -> AsyncIterator[None]:
        """Hold the turn of *project*, for what computes more than once; read as little as possible in between.

        Raises ProblemError `overloaded` where too many of *project* wait already, and where the turn comes too late.
        """
        turn = self._turns.setdefault(project, _ProjectTurn())
        if turn.inside > self._max_waiting:
            raise _overloaded(f"{self._max_waiting} requests of {project} that take long to be checked wait already")
        turn.inside += 1
        try:
            async with AsyncExitStack() as held:
                await self._wait(turn, held)
                yield
        finally:
            turn.inside -= 1
            if not turn.inside:
                del self._turns[project]

    async def _wait(self, turn: _ProjectTurn, held: AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(None if self._max_wait_s == math.inf else self._max_wait_s):
                await held.enter_async_context(turn.lock)
                await held.enter_async_context(self._room)
        except TimeoutError:
            detail = f"the turn of a request that takes long to be checked did not come in {self._max_wait_s:g} s"
            raise _overloaded(detail) from None

    async def compute(self, compute: Callable[[], Result]) -> Result:
        """Return what *compute* returns, within a turn.

        It runs to its end even where the caller is cancelled: the turn ends only when the thread does.
        """
        doing = asyncio.ensure_future(self._threads.run(compute))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.gather(doing, return_exceptions=True)
            raise


def _overloaded(detail: str) -> ProblemError:
    return ProblemError(problem("overloaded", detail, retry_after_s=RETRY_AFTER_S))
