"""When an iteration of a background run is late: past `iteration_timeout_ms`; past twice of it the run fails.

Both count active time, which stands still while a run waits for people.
"""

from datetime import datetime, timedelta

from towpath_engine.reducers.background import active_ms
from towpath_engine.state.run import RunState

HARD = 2
"""Soft timeouts are reflected upon; past this many of them nothing can be made good."""


def iteration_due(state: RunState) -> datetime | None:
    """Return when the current iteration has taken too long; None where nothing counts its time."""
    limit, background = state.created.background_settings.iteration_timeout_ms, state.background
    if background is None or limit is None or not background.iteration or state.active_since is None:
        return None
    return state.active_since + timedelta(milliseconds=background.began_ms + HARD * limit - state.active_ms)


def is_late(state: RunState, now: datetime) -> bool:
    """Return whether the current iteration has taken longer than it should."""
    limit, background = state.created.background_settings.iteration_timeout_ms, state.background
    if background is None or limit is None or not background.iteration:
        return False
    return active_ms(state, now) - background.began_ms > limit
