"""Bounds from above what compiling and searching a regular expression costs, from its text alone.

For linear engines (Rust's `regex`). Such an engine looks at each character once, but at each of them it may follow all
places of the pattern, of which `{100}` makes a hundred. It keeps the sets of places that it has met: a pattern with few
sets is quick on any text, one with more sets than the text has characters is not. All figures are microseconds of one
core, and at least those that were measured. A pattern that is not understood completely has no bound (None).
"""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_PATTERN_WORK = 150_000.0
"""Compiling the most costly pattern that the engine takes: it gives up a pattern that becomes larger than 10 MB."""

MAX_COUNT = 1_000_000

ONCE = 20.0
KNOWN_SET = 0.005
NEW_SET = 0.5
PLACE = 0.01
LOOKING_AROUND = 0.03
PLACE_LOOKING_AROUND = 0.006
"""Of one character: in a set of places that was met before, in a new one, and for each place of it. A search that looks
at the letters around (`\\b`) may have to do without the sets."""

LETTER, CLASS, FEW, WIDE, STRANGE = 5.0, 8.0, 50.0, 300.0, 15.0
"""Compiling a letter, a class, `\\d` or `\\s`, a larger class such as `\\w`, a character beyond ASCII in a class."""

FOLDED = 3
FOLDED_CLASS = 4_000.0
"""Without regard to case: a letter becomes several, and ranges of Unicode are searched for letters once."""

_COUNT = re.compile(r"\{\s*([0-9]*)\s*(?:,\s*([0-9]*)\s*)?\}")
_ESCAPE = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|[xuU]\{[^}]*\}|x..|u.{4}|U.{8}|b\{[^}]*\}|.)", re.DOTALL)
_OPENING = re.compile(r"\((?:\?(?:P?<[^>]*>|(?P<flags>[A-Za-z-]*)(?P<kind>[:)])))?")
_WORDS = re.compile(
    r"(?:\(\?i\))?(?:[^\\.\[\](){}*+?|^$]|\\[^A-Za-z0-9])+(?:\|(?:[^\\.\[\](){}*+?|^$]|\\[^A-Za-z0-9])+)*", re.DOTALL
)
_VERBOSE = re.compile(r"\(\?[A-Za-z-]*x")
_ANCHORED = re.compile(r"(?:\(\?[is]+\))?\^(?![*+?{])")


@dataclass(frozen=True, slots=True)
class PatternWork:
    """What one pattern costs: `compiled` once, and more for each character that is searched."""

    compiled: float
    places: float
    sets: float
    reach: float = math.inf
    looks_around: bool = False

    def search(self, chars: float) -> float:
        """Return what searching a text of *chars* characters costs at most, without compiling."""
        read = min(chars, self.reach)
        if self.looks_around:
            return read * (LOOKING_AROUND + PLACE_LOOKING_AROUND * self.places)
        return read * KNOWN_SET + min(read, self.sets) * (NEW_SET + PLACE * self.places)


@dataclass(slots=True)
class _Item:
    """A part of a pattern: to compile, places, choices that make sets of them, and the longest text that it fits."""

    compiled: float = 0
    places: float = 0
    choices: float = 0
    length: float = 0


@dataclass(slots=True)
class _Group:
    """The parts between two brackets; of several alternatives, `longest` is of those before the last."""

    total: _Item = field(default_factory=_Item)
    last: _Item | None = None
    longest: float = 0

    def add(self, item: _Item) -> None:
        self.last = item
        self.total.compiled += item.compiled
        self.total.places += item.places
        self.total.choices += item.choices
        self.total.length += item.length

    def repeat(self, times: float, *, unbounded: bool, varies: bool) -> None:
        """Repeat the last part: each repetition is compiled, and has places of its own."""
        item = self.last
        if item is None:
            return
        times = min(max(times, 1), MAX_COUNT)
        length = math.inf if unbounded else item.length * times
        again = _Item(item.compiled * times + 1, item.places * times + 1, item.choices * times + varies, length)
        self.total.compiled += again.compiled - item.compiled
        self.total.places += again.places - item.places
        self.total.choices += again.choices - item.choices
        self.total.length += length - item.length if item.length < math.inf else 0
        self.last = again

    def alternative(self) -> None:
        self.longest = max(self.longest, self.total.length)
        self.total.length = 0
        self.last = None
        self.total.compiled += LETTER
        self.total.places += 1
        self.total.choices += 1

    def closed(self) -> _Item:
        found = self.total
        return _Item(found.compiled + 1, found.places + 1, found.choices, max(self.longest, found.length))


class _Reader:
    """Reads a pattern once, from left to right."""

    def __init__(self, pattern: str, *, folds: bool) -> None:
        self.pattern = pattern
        self.folds = folds
        self.place = 0
        self.groups = [_Group()]
        self.once = ONCE
        self.looks_around = False
        self.choice_at_top = False

    def read(self) -> _Item | None:
        """Return the whole of the pattern; None if a part of it is not understood."""
        while self.place < len(self.pattern):
            if not self._step(self.pattern[self.place]):
                return None
        return self.groups[0].closed() if len(self.groups) == 1 else None

    def _step(self, sign: str) -> bool:
        match sign:
            case "(":
                return self._open()
            case ")":
                self.place += 1
                if len(self.groups) == 1:
                    return False
                closed = self.groups.pop().closed()
                self.groups[-1].add(closed)
            case "|":
                self.place += 1
                self.choice_at_top = self.choice_at_top or len(self.groups) == 1
                self.groups[-1].alternative()
            case "*" | "+" | "?" | "{":
                return self._repeat(sign)
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                self.place += 1
                self.groups[-1].add(_Item(1, 1))
            case ".":
                self.place += 1
                self.groups[-1].add(_Item(CLASS, 2, 1, 1))
            case _:
                self.place += 1
                self.groups[-1].add(self._letter())
        return True

    def _letter(self) -> _Item:
        return _Item(LETTER * FOLDED, 2, 0, 1) if self.folds else _Item(LETTER, 1, 0, 1)

    def _open(self) -> bool:
        found = _OPENING.match(self.pattern, self.place)
        if found is None or (
            found["flags"] is None and self.pattern.startswith("(?", self.place) and "<" not in found[0]
        ):
            return False
        if "x" in (found["flags"] or ""):  # white space and comments in patterns: counts may hide in them
            return False
        self.place = found.end()
        if found["kind"] != ")":
            self.groups.append(_Group())
        return True

    def _repeat(self, sign: str) -> bool:
        if sign != "{":
            self.place += 1
            self.groups[-1].repeat(1, unbounded=sign != "?", varies=True)
            return True
        found = _COUNT.match(self.pattern, self.place)
        if found is None:
            return False
        self.place = found.end()
        most = max((int(count[:7]) for count in found.groups() if count), default=1)
        self.groups[-1].repeat(most, unbounded=found[2] == "", varies=found[2] not in (None, found[1]))
        return True

    def _escape(self) -> bool:
        found = _ESCAPE.match(self.pattern, self.place)
        if found is None:
            return False
        self.place = found.end()
        kind = found[0][1]
        if kind in "bBAz<>":
            self.looks_around = self.looks_around or kind not in "Az"
            self.groups[-1].add(_Item(LETTER, 1, 1))
        elif kind in "wWdDsSpP":
            self.once += WIDE / 2 if self.folds else 0
            self.groups[-1].add(_Item(FEW if kind in "ds" else WIDE, 3, 1, 1))
        else:
            self.groups[-1].add(self._letter())
        return True

    def _class(self) -> bool:
        """Read a class; `]` as its first sign is a letter of it, and classes may stand in classes."""
        begin, depth, weight, wide = self.place, 0, CLASS, False
        while self.place < len(self.pattern):
            sign = self.pattern[self.place]
            escape = _ESCAPE.match(self.pattern, self.place) if sign == "\\" else None
            self.place = self.place + 1 if escape is None else escape.end()
            more = _beyond_ascii(sign if escape is None else escape[0])
            weight, wide = weight + more, wide or more > 0
            if sign == "[":
                depth += 1
                if self.pattern.startswith("^", self.place):
                    self.place += 1
                    weight += CLASS
                if self.pattern.startswith("]", self.place):
                    self.place += 1
            elif sign == "]":
                depth -= 1
                if not depth:
                    break
        if depth:
            return False
        weight += (self.place - begin) / 8
        if self.folds:
            self.once += FOLDED_CLASS if wide else CLASS
            weight *= 1 if wide else FOLDED
        self.groups[-1].add(_Item(weight, 3 if wide else 2, 1, 1))
        return True


def _beyond_ascii(part: str) -> float:
    """Return what a letter or an escape of a class adds to compiling it, if there are characters beyond ASCII in it."""
    if part[0] != "\\":
        return 0 if part.isascii() else STRANGE
    if part[1] in "wWdDsSpP":
        return FEW if part[1] in "ds" else WIDE
    return STRANGE if part[1] in "xuU" or not part.isascii() else 0


@functools.lru_cache(maxsize=4_096)
def pattern_work(pattern: str) -> PatternWork | None:
    """Return what *pattern* costs; None where that is not known, as for one with the flag x."""
    folds = re.search(r"\(\?[A-Za-z-]*i", pattern) is not None
    reader = _Reader(pattern, folds=folds)
    whole = reader.read()
    if whole is None:
        return None
    compiled = min(reader.once + whole.compiled, MAX_PATTERN_WORK)
    if _WORDS.fullmatch(pattern):
        return PatternWork(compiled, whole.places, whole.places + 1)
    anchored = _ANCHORED.match(pattern) and not reader.choice_at_top and not re.search(r"\(\?[A-Za-z-]*m", pattern)
    return PatternWork(
        compiled,
        whole.places,
        (whole.places + 1) * 2.0 ** min(whole.choices, 100),
        whole.length + 1 if anchored else math.inf,
        reader.looks_around,
    )


def patterns_in(schema: Any) -> Iterator[str]:
    """Yield the patterns of a JSON Schema, also of parts that are only referred to."""
    if isinstance(schema, Mapping):
        found = schema.get("pattern")
        if isinstance(found, str):
            yield found
        several = schema.get("patternProperties")
        if isinstance(several, Mapping):
            yield from several
        for value in schema.values():
            yield from patterns_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns_in(value)


def compile_work(patterns: Iterable[str]) -> float:
    """Return what compiling *patterns*, each once, costs at most.

    One whose work is not known counts little, since the engine takes none of those, unless it has the flag x.
    """
    return sum(_compile_work(pattern) for pattern in set(patterns))


def _compile_work(pattern: str) -> float:
    work = pattern_work(pattern)
    if work is not None:
        return work.compiled
    return MAX_PATTERN_WORK if _VERBOSE.search(pattern) else ONCE
