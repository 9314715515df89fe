"""How fast event streams read the log: however many there are, they ask little of the platform at once.

A stream learns of events from the bus, and looks at the log when it begins, when something is missing, and now and
then because the bus may lose a message. What one key's streams want to read waits for that key's own turns, so that a
thousand streams of one key don't stand before the first page of another's.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from towpath_gateway.adapters.platform_client import CHECK_S
from towpath_gateway.core.api_keys import Principal

PAGES_PER_KEY = 16
"""Pages that the streams of one key read at once."""

LOOKS_PER_S = 50
"""Looks that all streams of the process take in a second while nothing happens: with more streams each waits longer."""


class PageTurns:
    """What the streams of one key share: whose turn it is to read a page, and how long to wait between two looks."""

    def __init__(self, pace: "StreamPace") -> None:
        self.turn = asyncio.Semaphore(PAGES_PER_KEY)
        self._pace = pace

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
