"""Many runs on one budget while processes die: nothing overspent, leaked, misattributed or given away.

A failure names its seed; `python -m tests.simulation.budgets --seed N` prints its trace, `--seeds 500` asks for more.
"""

import random
from collections import Counter
from uuid import UUID

import pytest
from tests.simulation.budget_world import DECIDES
from tests.simulation.budgets import MUST_BE_ZERO, run_budget_world
from tests.simulation.coverage import Coverage
from tests.simulation.mutants import BUDGET_MUTANTS
from tests.simulation.outside.broker import SimBroker
from tests.simulation.outside.clock import VirtualTimeLoop

from towpath_contracts import subjects

SMALL_SEEDS = (1, 3, 5)
CAUGHT = {"budget_unguarded": 0, "budget_released": 0, "budget_again": 1}
"""Where to begin to look, for each mutant: it saves time, and nothing depends on it."""

CAUGHT_WITHIN = 20
"""Worlds; each mutant shows itself in about every second one."""


def test_budget_holds_over_64_runs_at_once_with_random_kills() -> None:
    """Overspend above the declared worst case 0, leaked reservations 0, attribution error 0, nothing free: 64-way."""
    world, figures = run_budget_world(1)
    assert world.complaints == []
    assert {name: figures[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
    assert figures["attempts"] > 64
    assert world.seen.counts["killed"]


def test_budget_everything_that_can_go_wrong_with_one_does() -> None:
    counts: Counter[str] = Counter()
    for seed in SMALL_SEEDS:
        world, _ = run_budget_world(seed, 6)
        assert world.complaints == [], seed
        counts.update(world.seen.counts)
    wanted = ("killed", "call_lost", "usage_corrected", "budget_refused", "budget_warned", "account_run", "completed")
    assert [name for name in wanted if not counts[name]] == []


def test_budget_worlds_repeat_everything_but_requests_for_decisions() -> None:
    """Nothing between an orchestrator and a broker sends a request twice; a world may not, either."""
    loop, seen = VirtualTimeLoop(random.Random(1)), Coverage()
    broker = SimBroker(loop, random.Random(1), seen)
    try:
        broker.faults.repeated, broker.faults.once = 1.0, DECIDES
        broker.publish(b"{}", "decide.default", {}, None)
        assert seen.counts["message_repeated"] == 0
        broker.publish(b"{}", subjects.run_inbox("decider", UUID(int=1)), {}, None)
        assert seen.counts["message_repeated"] == 1
    finally:
        loop.close()


@pytest.mark.parametrize("mutant", sorted(BUDGET_MUTANTS))
def test_budget_a_missing_guard_is_caught(mutant: str) -> None:
    first = CAUGHT.get(mutant, 0)
    assert any(run_budget_world(seed, 4, mutant=mutant)[0].complaints for seed in range(first, first + CAUGHT_WITHIN))
