"""The seeds of the suite, and a digest over every trace and label that they give.

Fixed before the detectors were tuned. A family may be added with a digest of its own; what is here stays.
"""

from hashlib import sha256

from tests.loops import families, look_alikes
from tests.loops.traces import BENIGN, LOOPING, Trace, benign_trace, looping_trace

FAMILIES = (families, look_alikes)
"""Modules whose import registers their families."""

SUITE_SEEDS = range(4)
"""Seeds that the suite drives; `python -m tests.loops.measure` drives MEASURED_SEEDS."""

MEASURED_SEEDS = range(1_000, 1_200)

LEAST_RECALL = 0.95
LEAST_PRECISION = 0.99

DIGEST = "f5cf8680a319e35d28eb4f6cd6b1b39109e090496f673045f424ca69c884e417"
"""Of every trace of the suite's seeds and the first of those that are measured."""


def traces(seeds: range) -> list[Trace]:
    """Return every family's trace of every seed."""
    made = [looping_trace(name, seed) for name in sorted(LOOPING) for seed in seeds]
    return made + [benign_trace(name, seed) for name in sorted(BENIGN) for seed in seeds]


def digest() -> str:
    """Return the digest of the traces as they are made now."""
    fixed = [*traces(SUITE_SEEDS), *traces(MEASURED_SEEDS[:4])]
    return sha256("\n".join(map(repr, fixed)).encode()).hexdigest()
