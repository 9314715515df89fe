"""The one place that reads clocks: wall time for recording, monotonic time for waiting.

No decision about a run uses these: a run's time is Postgres's `now()`. Both clocks read one source, so that a
simulation can replace it.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

NS = 1_000_000_000


@dataclass(slots=True)
class _Source:
    monotonic: Callable[[], float]
    wall_ns: Callable[[], int]


_source = _Source(time.monotonic, time.time_ns)


def wall() -> datetime:
    """Return the wall time in UTC, for records that people read."""
    return datetime.fromtimestamp(_source.wall_ns() / NS, UTC)


def wall_ns() -> int:
    """Return the wall time in nanoseconds since 1970, for spans and ids."""
    return _source.wall_ns()


def monotonic() -> float:
    """Return seconds on a clock that never goes back, for waiting and measuring."""
    return _source.monotonic()


@contextlib.contextmanager
def use_simulated_clock(seconds: Callable[[], float], began_ns: int) -> Iterator[None]:
    """Let this process's clocks follow *seconds* (0 at *began_ns* after 1970) until the block ends."""
    before = (_source.monotonic, _source.wall_ns)
    _source.monotonic, _source.wall_ns = seconds, lambda: began_ns + int(seconds() * NS)
    try:
        yield
    finally:
        _source.monotonic, _source.wall_ns = before
