"""A few places for work that many may ask for: each owner has a share of them, and waits behind its own work.

Who finds no place in time is refused: nobody waits for the answer any more. So is who finds too many of its owner's
requests waiting.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from towpath_contracts.problems.registry import ProblemError, problem


class WorkTurns:
    """*most* places, of which each owner has as many as *most_of* says; *full* is the code of the refusal.

    Of one owner *max_waiting* may wait, and any number where that is None.
    """

    def __init__(
        self,
        most: int,
        most_of: Callable[[str], int],
        wait_s: float,
        full: str = "overloaded",
        *,
        max_waiting: int | None = None,
    ) -> None:
        self._most_of = most_of
        self._max_waiting = max_waiting
        self._waiting: Counter[str] = Counter()
        self._wait_s = wait_s
        self._full = full
        self._room = asyncio.Semaphore(most)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, owner: str) -> AsyncIterator[None]:
        """Wait for a place and hold it meanwhile; raises ProblemError after `wait_s` seconds, or at once."""
        if self._max_waiting is not None and self._waiting[owner] >= self._max_waiting:
            raise self._refusal(f"{self._max_waiting} requests of {owner} wait already")
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = asyncio.Semaphore(self._most_of(owner))
        self._waiting[owner] += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._acquire(share)
        except TimeoutError as error:
            raise self._refusal(f"the work before this one was not done within {self._wait_s:g} s") from error
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner]
        try:
            yield
        finally:
            self._room.release()
            share.release()

    def _refusal(self, detail: str) -> ProblemError:
        return ProblemError(problem(self._full, detail, retry_after_s=1))

    async def _acquire(self, share: asyncio.Semaphore) -> None:
        await share.acquire()
        try:
            await self._room.acquire()
        except BaseException:
            share.release()
            raise
