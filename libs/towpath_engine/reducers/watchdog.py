"""Applies the watchdog's reports.

One finding waits for the next step at a time; a newer one takes its place, and the older one stays in the log.
"""

from datetime import datetime

from towpath_contracts.events import log as ev
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState
from towpath_engine.state.watchdog import REPORTS_KEPT, AcceptedWatchdogReport, PendingFinding, WatchdogReports

_SAID = {
    "similar_actions": "did almost the same thing and brought nothing new",
    "cycle": "repeated the same sequence of actions and brought nothing new",
    "stalled_progress": "made no progress",
}
"""The message to the model: the platform's own words, never those of a tool or of the report."""


def apply_watchdog_reported(state: RunState, event: ev.WatchdogReported, _at: datetime) -> RunState:
    """Keep the report, and the finding that the next step begins with."""
    known = state.watch.of(event.key)
    taken = AcceptedWatchdogReport(key=event.key, seq=state.seq + 1, times=1 if known is None else known.times + 1)
    others = tuple(one for one in state.watch.taken if one.key != event.key)
    untold = state.watch.untold
    if event.action in ("nudge", "gate"):
        text = f"The last {event.steps} steps {_SAID[event.finding]}. Do something else."
        untold = PendingFinding(finding=event.finding, key=event.key, action=event.action, text=text)
    return replace(state, watch=WatchdogReports(taken=(*others, taken)[-REPORTS_KEPT:], untold=untold))


def clear_reported_finding(state: RunState, text: str) -> RunState:
    """Clear the pending finding once its *text* was told to the model."""
    untold = state.watch.untold
    return state if untold is None or untold.text != text else replace(state, watch=replace(state.watch, untold=None))
