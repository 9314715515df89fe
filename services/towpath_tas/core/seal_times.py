"""When a checkpoint is signed: by the clock of the process that signs, never by what the database says the time is.

Whoever owns the database can make its clock say anything, and `verify` trusts signed times: how old was what retention
dropped, and what was sealed before a time that is asked for. Postgres stamps the entries, so a clock that differs from
its by more than an allowance is a fault of one of the two, and nothing is signed until it is mended.
"""

from datetime import datetime, timedelta

MAX_CLOCK_DIFFERENCE = timedelta(minutes=5)
"""Of a process from Postgres. `towpath_audit.retention.CLOCK_ALLOWANCE` of verifiers is three times as much."""


def clock_problem(own: datetime, database: datetime, last: datetime | None = None) -> str | None:
    """Return why nothing may be signed at the time *own*; None where it may.

    *database* is the time that Postgres says, *last* the signed time of the last checkpoint.
    """
    if abs(own - database) > MAX_CLOCK_DIFFERENCE:
        return f"it is {own.isoformat()} here and {database.isoformat()} in Postgres: set the clock that is wrong"
    if last is not None and last - own > MAX_CLOCK_DIFFERENCE:
        return f"it is {own.isoformat()}, and the last checkpoint was signed at {last.isoformat()}, which is later"
    return None


def seal_time(own: datetime, last: datetime | None) -> datetime:
    """Return the time to sign, never one before *last*: clocks of replicas differ by a little."""
    return own if last is None else max(own, last)
