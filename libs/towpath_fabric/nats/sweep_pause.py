"""The pause between two comparisons with the run log, for readers of events: longer while nothing moves.

What moves shows itself by events. Where all events of a run are lost, the next comparison finds it.
"""

import asyncio
import contextlib

QUIET_TIMES = 5
"""So many times as long is the pause where nothing moves."""


class SweepPause:
    """The pause of one loop."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()

    def moved(self) -> None:
        """Note that events have come, or may have been lost."""
        self._moved.set()

    async def wait(self, every_s: float, *, quiet: bool) -> None:
        """Wait *every_s*; longer where the last comparison was *quiet*, until something moves."""
        if quiet:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((QUIET_TIMES - 1) * every_s):
                    await self._moved.wait()
        self._moved.clear()
        await asyncio.sleep(every_s)
