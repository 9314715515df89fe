"""Postgres's time between two statements: tickets and deadlines are by its clock, and no other is asked."""

from datetime import datetime, timedelta

from towpath_fabric.clock import monotonic


class PostgresClock:
    """Postgres's time: as it was last read, advanced by this machine's monotonic clock."""

    def __init__(self) -> None:
        self._database_time: datetime | None = None
        self._read_at = 0.0

    def set(self, at: datetime) -> None:
        self._database_time, self._read_at = at, monotonic()

    @property
    def known(self) -> bool:
        return self._database_time is not None

    def now(self) -> datetime:
        """Return the time; raises RuntimeError before it was first read."""
        if self._database_time is None:
            msg = "Postgres's time was not read yet"
            raise RuntimeError(msg)
        return self._database_time + timedelta(seconds=monotonic() - self._read_at)
