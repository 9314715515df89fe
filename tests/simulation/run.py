"""Long simulations by hand: `python -m tests.simulation.run --seeds 50000 --jobs 2`.

Prints progress, and for every seed that fails what was wrong and how to see it again; ends with 1 if any failed or if
something that must happen never did. `--seed N --trace` repeats one world and prints all of it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

CHUNK = 50
ENOUGH = 2_000
"""Worlds in which everything that must happen does; fewer may miss something rare."""

SHOWN = 3


class SimulationReport(NamedTuple):
    """What came of some seeds."""

    worlds: int
    failed: dict[int, list[str]]
    counts: Counter[str]


def print_line(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_seeds(seeds: range, mutant: str = "") -> SimulationReport:
    """Let the worlds of *seeds* live, one after another."""
    from tests.simulation.mutants import MutantSwitches
    from tests.simulation.world import run_world

    failed: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = run_world(seed, mutants=MutantSwitches(mutant))
        counts.update(world.seen.counts)
        if world.complaints:
            failed[seed] = world.complaints
    return SimulationReport(len(seeds), failed, counts)


def repeat(seed: int, mutant: str) -> int:
    """Print the whole story of one world."""
    from tests.simulation.mutants import MutantSwitches
    from tests.simulation.world import run_world

    world = run_world(seed, keep=True, mutants=MutantSwitches(mutant))
    print_line("\n".join(world.seen.lines or []))
    print_line(f"{world.loop.time():.1f} s, {world.loop.steps} steps, ends {world.judge.summary()}")
    print_line(f"trace {world.seen.fingerprint}")
    for complaint in world.complaints:
        print_line(f"!!! {complaint}")
    return 1 if world.complaints else 0


def chunks(first: int, seeds: int) -> Iterator[range]:
    """Cut the seeds into pieces."""
    for start in range(first, first + seeds, CHUNK):
        yield range(start, min(start + CHUNK, first + seeds))


def campaign(first: int, seeds: int, jobs: int, mutant: str) -> int:
    """Run many worlds and print what came of them."""
    from tests.simulation.coverage import MUST_HAPPEN

    began, worlds = time.monotonic(), 0
    failed: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    pieces = list(chunks(first, seeds))
    with ProcessPoolExecutor(jobs) as pool:
        for report in pool.map(run_seeds, pieces, [mutant] * len(pieces)):
            worlds += report.worlds
            counts += report.counts
            failed |= report.failed
            rate = worlds / (time.monotonic() - began)
            sys.stderr.write(f"{worlds}/{seeds} worlds, {len(failed)} failed, {rate:.1f}/s\n")
            for seed, complaints in report.failed.items():
                print_line(f"seed {seed}: " + "; ".join(complaints[:SHOWN]))
                print_line(f"  again: python -m tests.simulation.run --seed {seed} --trace")
    never = sorted(name for name in MUST_HAPPEN if not counts[name])
    print_line(f"{worlds} worlds in {time.monotonic() - began:.0f} s, {len(failed)} failed")
    print_line(", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if not name.startswith("at ")))
    print_line(f"crash points hit: {sum(name.startswith('at ') for name in counts)}")
    if never:
        print_line(f"never happened: {', '.join(never)}")
    return 1 if failed or (never and seeds >= ENOUGH) else 0


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="repeat this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything (the default there)")
    parser.add_argument("--mutant", default="", help="take this guard away")
    options = parser.parse_args()
    if options.seed is not None:
        return repeat(options.seed, options.mutant)
    return campaign(options.first, options.seeds, options.jobs, options.mutant)


if __name__ == "__main__":
    sys.exit(main())
