"""How fast event streams read the log: however many there are, they ask little of the platform at once.

A stream learns of events from the bus, and looks at the log when it begins, when something is missing, and now and
then because the bus may lose a message. What one key's streams want to read waits for that key's own turns, so that a
thousand streams of one key don't stand before the first page of another's.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.adapters.platform_client import CHECK_S
from towpath_gateway.core.api_keys import Principal

PAGES_PER_KEY = 16
"""Pages that the streams of one key read at once."""

OPEN_WAIT_S = 10.0
"""How long a new stream waits for its turn to read its first page: less than what clients wait for a first byte."""

LOOKS_PER_S = 50
"""Looks that streams take in a second while nothing happens: with more of them each waits longer. The stream of a tree
looks at the log of every run of it that has not ended, so trees may make it many times as many."""


class PageTurns:
    """What the streams of one key share: whose turn it is to read a page, and how long to wait between two looks."""

    def __init__(self, pace: "StreamPace") -> None:
        self.turn = asyncio.Semaphore(PAGES_PER_KEY)
        self._pace = pace

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Wait for the turn of a new stream, and hold it meanwhile.

        Raises ProblemError `unavailable` where the other streams of the key take all turns for too long.
        """
        try:
            async with asyncio.timeout(OPEN_WAIT_S):
                await self.turn.acquire()
        except TimeoutError as error:
            detail = f"the streams of this key read {PAGES_PER_KEY} pages at once, and none came to its end"
            raise ProblemError(problem("unavailable", detail, retry_after_s=2)) from error
        try:
            yield
        finally:
            self.turn.release()

    @property
    def check_s(self) -> float:
        """How long a stream waits between two looks at the log, in seconds."""
        return max(CHECK_S, self._pace.streams / LOOKS_PER_S)


class StreamPace:
    """Counts the streams of a process, and gives those of one key their turns."""

    def __init__(self) -> None:
        self._streams: Counter[str] = Counter()
        self._turns: dict[str, PageTurns] = {}

    @property
    def streams(self) -> int:
        """How many there are."""
        return self._streams.total()

    @contextmanager
    def stream_of(self, principal: Principal) -> Iterator[PageTurns]:
        """Count one more stream meanwhile; give what it shares with the others of its key."""
        owner = principal.key_prefix or ""
        turns = self._turns.setdefault(owner, PageTurns(self))
        self._streams[owner] += 1
        try:
            yield turns
        finally:
            self._streams[owner] -= 1
            if not self._streams[owner]:
                del self._streams[owner], self._turns[owner]
