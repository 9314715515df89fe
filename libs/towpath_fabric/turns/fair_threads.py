"""Runs what computes for long in threads, so that the loop goes on; projects take turns.

Of one project one computation runs at a time and a few wait, and few run in all: threads share one interpreter, so that
each one more slows the loop down. What is handed in has to be bounded by itself, since a thread can't be stopped.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from towpath_contracts.problems.registry import ProblemError, problem

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

    def __init__(self, at_once: int = 1) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._turns: dict[str, _ProjectTurn] = {}

    async def run(self, project: str, compute: Callable[[], Result]) -> Result:
        """Return what *compute* returns; raises ProblemError `overloaded` where too many of *project* wait already."""
        turn = self._turns.setdefault(project, _ProjectTurn())
        if turn.inside > MAX_WAITING:
            detail = f"{MAX_WAITING} requests of {project} that take long to be checked wait already"
            raise ProblemError(problem("overloaded", detail, retry_after_s=RETRY_AFTER_S))
        turn.inside += 1
        try:
            async with turn.lock, self._room:
                return await _in_thread(compute)
        finally:
            turn.inside -= 1
            if not turn.inside:
                del self._turns[project]


async def _in_thread(compute: Callable[[], Result]) -> Result:
    """Run *compute* to its end even where the caller is cancelled: its turn ends only when the thread does."""
    doing = asyncio.ensure_future(asyncio.to_thread(compute))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.gather(doing, return_exceptions=True)
        raise
