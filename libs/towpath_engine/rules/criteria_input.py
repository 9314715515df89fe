"""Shortens what acceptance criteria see of a long value.

The input is bounded, whatever a tool or a model answers, because an expression takes time in proportion to it. A value
within the bounds is passed as it is.
"""

from itertools import islice
from typing import Any

MAX_CHARS = 16_384
"""Characters of all texts of one value together, names of members included."""

MAX_ITEMS = 256
"""Items of one list, and members of one object."""

MAX_VALUES = 1_024
"""Values within one value, at any depth."""

CUT = " [cut]"
"""The end of a text that was cut; a list or an object that was cut only has fewer of its first items."""


def shorten(value: Any) -> Any:
    """Return *value* within the bounds: its first items, and texts cut where there is no more room."""
    return _Cut().of(value)


class _Cut:
    """One walk, and the room that is left."""

    __slots__ = ("_chars", "_values")

    def __init__(self) -> None:
        self._chars = MAX_CHARS
        self._values = MAX_VALUES

    def of(self, value: Any) -> Any:
        self._values -= 1
        match value:
            case str():
                return self._text(value)
            case dict():
                return {
                    self._text(name): self.of(part) for name, part in islice(value.items(), MAX_ITEMS) if self._room
                }
            case list() | tuple():
                return [self.of(part) for part in islice(value, MAX_ITEMS) if self._room]
            case _:
                return value

    @property
    def _room(self) -> bool:
        return self._values > 0

    def _text(self, text: str) -> str:
        kept = text if len(text) <= self._chars else text[: max(0, self._chars - len(CUT))] + CUT
        self._chars = max(0, self._chars - len(kept))
        return kept
