"""The harness's clock: it goes on by itself as time does, and jumps when a test says so."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from towpath.tools.declaration import seconds


class HarnessClock:
    """What every part of the platform reads while a harness is open. `advance` makes what is due happen at once."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        """*look* has the platform look for what is overdue."""
        self._look = look
        self._began = time.monotonic()
        self._jumped_s = 0.0

    def elapsed_s(self) -> float:
        """Return the seconds since the harness was opened, with those that were skipped."""
        return time.monotonic() - self._began + self._jumped_s

    async def advance(self, duration: str | float) -> None:
        """Let *duration* be over, in seconds or as text such as "2h"; gates and budgets of time run out."""
        skipped = seconds(duration)
        if skipped < 0:
            msg = f"a clock never goes back: {duration!r}"
            raise ValueError(msg)
        self._jumped_s += skipped
        await self._look()
        await asyncio.sleep(0)
