"""A few places for work that many may ask for: each owner has a share of them, and waits behind its own work.

Who finds no place in time is refused: nobody waits for the answer any more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from towpath_contracts.problems.registry import ProblemError, problem


class WorkTurns:
    """*most* places, of which each owner has as many as *most_of* says; *full* is the code of the refusal."""

    def __init__(self, most: int, most_of: Callable[[str], int], wait_s: float, full: str = "overloaded") -> None:
        self._most_of = most_of
        self._wait_s = wait_s
        self._full = full
        self._room = asyncio.Semaphore(most)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, owner: str) -> AsyncIterator[None]:
        """Wait for a place and hold it meanwhile; raises ProblemError after `wait_s` seconds."""
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = asyncio.Semaphore(self._most_of(owner))
        try:
            async with asyncio.timeout(self._wait_s):
                await self._acquire(share)
        except TimeoutError as error:
            detail = f"the work before this one was not done within {self._wait_s:g} s"
            raise ProblemError(problem(self._full, detail, retry_after_s=1)) from error
        try:
            yield
        finally:
            self._room.release()
            share.release()

    async def _acquire(self, share: asyncio.Semaphore) -> None:
        await share.acquire()
        try:
            await self._room.acquire()
        except BaseException:
            share.release()
            raise
