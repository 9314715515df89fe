"""Finds what is wrong with a condition where it is written, before a platform reads it.

Its form is looked at wherever the library of CEL is installed, as with the extras `testing` and `embedded`; without it
a text that is not closed, and operators of other languages, are found. The tool-access service reads each again, and
alone refuses what costs too much.
"""

import importlib
import re
from importlib.util import find_spec
from typing import Any

from towpath_contracts.problems.cel_faults import CEL_LITERAL, compile_cel, foreign_operator
from towpath_contracts.problems.near_names import suggest_name

NAMES = ("agent", "args", "caller", "origin", "run")
"""What a condition sees (docs/policies.md)."""

_TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
_ELEMENT = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*(\w+)\s*,")
"""The name that a macro gives to an element."""


def condition_fault(text: str) -> str:
    """Return what keeps *text* from being a condition; empty where nothing is found."""
    if find_spec("cel") is None:
        return foreign_operator(text)
    library: Any = importlib.import_module("cel")  # few programs write conditions, and it takes its time
    try:
        used = set(compile_cel(text, library.compile).variables())
    except ValueError as error:
        return str(error)
    elements = _ELEMENT.findall(CEL_LITERAL.sub(" ", text))
    unknown = sorted(used - _TYPES - {*NAMES, *elements})
    if not unknown:
        return ""
    return f"unknown name {', '.join(unknown)}: a condition sees {', '.join(NAMES)}{suggest_name(unknown[0], NAMES)}"
