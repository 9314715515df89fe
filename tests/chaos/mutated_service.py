"""`python -m tests.chaos.mutated_service NAME MODULE [ARGUMENTS]`: runs the service MODULE without one of its guards.

Only a process that fault tests started comes this far: without the test-only folder of crash points it refuses.
"""

import os
import runpy
import sys

from tests.chaos.mutants import MUTANTS
from tests.mutation.in_process import apply
from tests.mutation.symbols import MutationError

from towpath_fabric.crash_points import VARIABLE

REFUSED = 3
"""The exit code where there is no such mutant, or no place for it."""


def main(words: list[str]) -> None:
    """Break this process as the mutant NAME does, then become the service; exits with 3 where that can't be done."""
    try:
        name, module, *arguments = words
        mutant = MUTANTS[name]
    except (ValueError, KeyError):
        raise SystemExit(_refuse(f"usage: NAME MODULE [ARGUMENTS]; NAME is one of {', '.join(MUTANTS)}")) from None
    if not os.environ.get(VARIABLE):
        raise SystemExit(_refuse(f"{VARIABLE} is not set: a broken service runs in fault tests and nowhere else"))
    if module != mutant.module:
        raise SystemExit(_refuse(f"{name} is a mutant of {mutant.module}, not of {module}"))
    try:
        apply(*mutant.mutations)
    except MutationError as error:
        raise SystemExit(_refuse(str(error))) from error
    sys.stderr.write(f"this process is broken on purpose: {mutant.summary}\n")
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _refuse(why: str) -> int:
    sys.stderr.write(f"mutant: {why}\n")
    return REFUSED


if __name__ == "__main__":
    main(sys.argv[1:])
