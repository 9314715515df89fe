"""Whether something grows with the number of runs: robust slopes over the samples of each process's life.

The slope is the median of those between all pairs of samples (Theil and Sen), a pair weighing as much as it has runs
between its samples. Pairs are made within the life of one process alone, since one that was killed begins anew, and of
samples after its warm-up: caches fill, and pages that were shared are copied.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from towpath_embedded.processes.role_names import role_of

PER_RUNS: Final = 10_000
LIMITS: Final[Mapping[str, float]] = {"anon_mib": 1.0, "fds": 1.0, "threads": 0.5}
"""What may come to a service with ten thousand runs and still be called flat."""

WARM_UP_S: Final = 120.0
WARM_UP_RUNS: Final = 20_000
"""Until the caches are full whose size is a number of runs or calls."""

LEAST_SPAN: Final = 5_000
"""Runs that the longest life has to go on for after its warm-up, before anything is said about it."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthSlope:
    """How much of something comes to a service with every 10,000 runs; *low* and *high* are the quartiles."""

    service: str
    measure: str
    slope: float
    low: float
    high: float
    span: float
    """Runs in the longest life, after its warm-up."""

    first: float
    last: float

    @property
    def verdict(self) -> str:
        """What it means, in a word or a few."""
        if self.span < LEAST_SPAN:
            return "too short to tell"
        return "grows" if self.slope > LIMITS[self.measure] and self.low > 0 else "flat"


def weighted_quantiles(slopes: Sequence[Point], *parts: float) -> list[float]:
    """Return where *parts* of the whole weight of *slopes*, pairs of value and weight, lie below."""
    ordered = sorted(slopes)
    whole = sum(weight for _, weight in ordered)
    found: list[float] = []
    for part in parts:
        below = 0.0
        for value, weight in ordered:
            below += weight
            if below >= part * whole:
                found.append(value)
                break
    return found


def pair_slopes(lives: Iterable[Sequence[Point]]) -> list[Point]:
    """Return the slope of every pair of points within a life, with the distance between them as its weight."""
    return [
        ((points[later][1] - y) / (points[later][0] - x), points[later][0] - x)
        for points in lives
        for earlier, (x, y) in enumerate(points)
        for later in range(earlier + 1, len(points))
        if points[later][0] > x
    ]


def growth_slopes(
    samples: Sequence[Mapping[str, Any]], *, warm_up_s: float = WARM_UP_S, warm_up_runs: float = WARM_UP_RUNS
) -> list[GrowthSlope]:
    """Return the slopes of every service that a line can be laid through."""
    lives: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for sample in samples:
        for name, pid in sample["pids"].items():
            lives[name, pid].append(sample)
    by_service: dict[str, list[tuple[str, list[Mapping[str, Any]]]]] = defaultdict(list)
    for (name, _), life in lives.items():
        begin, done = life[0]["at"], life[0]["work"]["done"]
        warm = [s for s in life if s["at"] >= begin + warm_up_s and s["work"]["done"] >= done + warm_up_runs]
        by_service[role_of(name)].append((name, warm))
    found = []
    for service, parts in sorted(by_service.items()):
        for measure in LIMITS:
            series = [_points(name, measure, warm) for name, warm in parts]
            if slope := _slope(service, measure, [points for points in series if len(points) > 1]):
                found.append(slope)
    return found


def _points(name: str, measure: str, samples: Sequence[Mapping[str, Any]]) -> list[Point]:
    return [(s["work"]["done"], s["services"][name][measure]) for s in samples if measure in s["services"][name]]


def _slope(service: str, measure: str, lives: Sequence[Sequence[Point]]) -> GrowthSlope | None:
    pairs = pair_slopes(lives)
    if not pairs:
        return None
    low, middle, high = (value * PER_RUNS for value in weighted_quantiles(pairs, 0.25, 0.5, 0.75))
    longest = max(lives, key=lambda points: points[-1][0] - points[0][0])
    return GrowthSlope(
        service=service,
        measure=measure,
        slope=middle,
        low=low,
        high=high,
        span=longest[-1][0] - longest[0][0],
        first=longest[0][1],
        last=longest[-1][1],
    )
