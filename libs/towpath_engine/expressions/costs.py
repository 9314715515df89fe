"""Finds what makes an acceptance criterion too expensive, before the run begins.

The input of a criterion is bounded (`towpath_engine.rules.criteria_input`), so its running time is bounded by its own
text. A macro iterates over values that exist, and may look at one more value for each of them. A pattern has a limited
number of positions, because a search takes as long as the text times these.
"""

import functools
import importlib
import re
from typing import Any

MAX_PATTERN = 256
"""Characters of a pattern of `matches`."""

MAX_PLACES = 4_096
"""Characters of a pattern times all its counts, as in `[0-9a-f]{64}`: each of them may be a place to be in."""

MAX_SUMS = 4
"""Signs + within a macro, none in map: each makes one text or list more for every item."""

_RAW_BLOCK = re.compile(r"""[rR][bB]?(?:'{3}|"{3})""")
_MACRO = re.compile(r"\.\s*(all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_MATCHES = re.compile(r"\bmatches\s*\(")
_PLAIN_MATCHES = re.compile(r'\.\s*matches\s*\(\s*"(\d+)"\s*\)')
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x")
_COUNT = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_PATH = r"""\.\s*\w+|\[\s*"?\d+"?\s*\]"""
_NEW_VALUE = re.compile(r'\{|(?<![\w)\]"\s])\s*\[')


@functools.cache
def library() -> Any:
    """Import the library at the first expression: its command line comes with it, and few processes need either."""
    return importlib.import_module("cel")


def expensive_part(text: str, literal: re.Pattern[str], names: frozenset[str]) -> str:
    """Describe what of a criterion takes too long, in one line; empty where nothing does.

    *literal* finds texts and comments, *names* are those of what a criterion sees.
    """
    if _RAW_BLOCK.search(text):
        return "write raw texts in one pair of quotes, not in three"
    texts: list[str] = []

    def kept(found: re.Match[str]) -> str:
        if found[0].startswith("//"):
            return " "
        texts.append(found[0])
        return f'"{len(texts) - 1}"'

    plain = literal.sub(kept, text)
    macro = _MACRO.search(plain)
    return _dear_search(plain, texts, beside=macro is not None) or (_dear_macro(plain, macro, names) if macro else "")


def _dear_search(plain: str, texts: list[str], *, beside: bool) -> str:
    count = len(_MATCHES.findall(plain))
    if not count:
        return ""
    if count > 1 or beside:
        return "a criterion may use matches once, and not beside a macro: give two criteria, or use contains"
    found = _PLAIN_MATCHES.search(plain)
    if found is None:
        return "write matches as name.matches('pattern'), with the pattern in quotes"
    pattern = library().compile(texts[int(found[1])]).execute({})
    if not isinstance(pattern, str) or _VERBOSE.search(pattern):
        return "a pattern is a text, without the flag x"
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters; the limit is {MAX_PATTERN}"
    places = len(pattern)
    for counts in _COUNT.findall(pattern):
        places *= max([1, *(int(count) for count in counts if count)])
    if places > MAX_PLACES:
        return f"the pattern has {places} places with its counts; the limit is {MAX_PLACES}"
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
