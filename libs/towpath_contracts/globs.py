"""Glob patterns over paths: `*` and `?` stay within a segment, `**` crosses segments.

Law: matching takes at most the product of the two lengths, whatever the pattern is: patterns come from models.
"""

from collections.abc import Callable, Iterable, Sequence

ANY = "**"


def matching(pattern: str, paths: Iterable[str]) -> list[str]:
    """Return the *paths* that *pattern* matches whole, in order."""
    parts = [part for part in pattern.split("/") if part]
    return [path for path in sorted(paths) if _greedy(parts, path.split("/"), ANY.__eq__, segment_matches)]


def segment_matches(pattern: str, text: str) -> bool:
    """Say whether *pattern* matches one segment: `*` is any run of characters, `?` any single one."""
    return _greedy(pattern, text, "*".__eq__, lambda sign, letter: sign in ("?", letter))


def _greedy(
    pattern: Sequence[str], text: Sequence[str], is_star: Callable[[str], bool], is_one: Callable[[str, str], bool]
) -> bool:
    """Match with one place to go back to, the last star: an earlier one never has to give way."""
    at, place, star, mark = 0, 0, -1, 0
    while place < len(text):
        if at < len(pattern) and is_star(pattern[at]):
            star, mark = at, place
            at += 1
        elif at < len(pattern) and is_one(pattern[at], text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return all(is_star(sign) for sign in pattern[at:])
