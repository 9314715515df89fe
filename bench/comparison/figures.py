"""Figures of a comparison: what is read from a measurement, medians over the rounds, ratios of Towpath to a peer.

A ratio is of cost, so 2 always means that Towpath needs twice as much: for a rate it is the peer's rate over Towpath's.
It is made within each round, where both were measured one after the other, and then its median is taken.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from comparison.systems import IN_PROCESS, PEERS, TITLES, TOWPATH

ESTABLISHED = 1.5
"""A ratio nearer to 1 than this, either way, may be the machine."""

Figures = dict[str, float]


class Metric(NamedTuple):
    """A figure: its key, its heading, where a measurement has it, its decimals, and whether more of it is better."""

    key: str
    heading: str
    path: tuple[str, str]
    decimals: int
    is_rate: bool = False


METRICS = (
    Metric("alone_ms", "ms per step, alone", ("alone", "ms_per_step_p50"), 1),
    Metric("steps_per_s", "steps/s, many runs at once", ("together", "steps_per_s"), 0, is_rate=True),
    Metric("cpu_ms", "CPU ms per step", ("together", "cpu_ms_per_step"), 2),
    Metric("cpu_ms_without_client", "CPU ms without the client", ("together", "cpu_ms_per_step_without_client"), 2),
    Metric("memory_mb", "memory (PSS), MB", ("memory", "pss_mb"), 0),
)


class Summary(NamedTuple):
    """The median of some values, and the least and the greatest of them."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that was measured: *rounds* has each system's figures by round, *missing* why a peer is not there."""

    date: str
    machine: str
    quick: bool
    runs_together: int
    rounds: Mapping[str, Mapping[int, Figures]]
    missing: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cpu_share_of_others: float = 0.0
    realtime: bool = True


def figures_of(system: str, measured: Mapping[str, Any]) -> Figures:
    """Read the figures; where client and runs share a process there is no share of the client to leave out."""
    return {
        metric.key: measured[metric.path[0]][metric.path[1]]
        for metric in METRICS
        if not (metric.key == "cpu_ms_without_client" and system in IN_PROCESS)
    }


def summary(values: Sequence[float]) -> Summary:
    """Summarise at least one value."""
    return Summary(statistics.median(values), min(values), max(values))


def summaries(comparison: Comparison) -> dict[str, dict[str, Summary]]:
    """Summarise every figure of every system that was measured, in the order of `TITLES`."""
    found: dict[str, dict[str, Summary]] = {}
    for system in TITLES:
        if rounds := comparison.rounds.get(system):
            keys = next(iter(rounds.values()))
            found[system] = {key: summary([figures[key] for figures in rounds.values()]) for key in keys}
    return found


def ratios(comparison: Comparison) -> dict[tuple[str, str], dict[str, Summary]]:
    """Return the ratios of each effect class of Towpath to each peer, over the rounds that have both."""
    found: dict[tuple[str, str], dict[str, Summary]] = {}
    for peer in PEERS:
        for ours in TOWPATH:
            mine, theirs = comparison.rounds.get(ours, {}), comparison.rounds.get(peer, {})
            both = [(mine[number], theirs[number]) for number in mine if number in theirs]
            if both:
                found[ours, peer] = {
                    metric.key: summary([_ratio(metric, *pair) for pair in both])
                    for metric in METRICS
                    if all(metric.key in figures for pair in both for figures in pair)
                }
    return found


def is_established(ratio: Summary) -> bool:
    """Return whether *ratio* is far enough from 1, and on the same side of it in every round."""
    above = ratio.median >= ESTABLISHED and ratio.least > 1
    below = ratio.median <= 1 / ESTABLISHED and ratio.most < 1
    return above or below


def _ratio(metric: Metric, ours: Figures, theirs: Figures) -> float:
    over, under = (theirs, ours) if metric.is_rate else (ours, theirs)
    return over[metric.key] / under[metric.key]
