"""Estimates what evaluating a condition costs, before it is evaluated: what runs too long can't be interrupted.

What multiplies the work is counted: macros (`all`, `exists`, `exists_one`, `map`, `filter`) run their bodies for every
element, `map` and `filter` copy what they have collected each time, `+` makes longer texts and lists, `matches`
compiles its pattern each time and searches a text with it, and each name copies or compares the value that it stands
for, as does each member of a member. The estimate is an upper bound in about microseconds, made from the condition's
text and the sizes of what it sees, not from a clock: the same call is decided in the same way everywhere.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from towpath_contracts.schema_bounds.pattern_work import PatternWork, pattern_work
from towpath_tas.core.policy.condition_tokens import Token, is_macro, macro_variables, sign_at, text_value, tokens_of
from towpath_tas.core.policy.context_sizes import CHARS, SEEN, ContextMeasure, Path, touched

MAX_WORK = 100_000
"""Work of all conditions of one decision; in practice most of it takes a third of that many microseconds."""

MOST = 1e18
"""More than anything that is allowed, and still a number that can be multiplied and added."""

PART = 0.4
"""One operator, name or literal, evaluated once."""

MOVED = 0.07
"""Copying or comparing one element of a list."""

VARIABLES = frozenset({"args", "run", "agent", "caller", "origin"})
"""The names that a condition may use. `origin` says where the values of arguments come from."""

_COLLECTING = frozenset({"map", "filter"})

MAX_SHARED = 4_096
"""Plain works that conditions share; what is dropped is estimated once more for each condition."""

WRITTEN: Path = ("",)
"""In place of the path of a list that the condition writes out, of nothing but texts and numbers."""


@dataclass(frozen=True, slots=True)
class _Search:
    """One `matches`. It searches what is at `path`, or each element of it; texts that are made have no path."""

    pattern: PatternWork
    path: Path | None
    each: bool


@dataclass(slots=True)
class _Level:
    """What is evaluated once for every round of the macros around it.

    `seen` are names of VARIABLES, `elements` the paths of what macros go over, each time that an element is named, or a
    member of its members. `members` counts those that are read of something else: of what brackets or a call give.
    """

    parts: int = 0
    collecting: int = 0
    joined: int = 0
    compared: int = 0
    members: int = 0
    seen: list[Path] = field(default_factory=list)
    elements: list[Path | None] = field(default_factory=list)
    searches: list[_Search] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class PlainWork:
    """What a condition costs of which each part is evaluated once, and makes and searches nothing: most are so.

    Conditions that have the same have one object (`_plain_work`), by which what they cost in one context is found.
    """

    parts: int
    members: int
    seen: tuple[Path, ...]

    def estimate(self, measure: ContextMeasure) -> float:
        """Return the work at most on a context with these sizes."""
        seen = sum(map(measure.touched, self.seen))
        loose = self.members * (measure.everything() + seen) if self.members else 0.0
        return min(self.parts * PART + seen + loose, MOST)


_plain_work = functools.lru_cache(maxsize=MAX_SHARED)(PlainWork)


@dataclass(slots=True, eq=False)
class ConditionWork:
    """What one condition costs; `levels` by how many macros are around them.

    `listed` are the values that it has in lists, `nested` those of lists that macros make of what they see.
    """

    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    listed: int = 1
    nested: int = 0
    chars: int = 0

    def plain(self) -> PlainWork | None:
        """Return the same as work that many conditions share, if this is plain."""
        first = self.levels[0]
        if len(self.levels) > 1 or first.joined or first.searches:
            return None
        return _plain_work(first.parts, first.members, tuple(first.seen))

    def estimate(self, measure: ContextMeasure) -> float:
        """Return the work at most on a context with these sizes."""
        sizes = measure.at(())
        joined = sum(level.joined for level in self.levels[1:])
        growth = float((1 + self.levels[0].joined) * 2 ** min(joined, 64))
        made = growth * 2 ** min(self.nested, 64) * (touched(sizes) + self.listed * SEEN)
        rounds = min(max(sizes.longest, self.listed, 1) * (growth if len(self.levels) > 1 else 1), 1e9)
        held = sum(sum(map(measure.touched, level.seen)) for level in self.levels if level.seen)
        total = 0.0
        for depth, level in enumerate(self.levels):
            outer = _times(rounds, depth - 1)
            once = level.parts * PART + sum(search.pattern.compiled for search in level.searches)
            once += level.collecting * MOVED * rounds * rounds * sum(inner.parts for inner in self.levels[depth + 1 :])
            once += level.joined * growth * (sizes.text / CHARS + sizes.longest * MOVED)
            once += sum(map(measure.touched, level.seen)) + level.members * (made + held)
            once += made * (sum(path is None for path in level.elements) + (level.compared if self.nested else 0))
            once += sum(self._search(search, measure, growth) for search in level.searches if not search.each)
            total += _times(rounds, depth) * once + (outer * level.parts * sizes.chars / CHARS if depth else 0)
            total += outer * sum(touched(measure.at(path)) for path in level.elements if path is not None)
            total += outer * sum(self._search(search, measure, growth) for search in level.searches if search.each)
        return min(total, MOST)

    def _search(self, search: _Search, measure: ContextMeasure, growth: float) -> float:
        """Return what a search costs; of *each* element, for all of them together."""
        if search.path is None:
            return search.pattern.search(max(measure.at(()).text, self.chars) * growth)
        return search.pattern.search(measure.at(search.path).chars if search.each else measure.at(search.path).text)


def _times(rounds: float, depth: int) -> float:
    """Return *rounds* to the power *depth*, at most MOST: floats raise above 1e308."""
    found = 1.0
    for _ in range(depth):
        found = min(found * rounds, MOST)
    return found


def work_of(text: str) -> PlainWork | ConditionWork:
    """Return what *text* costs; raises ValueError for a condition of which that can't be told."""
    tokens = tokens_of(text)
    hidden = macro_variables(tokens) & VARIABLES
    if hidden:
        msg = f"{', '.join(sorted(hidden))} can't be the name of an element: give it another"
        raise ValueError(msg)
    work = ConditionWork(listed=1 + sum(token == ("sign", ",") for token in tokens), chars=len(text))
    opened: list[_Bracket] = []
    closed = _Bracket()
    followed = 0
    for place, (kind, word) in enumerate(tokens):
        elements = {bracket.variable: bracket.path for bracket in opened if bracket.variable}
        level = _level(work, len([bracket for bracket in opened if bracket.macro]))
        if kind == "sign" and word in "([{":
            opened.append(_bracket(tokens, place, elements, closed))
        elif kind == "sign" and word in ")]}":
            closed = opened.pop() if opened else _Bracket()
            work.nested += _nested(closed, opened)
        elif kind == "sign" and word == ",":
            if opened:
                opened[-1].commas += 1
        elif word != ".":
            level.parts += 1
            followed = max(followed, _count(level, tokens, place, elements))
            level.members += place >= followed and _is_member(tokens, place)
            if kind == "name" and opened:
                opened[-1].names = True
    return work.plain() or work


@dataclass(slots=True)
class _Bracket:
    """An open bracket: of a macro, which has a variable and goes over what is at `path`, of a list, or another."""

    macro: bool = False
    variable: str = ""
    path: Path | None = None
    lists: bool = False
    names: bool = False
    commas: int = 0


def _bracket(tokens: list[Token], place: int, elements: Mapping[str, Path | None], closed: _Bracket) -> _Bracket:
    """Return the bracket that opens at *place*; *closed* is the one that was closed last."""
    if sign_at(tokens, place) != "(":
        before = tokens[place - 1] if place else Token("sign", "(")
        return _Bracket(lists=before.kind == "sign" and before.word not in (")", "]"))
    if place < 2 or not is_macro(tokens, place - 1):
        return _Bracket()
    variable = tokens[place + 1].word if place + 1 < len(tokens) else ""
    path = _path_before(tokens, place - 2)
    if path is not None and path[0] not in VARIABLES:
        path = elements.get(path[0])
    if sign_at(tokens, place - 3) == "]" and closed.lists and not closed.names:
        path = WRITTEN
    return _Bracket(macro=True, variable=variable, path=path)


def _nested(closed: _Bracket, around: Sequence[_Bracket]) -> int:
    """Return how many values a list that was *closed* adds to each element that a macro makes."""
    if not closed.names:
        return 0
    if around:
        around[-1].names = True
    return closed.commas if closed.lists and any(bracket.macro for bracket in around) else 0


def _count(level: _Level, tokens: list[Token], place: int, elements: Mapping[str, Path | None]) -> int:
    """Count the token at *place*; return the place behind the members that are counted with it."""
    kind, word = tokens[place]
    if kind == "sign":
        level.joined += word == "+"
        level.compared += word in ("==", "!=")
    if kind != "name":
        return 0
    level.compared += word == "in"
    level.collecting += word in _COLLECTING and is_macro(tokens, place)
    if word == "matches" and sign_at(tokens, place + 1) == "(":
        level.searches.append(_search(tokens, place, elements))
    elif sign_at(tokens, place - 1) != ".":
        path, behind = _path_from(tokens, place)
        if word in VARIABLES:
            level.seen.append(path)
            return behind
        if word in elements:
            level.elements += [elements[word]] * max(1, len(path) - 1)
            return behind
    return 0


def _is_member(tokens: list[Token], place: int) -> bool:
    """Return whether the token at *place* is a member that is read, not called."""
    return tokens[place].kind == "name" and sign_at(tokens, place - 1) == "." and sign_at(tokens, place + 1) != "("


def _level(work: ConditionWork, depth: int) -> _Level:
    while len(work.levels) <= depth:
        work.levels.append(_Level())
    return work.levels[depth]


def _search(tokens: list[Token], place: int, elements: Mapping[str, Path | None]) -> _Search:
    """Return the `matches` at *place*; raises ValueError unless it has a pattern whose work is known."""
    literal = tokens[place + 2] if place + 2 < len(tokens) else Token("", "")
    pattern = text_value(literal.word) if literal.kind == "text" else None
    if pattern is None or sign_at(tokens, place - 1) != "." or sign_at(tokens, place + 3) != ")":
        msg = "write matches as args.name.matches('pattern'), with the pattern in quotes"
        raise ValueError(msg)
    work = pattern_work(pattern)
    if work is None:
        msg = f"the pattern {pattern[:100]!r} can't be used: it has the flag x, or a bracket that is not closed"
        raise ValueError(msg)
    path = _path_before(tokens, place - 1)
    if path is None or path[0] in VARIABLES:
        return _Search(work, path, each=False)
    path = elements.get(path[0])
    if path == WRITTEN:
        path = None
    return _Search(work, path, each=path is not None)


def _path_from(tokens: list[Token], place: int) -> tuple[Path, int]:
    """Return the name at *place* with the members that follow it, without those that are called; and where it ends."""
    steps = [tokens[place].word]
    place += 1
    while place + 1 < len(tokens):
        member = tokens[place + 1]
        if sign_at(tokens, place) == "." and member.kind == "name" and sign_at(tokens, place + 2) != "(":
            steps.append(member.word)
            place += 2
        elif (
            sign_at(tokens, place) == "[" and sign_at(tokens, place + 2) == "]" and (step := _step(member)) is not None
        ):
            steps.append(step)
            place += 3
        else:
            break
    return tuple(steps), place


def _path_before(tokens: list[Token], place: int) -> Path | None:
    """Return the name with its members that ends before the point at *place*; None for any other expression."""
    steps: list[str] = []
    place -= 1
    while place >= 0:
        if tokens[place].kind == "name":
            steps.append(tokens[place].word)
            if sign_at(tokens, place - 1) != ".":
                return tuple(reversed(steps))
            place -= 2
        elif sign_at(tokens, place) == "]" and sign_at(tokens, place - 2) == "[" and place > 2:
            step = _step(tokens[place - 1])
            if step is None:
                return None
            steps.append(step)
            place -= 3
        else:
            return None
    return None


def _step(token: Token) -> str | None:
    return text_value(token.word) if token.kind == "text" else token.word if token.kind == "number" else None
