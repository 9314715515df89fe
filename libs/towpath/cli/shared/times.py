"""Moments as people write them: a time, or how long ago.

A moment without an offset is meant in UTC, as everything that Towpath prints.
"""

import re
from datetime import UTC, datetime, timedelta

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import wall

_AGO = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_UNIT = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str, option: str) -> datetime:
    """Return the moment *text*, which is the same whenever it is read; raises ProblemError `request_invalid`."""
    at = None if _AGO.fullmatch(text.strip()) else parse_time(text, option)
    if at is None:
        detail = f"{option} {text!r} is another moment each time that it is said: write 2026-11-01T08:00"
        raise ProblemError(problem("request_invalid", detail))
    return at


def parse_time(text: str | None, option: str) -> datetime | None:
    """Return the moment that *text* names, such as 30d (ago) or 2026-11-01; raises ProblemError `request_invalid`."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return wall() - timedelta(**{_UNIT[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        detail = f"{option} {text!r} is no moment: write 30d, 12h or 2026-11-01T08:00"
        raise ProblemError(problem("request_invalid", detail)) from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
