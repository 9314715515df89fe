"""A script as it was read from a file, which knows in which line each of its entries begins."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_BLANKS = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class ScriptFile:
    """The *entries* of a script, and the *text* of *source* that they were read from."""

    source: str
    entries: Sequence[Any] = ()
    text: str = ""

    def place(self, index: int) -> str:
        """Return where entry *index* stands: file and line, and which entry it is where that doesn't tell it.

        A text that holds more than the list of entries, such as a whole task, tells no line.
        """
        entry = f"entry {index + 1} of {len(self.entries)}"
        if index >= len(self._lines):
            return f"{self.source}: {entry}"
        line = self._lines[index]
        return f"{self.source}:{line}" if self._begin_in[line] == 1 else f"{self.source}:{line}: {entry}"

    @cached_property
    def _lines(self) -> list[int]:
        """The line of each entry: found when the first is asked for, since few scripts have anything to tell."""
        try:
            return list(_entry_lines(self.text))
        except (ValueError, RecursionError):  # what another parser took
            return []

    @cached_property
    def _begin_in(self) -> Counter[int]:
        """How many entries begin in each line."""
        return Counter(self._lines)


def _entry_lines(text: str) -> Iterator[int]:
    """Yield the line in which each entry of the list begins that *text* is; nothing where it is none."""
    read, at, line, counted = json.JSONDecoder().raw_decode, _behind_blanks(text, 0), 1, 0
    if text[at : at + 1] != "[":
        return
    at = _behind_blanks(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        line, counted = line + text.count("\n", counted, at), at
        yield line
        _, end = read(text, at)
        at = _behind_blanks(text, end)
        at = _behind_blanks(text, at + 1) if text[at : at + 1] == "," else at


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()
