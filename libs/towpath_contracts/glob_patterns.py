"""Glob patterns over paths: `*` and `?` stay within a segment, `**` crosses segments.

A letter of a path costs the same whatever the pattern is, since patterns come from models and paths are many. All
places of the pattern up to which a path may have matched are the bits of one number, and a letter moves them at once:
nothing is tried twice (Baeza-Yates and Gonnet, "A new approach to text searching", 1992).
"""

from collections.abc import Iterable

ANY = "**"

MAX_PATTERN = 256
"""Characters of a pattern: the number has about as many bits."""


class GlobPatternTooLongError(ValueError):
    """The pattern has more than MAX_PATTERN characters; the text says so."""


def matching_paths(pattern: str, paths: Iterable[str]) -> list[str]:
    """Return the *paths* that *pattern* matches whole, in order; raises GlobPatternTooLongError."""
    glob = _CompiledGlob(pattern)
    return [path for path in sorted(paths) if glob.matches(path)]


class _CompiledGlob:
    """One compiled pattern.

    A bit is a place before a letter, a `?`, a `**` or the end of a segment. What is read moves the bits that stand
    before it (`_moves`, `_closes`); those within reach of a `*` or at a `**` stay as well (`_stays`, `_crosses`).
    """

    __slots__ = ("_any", "_closes", "_crosses", "_end", "_moves", "_stays")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            msg = f"the pattern has {len(pattern)} characters; the limit is {MAX_PATTERN}"
            raise GlobPatternTooLongError(msg)
        self._moves: dict[str, int] = {}
        self._any = self._stays = self._crosses = self._closes = 0
        place, before = 1, ""
        for part in filter(None, pattern.split("/")):
            if part == ANY == before:
                continue
            place = self._laid(part, place)
            before = part
        self._end = place
        self._stays |= self._crosses
        self._moves = {letter: places | self._any for letter, places in self._moves.items()}

    def _laid(self, part: str, place: int) -> int:
        """Lay out one segment from the bit *place* on; returns the bit behind it."""
        if part == ANY:
            self._crosses |= place
            return place << 1
        for sign in part:
            if sign == "*":
                self._stays |= place
                continue
            if sign == "?":
                self._any |= place
            else:
                self._moves[sign] = self._moves.get(sign, 0) | place
            place <<= 1
        self._closes |= place
        return place << 1

    def matches(self, path: str) -> bool:
        """Return whether the whole of *path* is matched."""
        moves, other, stays, crosses = self._moves, self._any, self._stays, self._crosses
        places = 1 | (1 & crosses) << 1  # where a segment begins, a ** may be over
        for segment in path.split("/"):
            for letter in segment:
                places = (places & moves.get(letter, other)) << 1 | places & stays
            places = (places & self._closes) << 1 | places & crosses
            places |= (places & crosses) << 1
            if not places:
                return False
        return bool(places & self._end)
