"""`python -m tests.mutation SYMBOL OLD NEW [--text]`: shows what a mutation would change, or why it can't be made."""

import argparse
import difflib
import sys

from tests.mutation.mutations import Mutation, mutated_file, printed
from tests.mutation.symbols import MutationError
from tests.support.places import ROOT


def main() -> int:
    """Print the difference, in the form in which mutated files are written; returns 1 where there can be none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    for name in ("symbol", "old", "new"):
        parser.add_argument(name)
    parser.add_argument("--text", action="store_true", help="OLD and NEW are parts of a string constant")
    try:
        made = mutated_file(Mutation(**vars(parser.parse_args())))
    except MutationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    name = str(made.path.relative_to(ROOT))
    lines = (printed(made.path).splitlines(keepends=True), made.source.splitlines(keepends=True))
    sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name}, mutated"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
