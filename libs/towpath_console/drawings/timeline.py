"""Lays the steps of a run out on a line of time on which long waits take little room."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from towpath_console.text import as_time

WIDTH = 1000.0
"""Units across; whoever draws stretches them."""

MOST_GAP = 0.25
"""The share of all busy time that one wait takes at most: a day of waiting for a person must not hide the rest."""

LEAST = 4.0
"""Units that a bar has at least, so that it is seen."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One step: its times are those of the API."""

    number: int
    agent: str
    epoch: int
    what: str
    start: str
    end: str | None
    good: bool | None
    error: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """Where the bar of a row is, in units; `cut` says that the time in it was compressed."""

    x: float
    width: float
    cut: bool


def timeline(rows: Sequence[TimelineRow]) -> list[TimelineBar]:
    """Return the bar of each of *rows*; a step without an end lasts until the last time that is known."""
    times = [(as_time(row.start), as_time(row.end)) for row in rows]
    known = sorted({time for pair in times for time in pair if time is not None})
    if not known:
        return [TimelineBar(0.0, LEAST, cut=False) for _ in rows]
    places, cuts = _places(known)
    total = max(places[known[-1]], 1e-9)
    bars = []
    for start, end in times:
        first = places[start or known[0]]
        last = places[end or known[-1]]
        x = first / total * (WIDTH - LEAST)
        cut = any(first <= place < last for place in cuts)
        bars.append(TimelineBar(round(x, 1), round(max(LEAST, (last - first) / total * WIDTH), 1), cut))
    return bars


def _places(known: Sequence[datetime]) -> tuple[dict[datetime, float], list[float]]:
    """Return where each time is, in seconds less what was cut out, and where something was."""
    spans = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(known)]
    median = sorted(spans)[len(spans) // 2] if spans else 0.0
    most = max(MOST_GAP * sum(span for span in spans if span <= median * 4), median * 4, 1e-3)
    place, places, cuts = 0.0, {known[0]: 0.0}, []
    for later, span in zip(known[1:], spans, strict=True):
        if span > most:
            cuts.append(place)
        place += min(span, most)
        places[later] = place
    return places, cuts
