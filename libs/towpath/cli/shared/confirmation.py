"""Asking the person at the terminal, above all before something that nothing brings back."""

import signal
import sys
from typing import Annotated

from cyclopts import Parameter

from towpath.cli.shared.progress import without_progress
from towpath_contracts.problems.registry import ProblemError, problem

Flag = Annotated[bool, Parameter(negative="")]
"""An option that is there or not."""


def prompt(question: str, *, at_end: str = "s") -> str:
    """Read one line from the terminal; at the end of all input (Ctrl-D) it is *at_end*.

    Ctrl-C interrupts the question too, which asyncio's own handler would not.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with without_progress():
            return input(question)
    except EOFError:
        return at_end
    finally:
        signal.signal(signal.SIGINT, before)


def is_interactive() -> bool:
    """Whether a person sits at this terminal and can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_yes(question: str, *, yes: bool) -> None:
    """Ask *question* at a terminal unless *yes*; raises ProblemError where the answer is no, or nobody can be asked."""
    if yes:
        return
    if not is_interactive():
        detail = f"{question} Nobody is at a terminal to be asked"
        raise ProblemError(problem("request_invalid", detail, remedy="Have it done without being asked: --yes."))
    if prompt(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise ProblemError(problem("request_invalid", "nothing was changed", remedy="Answer y to have it done."))
