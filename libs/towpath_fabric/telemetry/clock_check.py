"""Compares this machine's clock with a server's, tells of a difference, and has the process follow the server's.

Services with a database ask Postgres, others the broker. Nothing is decided by the time of a machine; but ids and what
is recorded would lie, and people would look for runs at the wrong hour.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from towpath_fabric.clock import learn_platform_time, monotonic
from towpath_fabric.telemetry.logs import Logger

CLOCK_OFF_S = 60.0
"""A difference that people are told of: NTP keeps machines within a fraction of a second."""

CHECK_S = 60.0
"""Between two looks: clocks drift by some milliseconds in it, and one that is set is followed soon."""

SLOW_S = 1.0
"""An answer that took longer is none: nobody knows at which moment of it the server read its clock."""

REMEDY = "Set the clock of this machine right (NTP); until then the platform's time is used."


class ClockCheck:
    """Asks *server* for its time by *ask*, at first and once a minute; *failures* are what its outage raises.

    *ask* returns the server's time and when it was asked (`monotonic()`).
    """

    def __init__(
        self,
        server: str,
        ask: Callable[[], Awaitable[tuple[datetime, float]]],
        failures: tuple[type[Exception], ...],
        registry: CollectorRegistry,
        log: Logger,
    ) -> None:
        self._server = server
        self._ask = ask
        self._failures = failures
        self._log = log
        self._is_off = False
        self._ahead = Gauge(
            "towpath_clock_ahead_seconds",
            "How far this machine's clock is ahead of the platform's; negative where it is behind",
            registry=registry,
        )

    async def check(self) -> None:
        """Ask once; a server that does not answer is asked again at the next look."""
        try:
            now, asked = await self._ask()
        except self._failures as error:
            self._log.debug("the platform's time was not learned", server=self._server, error=str(error))
            return
        if monotonic() - asked > SLOW_S:
            return
        ahead_s = learn_platform_time(now, asked)
        self._ahead.set(ahead_s)
        if (abs(ahead_s) > CLOCK_OFF_S) is self._is_off:
            return
        self._is_off = not self._is_off
        if self._is_off:
            told = {"ahead_s": round(ahead_s), "server": self._server, "remedy": REMEDY}
            self._log.warning("this machine's clock is off; the platform's is used", **told)
        else:
            self._log.warning("this machine's clock is right again", server=self._server)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_S)
