"""The seeds of the suite, the traces and labels that they give, and the digest of each family's.

All were fixed before the detectors were tuned. A family may be added, with its line in `digests`; what is here stays.
"""

from hashlib import sha256

from tests.loops.families import calls, cycles, denials, errors, handoffs, look_alikes, results
from tests.loops.traces import BENIGN, LOOPING, TOLD, Trace, benign_trace, looping_trace

FAMILIES = (calls, errors, denials, cycles, results, handoffs, look_alikes)
"""Modules whose import registers their families."""

SUITE_SEEDS = range(4)
"""Seeds that the suite drives; `python -m tests.loops.measure` drives MEASURED_SEEDS."""

MEASURED_SEEDS = range(1_000, 1_200)

LEAST_RECALL = 0.95
LEAST_PRECISION = 0.99


def traces(seeds: range) -> list[Trace]:
    """Return the trace of every seed of every family in which a finding is right or wrong by its label."""
    return [trace for family in families_by_name() for trace in traces_of(family, seeds)]


def traces_of(family: str, seeds: range) -> list[Trace]:
    """Return one family's trace of every seed."""
    make = looping_trace if family in LOOPING else benign_trace
    return [make(family, seed) for seed in seeds]


def families_by_name() -> list[str]:
    """Return the names of the families that loop, then of those that do not."""
    return [*sorted(LOOPING), *sorted(BENIGN)]


def told_traces(seeds: range) -> list[Trace]:
    """Return the trace of every seed of the families of TOLD."""
    return [trace for family in sorted(TOLD) for trace in traces_of(family, seeds)]


def digest_of(family: str) -> str:
    """Return the digest of a family's traces as they are made now: the suite's seeds and the first measured ones."""
    return digest_of_traces([*traces_of(family, SUITE_SEEDS), *traces_of(family, MEASURED_SEEDS[:4])])


def digest_of_traces(fixed: list[Trace]) -> str:
    return sha256("\n".join(map(repr, fixed)).encode()).hexdigest()
