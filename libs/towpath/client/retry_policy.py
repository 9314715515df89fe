"""How long a client retries while the platform does not answer.

Waits grow and are jittered, so that many clients do not come back at the same instant; contact resets everything.
"""

import asyncio
import random
from collections.abc import Callable

from towpath.errors import TowpathError
from towpath_fabric.clock import monotonic

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 3.0
TOLD_AFTER_S = 2.0
"""A shorter time without contact is nobody's concern."""

RetryNotice = Callable[[TowpathError, float], None]
"""Gets why something is tried again, and for how many seconds more."""


class RetryBackoff:
    """Counts the time without contact. *limit_s* is how long that may last; *notice* is told once it is long."""

    def __init__(self, limit_s: float, notice: RetryNotice | None = None) -> None:
        self._limit_s = limit_s
        self._notice = notice
        self._contact = monotonic()
        self._since: float | None = None
        self._wait_s = FIRST_WAIT_S

    def reset(self) -> None:
        """Start from the beginning, because the platform answered."""
        self._contact = monotonic()
        self._since = None
        self._wait_s = FIRST_WAIT_S

    async def wait(self, error: TowpathError, at_least_s: float = 0.0) -> None:
        """Wait before the next try; raises *error* when the time is over."""
        now = monotonic()
        if self._since is None:
            self._since = now
        wait_s = max(at_least_s, self._wait_s * (0.5 + random.random()))  # noqa: S311 - jitter needs no secret
        if now + wait_s - self._since > self._limit_s:
            raise error
        if self._notice is not None and now - self._contact >= TOLD_AFTER_S:
            self._notice(error, self._limit_s - (now - self._since))
            self._notice = None
        await asyncio.sleep(wait_s)
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)
