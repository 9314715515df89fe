"""Estimates what evaluating a condition costs, before it is evaluated: what runs too long can't be interrupted.

A condition is harmless as long as every part of it runs once over arguments of bounded length. What multiplies the work
is counted here: macros (`all`, `exists`, `exists_one`, `map`, `filter`) run their bodies for every element, `map` and
`filter` copy what they have collected each time, `+` makes longer texts and lists, and `matches` compiles its pattern
each time. The estimate is an upper bound in about microseconds, made from the condition's text and the sizes of what it
sees, not from a clock: the same call is decided in the same way everywhere.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_WORK = 100_000
"""Work of all conditions of one decision; in practice most of it takes a third of that many microseconds."""

MAX_PATTERN = 150_000
"""Compiling the most costly pattern that the engine takes."""

UNKNOWN_PATTERN = 20_000
"""Compiling a pattern that only the call brings."""

PART = 0.4
"""One operator, name or literal, evaluated once."""

MOVED = 0.07
"""Copying or comparing one element of a list."""

CHARS = 1_000
"""Characters that are read or copied in one unit."""

_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
_COLLECTING = frozenset({"map", "filter"})
_SEEN = frozenset({"args", "origin", "run", "agent", "caller"})
_TOKEN = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<sign>&&|\|\||[=!<>]=|[^\s])""",
    re.DOTALL,
)
_REPEATED = re.compile(r"(\))?\{(\d+)(?:,(\d*))?\}")
_WIDE_CLASS = re.compile(r"\\[wWSDpPbB]|\(\?[a-z]*i")


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
            elif isinstance(found, list | tuple):
                self.longest = max(self.longest, len(found))
                waiting += found


@dataclass(slots=True)
class _Level:
    """What is evaluated once for every round of the macros around it."""

    parts: int = 0
    collecting: int = 0
    joined: int = 0
    seen: int = 0
    patterns: float = 0


@dataclass(slots=True)
class ConditionWork:
    """What one condition may multiply; `levels` by how many macros are around them."""

    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    listed: int = 0

    def estimate(self, sizes: ContextSizes) -> float:
        """Return the work for a context of these sizes at most."""
        joined = sum(level.joined for level in self.levels[1:])
        growth = float((1 + self.levels[0].joined) * 2 ** min(joined, 64))
        rounds = max(sizes.longest, self.listed, 1) * (growth if len(self.levels) > 1 else 1)
        total = 0.0
        for depth, level in enumerate(self.levels):
            once = level.parts * PART + level.patterns
            once += level.collecting * MOVED * rounds * rounds * sum(inner.parts for inner in self.levels[depth + 1 :])
            once += level.joined * growth * (sizes.text / CHARS + sizes.longest * MOVED)
            if depth:
                once += level.seen * (sizes.values * MOVED + sizes.text / CHARS)
            total += rounds**depth * once + (rounds ** (depth - 1) * level.parts * sizes.chars / CHARS if depth else 0)
        return total


def work_of(text: str) -> ConditionWork | None:
    """Return what *text* may multiply; None if each of its parts runs once and joins nothing."""
    tokens = [(found.lastgroup or "", found[0]) for found in _TOKEN.finditer(text)]
    work = ConditionWork()
    opened: list[bool] = []
    for place, (kind, word) in enumerate(tokens):
        level = _level(work, sum(opened))
        called = kind == "name" and _sign(tokens, place + 1) == "("
        if word == "(" and kind == "sign":
            before = tokens[place - 1] if place else ("", "")
            opened.append(before[0] == "name" and before[1] in _MACROS and _sign(tokens, place - 2) == ".")
        elif word == ")" and kind == "sign":
            opened = opened[:-1]
        elif word == "," and kind == "sign":
            work.listed += 1
        elif word != ".":
            level.parts += 1
            level.joined += word == "+" and kind == "sign"
            level.collecting += called and word in _COLLECTING
            level.seen += kind == "name" and word in _SEEN and _sign(tokens, place - 1) != "."
            level.patterns += _pattern_work(tokens, place) if called and word == "matches" else 0
    work.listed += 1
    multiplies = len(work.levels) > 1 or work.levels[0].joined > 1 or work.levels[0].patterns
    return work if multiplies else None


def _level(work: ConditionWork, depth: int) -> _Level:
    while len(work.levels) <= depth:
        work.levels.append(_Level())
    return work.levels[depth]


def _sign(tokens: list[tuple[str, str]], place: int) -> str:
    return tokens[place][1] if 0 <= place < len(tokens) and tokens[place][0] == "sign" else ""


def _pattern_work(tokens: list[tuple[str, str]], place: int) -> float:
    """Return what compiling the pattern of the `matches` at *place* costs, once."""
    argument = tokens[place + 2] if place + 2 < len(tokens) else ("", "")
    if argument[0] != "text" or _sign(tokens, place + 3) != ")":
        return UNKNOWN_PATTERN
    pattern = argument[1]
    groups = alone = 1
    for closed, least, most in _REPEATED.findall(pattern):
        times = max(int(least[:6]), int((most or "0")[:6]), 1)
        if closed:
            groups *= times
        else:
            alone += times
    wide = bool(_WIDE_CLASS.search(pattern))
    return float(min(20 + (len(pattern) + (300 if wide else 5) * alone) * groups, MAX_PATTERN))


def sizes_of(values: Iterable[Any]) -> ContextSizes:
    """Return the sizes of all *values* together."""
    sizes = ContextSizes()
    for value in values:
        sizes.add(value)
    return sizes
