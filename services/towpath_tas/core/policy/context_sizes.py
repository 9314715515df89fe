"""The sizes of what a condition sees, on which its work depends: each measured once for all conditions of a call."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEEN = 0.25
"""Copying or comparing one value that a condition names, in lists or objects of any kind."""

CHARS = 1_000
"""Characters that are read or copied in one unit."""

Path = tuple[str, ...]
"""A name of `VARIABLES` and the members that follow it."""

_IN_PLACE = 2
"""The length of a path, like `args.m`, up to which it is read without a copy of what is around it."""

_LISTS = (list, tuple)
_HOLDERS = (dict, list, tuple)
"""Not as `dict | list | tuple` where it is used: that makes the union anew at each call, which takes longer than all
that is done with it here."""


@dataclass(slots=True)
class ContextSizes:
    """The longest list or map, the longest text, and how many values and characters there are."""

    longest: int = 0
    text: int = 0
    values: int = 0
    chars: int = 0

    def add(self, value: Any) -> None:
        """Count *value* with all that is in it."""
        waiting = [value]
        while waiting:
            found = waiting.pop()
            self.values += 1
            if isinstance(found, str):
                self.text = max(self.text, len(found))
                self.chars += len(found)
            elif isinstance(found, dict):
                self.longest = max(self.longest, len(found))
                waiting += found
                waiting += found.values()
            elif isinstance(found, _LISTS):
                self.longest = max(self.longest, len(found))
                waiting += found


class ContextMeasure:
    """The sizes of what a condition sees, each measured once."""

    __slots__ = ("_context", "_known", "_touched")

    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._known: dict[Path, ContextSizes] = {}
        self._touched: dict[Path, float] = {}

    def touched(self, path: Path) -> float:
        """Return the work of copying or comparing what is at *path* once, and of coming there.

        The engine reads a member of `args` in place, and copies a member before it reads one of that: for `args.m.x`
        all of `args.m`. What is further down is part of it, so that is measured once, however many paths lead there.
        """
        found = self._touched.get(path)
        if found is None:
            value = _value_at(self._context, path)
            deeper = len(path) - _IN_PLACE
            if isinstance(value, str):
                found = SEEN + len(value) / CHARS
            elif deeper <= 0 and isinstance(value, _HOLDERS):
                found = touched(self.at(path))
            else:
                found = SEEN
            if deeper > 0:
                found += (deeper + isinstance(value, _HOLDERS)) * self.touched(path[:_IN_PLACE])
            self._touched[path] = found
        return found

    def everything(self) -> float:
        """Return the work of copying or comparing all that a condition sees once."""
        return touched(self.at(()))

    def at(self, path: Path) -> ContextSizes:
        """Return the sizes of what is at *path*; of everything for the empty path."""
        found = self._known.get(path)
        if found is None:
            values = (_value_at(self._context, path),) if path else self._context.values()
            found = self._known[path] = sizes_of(values)
        return found


def touched(sizes: ContextSizes) -> float:
    return sizes.values * SEEN + sizes.chars / CHARS


def sizes_of(values: Iterable[Any]) -> ContextSizes:
    """Return the sizes of all *values* together."""
    sizes = ContextSizes()
    for value in values:
        sizes.add(value)
    return sizes


def _value_at(context: Mapping[str, Any], path: Path) -> Any:
    """Return the value at *path*, None if there is none; a list on the way counts as a whole."""
    value: Any = context
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, _LISTS):
            break
        else:
            return None
    return value
