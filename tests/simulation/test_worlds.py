"""The services in a simulated world, over a thousand seeds: nothing lost, nothing twice, everything on record.

A failure names its seeds; `python -m tests.simulation.run --seed N --trace` tells the whole story of one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.coverage import MUST_HAPPEN
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import live

ROOT = Path(__file__).parents[2]
PART = 128
COMMON = MUST_HAPPEN - {"stale_worker", "late_start_refused", "claim_refused_outdated", "did_not_happen", "call_void"}
"""What every part sees by itself; the rest is rare, and is watched by the long runs."""

FIRST_CAUGHT = {"revision": 40}
"""Where to begin to look, for mutants that show themselves in few worlds."""

CAUGHT_WITHIN = 120
"""Worlds. The slowest mutant shows itself in about one of thirty."""


@pytest.mark.parametrize("first", range(0, 8 * PART, PART))
def test_worlds_lose_nothing_and_do_nothing_twice(first: int) -> None:
    report = live(range(first, first + PART))
    assert report.failed == {}
    assert sorted(name for name in COMMON if not report.counts[name]) == []


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_missing_guard_is_caught(mutant: str) -> None:
    first = FIRST_CAUGHT.get(mutant, 0)
    assert any(live(range(seed, seed + 1), mutant).failed for seed in range(first, first + CAUGHT_WITHIN))


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    traces = {told(seed_of_hashes) for seed_of_hashes in ("1", "2")}
    assert len(traces) == 1
    assert "trace " in traces.pop()


def told(seed_of_hashes: str) -> str:
    """Return the traces of some seeds as a fresh process tells them."""
    code = "from tests.simulation.run import repeat\nfor seed in (3, 4, 5): repeat(seed, '')"
    environment = {**os.environ, "PYTHONHASHSEED": seed_of_hashes}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return said.stdout
