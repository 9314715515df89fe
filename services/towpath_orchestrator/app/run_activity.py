"""Whether there may be unfinished runs: loops that look for what runs need rest while there are none.

A count of the run tables says so, for the runs of every replica; what begins here is known before it is counted.
"""

import asyncio
import contextlib
import math

from towpath_fabric.clock import monotonic

REST_S = 2.0
"""How late the run of another replica is noticed, after a time without any; that replica looks after it itself."""

UNCOUNTED_S = 10.0
"""For this time after a run has begun here a count may not hold it yet: as long as a submit may take."""


class RunActivity:
    """What the loops of one process know. At its start there may be runs."""

    def __init__(self) -> None:
        self._counted = True
        self._latest = -math.inf
        self._begun = asyncio.Event()

    def begun(self) -> None:
        """Note that a run begins here."""
        self._latest = monotonic()
        self._begun.set()

    def counted(self, unfinished: int) -> None:
        """Note how many runs the tables hold that are not finished, of all replicas."""
        self._counted = unfinished > 0

    async def pause(self, busy_s: float) -> None:
        """Wait *busy_s*; where there is no unfinished run, so long after one begins here, or after REST_S."""
        if not self._counted and monotonic() - self._latest > UNCOUNTED_S:
            self._begun.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, REST_S - busy_s)):
                    await self._begun.wait()
        await asyncio.sleep(busy_s)
