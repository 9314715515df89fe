"""Many runs on one budget, with processes killed at random: `python -m tests.simulation.budgets --seeds 500`.

Ends with 1 if any world overspent, leaked, misattributed, gave an attempt away, or let a run by a limit. `--seed N`
prints one trace.
"""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.budget_world import FAN, BudgetJudge, BudgetWorld
from tests.simulation.mutants import MutantSwitches
from tests.simulation.run import print_line
from tests.simulation.world import run_to_end

MUST_BE_ZERO = ("overspent", "leaked", "misattributed", "free", "unbound")


def run_budget_world(
    seed: int, fan: int = FAN, *, keep: bool = False, mutant: str = ""
) -> tuple[BudgetWorld, dict[str, int]]:
    """Let the world of *seed* live, with *fan* runs at once; returns it with the figures that must be 0."""
    world = BudgetWorld(seed, fan=fan, keep=keep, mutants=MutantSwitches(mutant))
    run_to_end(world)
    return world, BudgetJudge(world).judge()


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.budgets")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fan", type=int, default=FAN, help="runs in each world")
    parser.add_argument("--seed", type=int, help="print the trace of this one")
    options = parser.parse_args()
    if options.seed is not None:
        world, figures = run_budget_world(options.seed, options.fan, keep=True)
        print_line("\n".join(world.seen.lines or []))
        print_line(f"{figures}")
        return 1 if world.complaints else 0
    began, failed = time.monotonic(), 0
    counts: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.seeds):
        world, figures = run_budget_world(seed, options.fan)
        counts.update(world.seen.counts)
        counts.update(figures)
        if world.complaints:
            failed += 1
            print_line(f"seed {seed}: " + "; ".join(world.complaints[:3]))
    print_line(f"{options.seeds} worlds of {options.fan} runs in {time.monotonic() - began:.0f} s, {failed} failed")
    print_line(", ".join(f"{name} {counts[name]}" for name in MUST_BE_ZERO))
    names = ("attempts", "killed", "killed_at_point", "effect_resent", "call_lost", "usage_corrected", "budget_refused")
    names += ("budget_short_alone", "budget_short_beside", "budget_warned", "limits_moved", "bound_late")
    names += ("postgres_stopped", "broker_restarted")
    print_line(", ".join(f"{name} {counts[name]}" for name in (*names, "completed", "failed", "cancelled")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
