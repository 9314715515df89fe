"""How long a client retries while the platform does not answer.

Waits grow and are jittered, so that many clients do not come back at the same instant; contact resets everything.
"""

import asyncio
import random

from towpath.errors import TowpathError
from towpath_fabric.clock import monotonic

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 3.0


class RetryBackoff:
    """Counts the time without contact. *most_s* is how long that may last."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since: float | None = None
        self._wait_s = FIRST_WAIT_S

    def reset(self) -> None:
        """Start from the beginning, because the platform answered."""
        self._since = None
        self._wait_s = FIRST_WAIT_S

    async def wait(self, error: TowpathError, at_least_s: float = 0.0) -> None:
        """Wait before the next try; raises *because* when the time is over."""
        now = monotonic()
        if self._since is None:
            self._since = now
        wait_s = max(at_least_s, self._wait_s * (0.5 + random.random()))  # noqa: S311 - jitter needs no secret
        if now + wait_s - self._since > self._limit_s:
            raise error
        await asyncio.sleep(wait_s)
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)
