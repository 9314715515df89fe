"""The one place that reads clocks: wall time for recording, monotonic time for waiting, the platform's for ids.

No decision about a run uses these: a run's time is Postgres's `now()`. Both clocks read one source, so that a
simulation can replace it. A machine's clock may be off: what is stored beside the times of others takes the platform's,
which is a server's answer and the monotonic time since then.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

NS = 1_000_000_000


@dataclass(slots=True)
class _Source:
    monotonic: Callable[[], float]
    wall_ns: Callable[[], int]


_source = _Source(time.monotonic, time.time_ns)

_IMPORTED = time.monotonic()
"""When this module was imported: about when the process began, where the system doesn't say it better."""

_OWN_STAT = Path("/proc/self/stat")
_START_TICKS = 19
"""Which of the numbers of `/proc/PID/stat` behind the program's name is the start of the process, since the boot."""


@dataclass(slots=True)
class _Platform:
    ahead_ns: int | None = None
    """What the platform's time is more than the monotonic clock shows; None before it was learned."""


_platform = _Platform()


def wall() -> datetime:
    """Return the wall time in UTC, for records that people read."""
    return time_of(_source.wall_ns())


def time_of(ns: int) -> datetime:
    """Return the time in UTC that is *ns* after 1970."""
    return datetime.fromtimestamp(ns / NS, UTC)


def wall_ns() -> int:
    """Return the wall time in nanoseconds since 1970, for spans and ids."""
    return _source.wall_ns()


def monotonic() -> float:
    """Return seconds on a clock that never goes back, for waiting and measuring."""
    return _source.monotonic()


def process_began() -> float:
    """Return when this process began, as `monotonic` counts: before its interpreter, and before it became this program.

    What a person waits for begins then. Where the system doesn't say it (outside Linux), it is when this was imported.
    """
    try:
        numbers = _OWN_STAT.read_text("utf-8").rpartition(")")[2].split()
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(numbers[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED
    return min(_IMPORTED, time.monotonic() - age_s)


def platform_ns() -> int:
    """Return the platform's time in nanoseconds since 1970; this machine's until it was learned."""
    ahead_ns = _platform.ahead_ns
    return _source.wall_ns() if ahead_ns is None else ahead_ns + int(_source.monotonic() * NS)


def platform_time() -> datetime:
    """Return the platform's time in UTC; this machine's until it was learned."""
    return datetime.fromtimestamp(platform_ns() / NS, UTC)


def learn_platform_time(now: datetime, asked: float) -> float:
    """Follow a server that answered *now* to a question of the moment *asked*; return how far this machine is ahead.

    The server wrote its answer between question and now: it is taken for half of that time old. What is returned is in
    seconds, negative where this machine is behind.
    """
    at = _source.monotonic()
    now_ns = int(now.timestamp() * NS) + int((at - asked) / 2 * NS)
    _platform.ahead_ns = now_ns - int(at * NS)
    return (_source.wall_ns() - now_ns) / NS


@contextlib.contextmanager
def use_simulated_clock(seconds: Callable[[], float], began_ns: int) -> Iterator[None]:
    """Let this process's clocks follow *seconds* (0 at *began_ns* after 1970) until the block ends."""
    before, learned = (_source.monotonic, _source.wall_ns), _platform.ahead_ns
    _platform.ahead_ns = None
    _source.monotonic, _source.wall_ns = seconds, lambda: began_ns + int(seconds() * NS)
    try:
        yield
    finally:
        _source.monotonic, _source.wall_ns = before
        _platform.ahead_ns = learned
