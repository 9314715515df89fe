"""What a problem code means and what to do about it, as a page at the address where programs get JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from towpath_console.page import Page

OF_COMMANDS = 0
"""The status of problems that only the command line has."""


def problem_page(kinds: Sequence[Mapping[str, Any]], code: str) -> Page:
    """Return the page about the problem *code*, or the list of all *kinds*."""
    for kind in kinds:
        if kind["code"] == code:
            return Page(str(kind["title"]), "problem.html", kind, {"kind": kind, "of_commands": OF_COMMANDS})
    ordered = sorted(kinds, key=lambda kind: (kind["status"], kind["code"]))
    return Page("Problem codes", "problems.html", {"problems": ordered}, {"kinds": ordered})
