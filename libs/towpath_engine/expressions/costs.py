"""Finds what makes an acceptance criterion too expensive, before the run begins.

The input of a criterion is bounded (`towpath_engine.rules.criteria_input`), so its running time is bounded by its own
text. A macro iterates over values that exist, and may look at one more value for each of them. A pattern has a limited
number of positions, because a search takes as long as the text times these, and is compiled at each evaluation.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from towpath_contracts.problems.cel_library import cel_library
from towpath_contracts.schema_bounds.pattern_work import pattern_work

MAX_PATTERN = 256
"""Characters of a pattern of `matches`."""

MAX_PLACES = 4_096
"""Characters of a pattern times all its counts, as in `[0-9a-f]{64}`: each of them may be a place to be in."""

SEARCHED_CHARS = 16_384
"""Characters of one value that a criterion sees, as `towpath_engine.rules.criteria_input` has it."""

MAX_SEARCHES = 50_000.0
"""Microseconds at most that the patterns of all criteria of a goal take, each time that they are evaluated."""

MAX_SUMS = 4
"""Signs + within a macro, none in map: each makes one text or list more for every item."""

_RAW_BLOCK = re.compile(r"""[rR][bB]?(?:'{3}|"{3})""")
_MACRO = re.compile(r"\.\s*(all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_MATCHES = re.compile(r"\bmatches\s*\(")
_PLAIN_MATCHES = re.compile(r'\.\s*matches\s*\(\s*"(\d+)"\s*\)')
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x")
_COUNT = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_PART = re.compile(r"\w+|[^\w\s]")
_PATH = r"""\.\s*\w+|\[\s*"?\d+"?\s*\]"""
_NEW_VALUE = re.compile(r'\{|(?<![\w)\]"\s])\s*\[')


def expensive_part(text: str, literal: re.Pattern[str], names: frozenset[str]) -> str:
    """Describe what of a criterion takes too long, in one line; empty where nothing does.

    *literal* finds texts and comments, *names* are those of what a criterion sees.
    """
    if _RAW_BLOCK.search(text):
        return "write raw texts in one pair of quotes, not in three"
    plain, texts = _without_texts(text, literal)
    macro = _MACRO.search(plain)
    return _dear_search(plain, texts, beside=macro is not None) or (_dear_macro(plain, macro, names) if macro else "")


def search_work(text: str, literal: re.Pattern[str]) -> float:
    """Return the microseconds that compiling and searching with the pattern of a criterion takes at most."""
    plain, texts = _without_texts(text, literal)
    found = _PLAIN_MATCHES.search(plain)
    pattern = None if found is None else cel_library().compile(texts[int(found[1])]).execute({})
    work = pattern_work(pattern) if isinstance(pattern, str) else None
    chars = SEARCHED_CHARS * (1 + plain.count("+"))  # each sum may make a text longer by another value
    return 0.0 if work is None else work.compiled + work.search(chars)


@dataclass(frozen=True, slots=True)
class CriterionWork:
    """What evaluating a criterion costs beside its search, in about microseconds; made from its text once.

    `named` are the names of what a criterion sees, each time that they stand outside of a macro's brackets, `inside`
    those within: each copies its value. `over` are those that a macro goes over, whose items are copied `uses` times.
    """

    parts: int
    named: tuple[str, ...]
    inside: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    uses: int = 0
    listed: int = 0
    collects: bool = False

    def estimate(self, sizes: "Mapping[str, ValueSize]") -> float:
        """Return the work on values with these sizes, at most."""
        work = self.parts * PART + sum(sizes[name].copied for name in self.named)
        if not self.uses:
            return work
        items = max([self.listed, *(sizes[name].longest for name in self.over)])
        looked_at = sum(IN_PLACE if name == FILES_OF else sizes[name].copied for name in self.inside)
        work += items * (self.parts * PART + looked_at)
        work += self.uses * sum(sizes[name].copied for name in self.over)
        return work + items * items * COLLECTED if self.collects else work


@dataclass(slots=True)
class ValueSize:
    """How long copying a value takes, and its longest list or object."""

    copied: float = 0.0
    longest: int = 0


PART, COPIED, CHARS, COLLECTED, IN_PLACE = 0.4, 0.4, 1_000, 0.3, 40.0
"""Of one sign or word; of one value; characters that are copied in one unit; of one item of what map or filter made; of
a look at a file, which are not copied beside a macro."""

FILES_OF = "workspace"


def size_of(value: Any) -> ValueSize:
    """Return the size of *value* with all that is in it."""
    size, waiting = ValueSize(), [value]
    while waiting:
        part = waiting.pop()
        size.copied += COPIED
        if isinstance(part, str):
            size.copied += len(part) / CHARS
        elif isinstance(part, dict | list | tuple):
            size.longest = max(size.longest, len(part))
            waiting += part.values() if isinstance(part, dict) else part
            size.copied += COPIED * len(part) if isinstance(part, dict) else 0
    return size


def work_of(text: str, literal: re.Pattern[str], names: Collection[str]) -> CriterionWork:
    """Return what a criterion costs; *names* are those of what a criterion sees."""
    plain, _ = _without_texts(text, literal)
    parts = len(_PART.findall(plain))
    seen = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(names))})\b")
    macro = _MACRO.search(plain)
    if macro is None:
        return CriterionWork(parts, tuple(seen.findall(plain)))
    end = _closing(plain, macro.end())
    body, before = plain[macro.end() : end], plain[: macro.start()]
    bound = re.compile(rf"(?<![\w.]){re.escape(macro[2])}\b")
    return CriterionWork(
        parts,
        named=tuple(seen.findall(before + plain[end:])),
        inside=tuple(name for name in seen.findall(body) if name != macro[2]),
        over=tuple(dict.fromkeys(seen.findall(before))),
        uses=1 + len(bound.findall(body)),
        listed=1 + before.count(","),
        collects=macro[1] in ("map", "filter"),
    )


def _without_texts(text: str, literal: re.Pattern[str]) -> tuple[str, list[str]]:
    """Return *text* without comments and with numbers in place of its texts, and these texts."""
    texts: list[str] = []

    def kept(found: re.Match[str]) -> str:
        if found[0].startswith("//"):
            return " "
        texts.append(found[0])
        return f'"{len(texts) - 1}"'

    return literal.sub(kept, text), texts


def _dear_search(plain: str, texts: list[str], *, beside: bool) -> str:
    count = len(_MATCHES.findall(plain))
    if not count:
        return ""
    if count > 1 or beside:
        return "a criterion may use matches once, and not beside a macro: give two criteria, or use contains"
    found = _PLAIN_MATCHES.search(plain)
    if found is None:
        return "write matches as name.matches('pattern'), with the pattern in quotes"
    pattern = cel_library().compile(texts[int(found[1])]).execute({})
    if not isinstance(pattern, str) or _VERBOSE.search(pattern):
        return "a pattern is a text, without the flag x"
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters; the limit is {MAX_PATTERN}"
    places = len(pattern)
    for counts in _COUNT.findall(pattern):
        places *= max([1, *(int(count) for count in counts if count)])
    if places > MAX_PLACES:
        return f"the pattern has {places} places with its counts; the limit is {MAX_PLACES}"
    if pattern_work(pattern) is None:
        return "the pattern can't be used: it looks around, or has a bracket that is not closed"
    return ""


def _dear_macro(plain: str, macro: re.Match[str], names: frozenset[str]) -> str:
    kind, bound = macro[1], macro[2]
    seen = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(names))})\b")
    if not _is_there(plain[: macro.start()], seen):
        return f"{kind} goes over what a criterion sees, such as results.{kind}(…), or over a list without such names"
    body = plain[macro.end() : _closing(plain, macro.end())]
    named = [name for name in seen.findall(body) if name not in (bound, "tests")]  # tests are a few numbers
    if len(named) > 1 or (named and kind == "map"):
        much, listed = "nothing" if kind == "map" else "one thing", ", ".join(named)
        return (
            f"beside its item and tests, {kind} may look at {much} in its brackets, not at {listed}: give two criteria"
        )
    if kind == "map" and ("+" in body or _NEW_VALUE.search(body)):
        return "map may not make texts, lists or objects in its brackets"
    if body.count("+") > MAX_SUMS:
        return f"{kind} may have {MAX_SUMS} signs + in its brackets"
    return ""


def _is_there(before: str, seen: re.Pattern[str]) -> bool:
    """Return whether what a macro goes over is a name with its members, or a list in which no name is."""
    there = re.search(rf"(?<![\w.\])}}\"])({seen.pattern})\s*(?:(?:{_PATH})\s*)*$", before)
    listed = re.search(r'(?<![\w)\]}"\s])\s*(\[[^\[\]]*\])\s*$', before)
    return there is not None or (listed is not None and not seen.search(listed[1]))


def _closing(plain: str, start: int) -> int:
    """Return where the bracket that is open at *start* is closed."""
    depth = 1
    for found in re.finditer("[()]", plain[start:]):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return start + found.start()
    return len(plain)
