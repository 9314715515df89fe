"""The harness's clock: it goes on by itself as time does, and jumps when a test says so."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from towpath.tools.declaration import seconds
from towpath_fabric.clock import monotonic, use_simulated_clock, wall_ns


class HarnessClock:
    """What every part of the platform reads while a harness is open. `advance` makes what is due happen at once.

    A process has one clock: of harnesses that are open at once, what one skips is over for all.
    """

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        """*look* has the platform look for what is overdue."""
        self._look = look
        self._began = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Have this process read the clock of harnesses."""
        _process.open(self)
        self._began, self._loop = monotonic(), asyncio.get_running_loop()

    def close(self) -> None:
        """Let time be what it is again, once no harness is open."""
        _process.close(self)

    def elapsed_s(self) -> float:
        """Return the seconds since the harness was opened, with those that were skipped."""
        return monotonic() - self._began

    async def advance(self, duration: str | float) -> None:
        """Let *duration* be over, in seconds or as text such as "2h"; gates and budgets of time run out."""
        skipped = seconds(duration)
        if skipped < 0:
            msg = f"a clock never goes back: {duration!r}"
            raise ValueError(msg)
        _process.skipped_s += skipped
        for clock in [one for one in _process.clocks if one._loop is self._loop]:
            await clock._look()
        await asyncio.sleep(0)


class _ProcessClock:
    """The clock of this process while any harness is open."""

    def __init__(self) -> None:
        self.skipped_s = 0.0
        self.clocks: list[HarnessClock] = []
        self._began = 0.0
        self._replaced = contextlib.ExitStack()

    def open(self, clock: HarnessClock) -> None:
        if not self.clocks:
            self._began, self.skipped_s = time.monotonic(), 0.0
            self._replaced.enter_context(use_simulated_clock(self._elapsed_s, wall_ns()))
        self.clocks.append(clock)

    def close(self, clock: HarnessClock) -> None:
        if clock in self.clocks:
            self.clocks.remove(clock)
            if not self.clocks:
                self._replaced.close()

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began + self.skipped_s


_process = _ProcessClock()
