"""Globs over names, of `*`, `?` and `[…]`: what `fnmatch.fnmatchcase` matches is matched, and nothing else.

Tasks bring hundreds of them, which are held against tools where the facts of all runs are committed and all calls are
decided. `fnmatch` makes a regular expression of each, which takes a millisecond and more. Here a pattern is read once,
and a letter of a name costs the same whatever the pattern is: all places of the pattern up to which the name may have
matched are the bits of one number.
"""

from functools import lru_cache
from itertools import pairwise

MAX_READ = 2_048
"""Patterns that are remembered: a task has at most 256, a thread 512."""


def name_matches(pattern: str, name: str) -> bool:
    """Return whether the glob *pattern* matches the whole of *name*, case-sensitively."""
    if "*" in pattern or "?" in pattern or "[" in pattern:
        return pattern == "*" or _read(pattern).matches(name)
    return pattern == name


class _Letters:
    """The letters of one bracket: single ones, ranges, or all others."""

    __slots__ = ("_but", "_ranges", "_single")

    def __init__(self, text: str) -> None:
        parts = _parts(text) if "-" in text else [text]
        self._but = parts[0].startswith("!")
        if self._but:
            parts[0] = parts[0][1:]
        if not parts[0] and len(parts) > 1:  # of `[b-a!-c]` is left `[!-c]`: what begins with `-` has no range there
            parts[:2] = ["-" + parts[1]]
        self._single = frozenset("".join(parts))
        self._ranges = [(low[-1], high[0]) for low, high in pairwise(parts)]

    def __contains__(self, letter: str) -> bool:
        named = letter in self._single or any(low <= letter <= high for low, high in self._ranges)
        return named is not self._but


def _parts(text: str) -> list[str]:
    """Return *text* split at the `-` of its ranges; ranges without a letter are left out, as `fnmatch` does."""
    parts, begin = [], 0
    place = text.find("-", 2 if text.startswith("!") else 1)
    while place >= 0:
        parts.append(text[begin:place])
        begin = place + 1
        place = text.find("-", place + 3)
    if text[begin:]:
        parts.append(text[begin:])
    else:
        parts[-1] += "-"
    for after in range(len(parts) - 1, 0, -1):
        if parts[after - 1][-1] > parts[after][0]:
            parts[after - 1] = parts[after - 1][:-1] + parts.pop(after)[1:]
    return parts


def _bracket_end(pattern: str, begin: int) -> int:
    """Return where the `]` of the bracket stands whose text begins at *begin*; -1 where it is not closed."""
    first = begin + pattern.startswith("!", begin)
    return pattern.find("]", first + pattern.startswith("]", first))


class _NameGlob:
    """One pattern that was read. A bit is a place before a letter, a `?` or a bracket, or the end.

    A letter of a name moves the bits that stand before what it fits (`_moves`); those at a `*` stay as well.
    """

    __slots__ = ("_any", "_brackets", "_end", "_least", "_moves", "_own", "_stays")

    def __init__(self, pattern: str) -> None:
        self._moves: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._brackets: list[tuple[int, _Letters]] = []
        self._any = self._stays = self._least = 0
        bit, place = 1, 0
        while place < len(pattern):
            sign = pattern[place]
            place += 1
            if sign == "*":
                self._stays |= bit
                continue
            end = _bracket_end(pattern, place) if sign == "[" else -1
            if sign == "?":
                self._any |= bit
            elif end >= 0:
                self._brackets.append((bit, _Letters(pattern[place:end])))
                place = end + 1
            else:
                self._own[sign] = self._own.get(sign, 0) | bit
            bit <<= 1
            self._least += 1
        self._end = bit

    def matches(self, name: str) -> bool:
        """Return whether the whole of *name* is matched."""
        if len(name) < self._least:
            return False
        moves, stays = self._moves, self._stays
        places = 1
        for letter in name:
            moved = moves.get(letter)
            if moved is None:
                moved = self._moved(letter)
            places = (places & moved) << 1 | places & stays
            if not places:
                return False
        return bool(places & self._end)

    def _moved(self, letter: str) -> int:
        """Return the bits that *letter* moves, and remember those of the letters that names of tools are made of."""
        moved = self._own.get(letter, 0) | self._any
        for bit, letters in self._brackets:
            if letter in letters:
                moved |= bit
        if letter.isascii():
            self._moves[letter] = moved
        return moved


_read = lru_cache(maxsize=MAX_READ)(_NameGlob)
