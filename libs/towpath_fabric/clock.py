"""The one place that reads clocks: wall time for recording, monotonic time for waiting.

Law: nothing that decides about a run uses these; a run's time is Postgres's `now()` (design §4).
"""

import time
from datetime import UTC, datetime


def wall() -> datetime:
    """Return the wall time in UTC, for records that people read."""
    return datetime.now(UTC)


def wall_ns() -> int:
    """Return the wall time in nanoseconds since 1970, for spans."""
    return time.time_ns()


def monotonic() -> float:
    """Return seconds on a clock that never goes back, for waiting and measuring."""
    return time.monotonic()
