"""What a run that stands still shows: lost work, or a silence that is longer than anything it may wait for.

A run that waits for a person is never idle. What is reported once is reported again only after the run moved.
"""

from collections.abc import Iterable
from typing import Literal

from towpath_contracts.runs.idle_runs import IdleRun
from towpath_contracts.runs.raw_events import RawEntry
from towpath_watchdog.core.findings import Finding

UNKNOWN_LEASE_MS = 600_000
"""Of a run whose first event can't be had: longer than most models and tools are waited for."""


def lease_of(entries: Iterable[RawEntry]) -> int:
    """Return the step timeout, in ms, that the first event of a log says."""
    for entry in entries:
        timeout = entry.event.get("step_timeout_ms")
        if isinstance(timeout, int) and timeout > 0:
            return timeout
    return UNKNOWN_LEASE_MS


def lease_s(step_timeout_ms: int | None, margin_s: float) -> float:
    """Return how long nothing need happen in a running run: its decider's lease, and *margin_s* for what follows."""
    return (UNKNOWN_LEASE_MS if step_timeout_ms is None else step_timeout_ms) / 1000 + margin_s


def idle_key(run: IdleRun) -> str:
    """Return the key of what *run* may show."""
    return f"{_DESCRIPTIONS[run.idle][0]}:{run.idle}"


def idle_finding(run: IdleRun, lease: float) -> Finding | None:
    """Return what *run* shows; None for a silence that its *lease*, in seconds, allows."""
    if run.idle == "quiet" and run.for_s <= lease:
        return None
    name, told = _DESCRIPTIONS[run.idle]
    return Finding(
        name=name,
        key=idle_key(run),
        since=run.seq,
        steps=0,
        score=1.0,
        detail=f"{told} for {run.for_s:.0f} s; the run is {run.status}",
    )


_DESCRIPTIONS: dict[str, tuple[Literal["silent", "lost"], str]] = {
    "overdue": ("lost", "nobody has looked at it although its time has come"),
    "queued": ("lost", "it waits to be started"),
    "quiet": ("silent", "nothing has happened"),
}
