"""`python -m tests.attacks`: tries every attack of the corpus on a running platform and prints one line each.

The exit status is 0 where all of them were stopped, 1 where one worked or could not be tried, 2 where the command line
can't be followed.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tests.attacks.catalogue import catalogue
from tests.attacks.trials import try_all

HELD, FAILED = 0, 1


def main(words: Sequence[str] | None = None) -> int:
    """Try what the command line names."""
    attacks = catalogue()
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks by name; all of them without one")
    parser.add_argument("--list", action="store_true", help="print the attacks and try none")
    options = parser.parse_args(words)
    unknown = sorted(set(options.names) - set(attacks))
    if unknown:
        parser.error(f"there is no attack {', '.join(unknown)}; --list prints them")
    chosen = [attacks[name] for name in options.names or attacks]
    if options.list:
        for one in chosen:
            _print(f"{one.name:40} {one.position:24} {one.summary}")
        return HELD
    trials = asyncio.run(try_all(chosen, told=lambda trial: _print(trial.line)))
    worked = sum(not trial.stopped for trial in trials)
    _print(f"{len(trials) - worked} of {len(trials)} attacks were stopped")
    return FAILED if worked else HELD


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
