"""`python -m tests.mutation SYMBOL OLD NEW [--text] [--run TESTPATH…]`: shows what a mutation would change.

With `--run` it is tried too: it is written, the tests run, the file is put back, and the last line says whether the
tests caught it. Ends with 1 where a mutation can't be made or was not caught.
"""

import argparse
import difflib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutations import Mutation, mutated_file, printed
from tests.mutation.symbols import MutationError
from tests.mutation.trials import RunTests, run_pytest, tried
from tests.support.places import ROOT


def main(words: Sequence[str] | None = None, root: Path = ROOT, *, run: RunTests = run_pytest) -> int:
    """Print the difference, in the form in which mutated files are written, and with `--run` what became of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    for name in ("symbol", "old", "new"):
        parser.add_argument(name)
    parser.add_argument("--text", action="store_true", help="OLD and NEW are parts of a string constant")
    parser.add_argument("--run", nargs="+", default=[], metavar="TESTPATH", help="tests that have to notice it")
    said = vars(parser.parse_args(words))
    tests = said.pop("run")
    mutation = Mutation(**said)
    try:
        _show(mutation, root)
        if not tests:
            return 0
        result = tried(mutation, tests, root, run=run)
    except MutationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{result.verdict}{': ' if result.detail else ''}{result.detail}\n")
    return 0 if result.verdict == "caught" else 1


def _show(mutation: Mutation, root: Path) -> None:
    made = mutated_file(mutation, root)
    name = str(made.path.relative_to(root))
    lines = (printed(made.path).splitlines(keepends=True), made.source.splitlines(keepends=True))
    sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name}, mutated"))
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a mutated file is put back
    sys.exit(main())
