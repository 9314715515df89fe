"""Many runs on one budget while processes die: nothing overspent, leaked, misattributed or given away.

A failure names its seed; `python -m tests.simulation.budgets --seed N` tells its story, `--seeds 500` asks for more.
"""

from collections import Counter

import pytest
from tests.simulation.budgets import MUST_BE_ZERO, lived
from tests.simulation.mutants import BUDGET_MUTANTS

SMALL_SEEDS = (1, 3, 5)
CAUGHT = {"budget_unguarded": 0, "budget_released": 0, "budget_again": 1}
"""Where to begin to look, for each mutant: it saves time, and nothing depends on it."""

CAUGHT_WITHIN = 20
"""Worlds; each mutant shows itself in about every second one."""


def test_budget_holds_over_64_runs_at_once_with_random_kills() -> None:
    """Overspend above the declared worst case 0, leaked reservations 0, attribution error 0, nothing free: 64-way."""
    world, figures = lived(0)
    assert world.complaints == []
    assert {name: figures[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
    assert figures["attempts"] > 64
    assert world.seen.counts["killed"]


def test_budget_everything_that_can_go_wrong_with_one_does() -> None:
    counts: Counter[str] = Counter()
    for seed in SMALL_SEEDS:
        world, _ = lived(seed, 6)
        assert world.complaints == [], seed
        counts.update(world.seen.counts)
    wanted = ("killed", "call_lost", "usage_corrected", "budget_refused", "budget_warned", "account_run", "completed")
    assert [name for name in wanted if not counts[name]] == []


@pytest.mark.parametrize("mutant", sorted(BUDGET_MUTANTS))
def test_budget_a_missing_guard_is_caught(mutant: str) -> None:
    first = CAUGHT.get(mutant, 0)
    assert any(lived(seed, 4, mutant=mutant)[0].complaints for seed in range(first, first + CAUGHT_WITHIN))
