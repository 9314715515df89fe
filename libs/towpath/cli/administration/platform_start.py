"""The first moment of `towpath up`: it says that it starts, and becomes the program of the platform.

Nothing else is imported for that, neither the tree of commands nor what checks arguments: on a busy machine that is
seconds in which a person would see nothing, and the services could be imported already.
"""

import os
import sys
from collections.abc import Sequence

from towpath.extras import require_packages

PLATFORM = "towpath_embedded"
_EVERYTHING = "  starting NATS, Postgres and every service; Ctrl-C ends it"
_NAMED = "  starting the services that were named; Ctrl-C ends them"

_SILENT = frozenset({"--help", "-h", "--json", "--output", "-o", "--attach"})
"""Options of `up` with which nothing is started, or a program reads what it prints."""

_ONLY = "--only"
"""The option with which some services start, and no server."""


def start_platform(words: Sequence[str]) -> None:
    """Say to a person that the platform starts, and become its program; ProblemError where it isn't installed."""
    require_packages(PLATFORM)
    if is_told(words):
        print(_NAMED if _ONLY in _names(words) else _EVERYTHING, flush=True)
    replace_process(PLATFORM, "up", *words)


def is_told(words: Sequence[str]) -> bool:
    """Return whether `up` with *words* starts something while a person looks on."""
    return sys.stdout.isatty() and not _SILENT.intersection(_names(words))


def replace_process(module: str, *arguments: str) -> None:
    """Replace this process by `python -P -m module words`; raises ProblemError where the module isn't installed.

    With `-P` nothing of the working folder is imported in place of the standard library.
    """
    require_packages(module)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])  # noqa: S606 - a fixed program, no shell


def _names(words: Sequence[str]) -> set[str]:
    """Return the names of the options among *words*: `--only=gateway` is named as `--only gateway` is."""
    return {word.partition("=")[0] for word in words if word.startswith("-")}
