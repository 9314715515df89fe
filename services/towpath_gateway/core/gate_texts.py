"""What protocols of clients show of a gate: the same words in each, and arguments of which nothing hides.

Texts of runs are others' words. They stand in one line each, without characters that draw or are not seen; arguments
are what is approved, and so they stand there exactly.
"""

from collections.abc import Sequence
from typing import Any

from towpath_contracts.text import visible_json

MAX_SHOWN_CHARS = 8_000
"""Of the arguments of a call: nobody is asked in words for a yes to what is not shown whole."""

_YES_OR_NO = ("approved", "denied")


def verdicts_of(named: Any) -> tuple[str, ...]:
    """Return the verdicts that a gate takes, of those that it names: yes and no where it names none."""
    return tuple(named or _YES_OR_NO)


def plain_line(text: object) -> str:
    """Write others' words in one line, without characters that draw or are not seen."""
    return "".join(one if one.isprintable() else " " for one in " ".join(str(text).split()))


def shown_arguments(args: Any) -> str:
    """Return the arguments of a call as JSON in which everything can be seen; empty where there are none."""
    return "" if args is None else visible_json(args)


def call_question(gate_type: str, tool: str, summary: str, args: Any, url: str, doubts: Sequence[str] = ()) -> str:
    """Return what is asked at a gate, in the words of the tool, and below it the arguments, or where these are.

    *doubts* say which of the arguments to look at.

    A client may show its person nothing but this.
    """
    asked = summary or (f"May {plain_line(tool)} be called?" if tool else gate_type.replace("_", " "))
    shown = shown_arguments(args)
    if len(shown) > MAX_SHOWN_CHARS:
        shown = f"too long to be shown here; read them at {url}"
    told = [asked, *(f"Doubt: {plain_line(line)}" for line in doubts), *([f"Arguments: {shown}"] if shown else [])]
    return "\n".join(told)
