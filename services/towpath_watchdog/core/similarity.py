"""How alike two actions are, and whether a result says something new.

Pure functions over bounded texts. Precision comes first: somebody who works through a list is not somebody who
asks the same thing again in other words, so what varies between two calls is looked at by itself.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

SIMILAR = 0.7
"""Two actions whose tokens overlap by more than this are similar."""

REPHRASED = 0.5
"""Two texts that share more words than this are two ways to say one thing; two entries of a list share fewer."""

TEXT_CHARS = 600
"""Of an argument or result, as far as it is compared: the rest of a long text hardly changes its likeness."""

MAX_LEAVES = 40

_WORD = re.compile(r"\w+")
_PLAIN_WORD = re.compile(r"[^\W\d_]+")
_ENTRY = re.compile(r"(.*)\[\d+\]", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # times
    r"|\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds|µs)\b"  # how long something took
    r"|0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}\b",  # addresses, ids
    re.IGNORECASE,
)


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the share of tokens that both have, 0 to 1; two that have none are the same."""
    together = len(left | right)
    return len(left & right) / together if together else 1.0


@lru_cache(maxsize=4_096)
def words(text: str) -> frozenset[str]:
    """Return the words of *text*, without their case."""
    return frozenset(_WORD.findall(text.lower()))


def leaves(value: Any, path: str = "") -> dict[str, str]:
    """Return the values of a call's arguments by their path, each as text; at most MAX_LEAVES of them."""
    found: dict[str, str] = {}
    _gather(value, path, found)
    return found


def _gather(value: Any, path: str, found: dict[str, str]) -> None:
    if len(found) >= MAX_LEAVES:
        return
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            _gather(value[key], f"{path}.{key}" if path else str(key), found)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _gather(item, f"{path}[{index}]", found)
    else:
        found[path] = str(value)[:TEXT_CHARS]


def tokens(tool: str, args: dict[str, str]) -> frozenset[str]:
    """Return the tokens of a call: its tool, the paths of its arguments, and the words of their values.

    A value without white space (an id, a path, a number) is one token: it names a thing and is not made of words.
    """
    found = {f"tool:{tool}"}
    for path, text in args.items():
        found.add(f"at:{path}")
        found.update(words(text) if " " in text else (text.lower(),))
    return frozenset(found)


def rephrased(left: dict[str, str], right: dict[str, str]) -> bool:
    """Return whether what varies between two calls are other words for the same thing."""
    varying = [path for path in {*left, *right} if left.get(path) != right.get(path)]
    changed = [path for path in varying if jaccard(words(left.get(path, "")), words(right.get(path, ""))) <= REPHRASED]
    lists = {_list_of(path) for path in changed}
    return all(path is not None and _reordered(_entries(left, path), _entries(right, path)) for path in lists)


def _list_of(path: str) -> str | None:
    """Return the list of which the value at *path* is an entry; None for any other value."""
    found = _ENTRY.fullmatch(path)
    return None if found is None else found[1]


def _entries(args: dict[str, str], of: str) -> list[str]:
    return [text.lower() for path, text in args.items() if _list_of(path) == of]


def _reordered(left: list[str], right: list[str]) -> bool:
    """Return whether two lists have the same entries, in any order, or one has some plain words more.

    A list in which an entry stands in the place of another names another thing.
    """
    few, many = sorted((frozenset(left), frozenset(right)), key=len)
    if few == many:
        return True
    return few < many and _are_plain_words(many) and jaccard(few, many) > REPHRASED


def _are_plain_words(entries: Iterable[str]) -> bool:
    return all(_PLAIN_WORD.fullmatch(entry) for entry in entries)


@lru_cache(maxsize=4_096)
def plain_result(text: str) -> str:
    """Return *text* without times, durations, addresses and ids, which differ between two equal answers."""
    return _VOLATILE.sub("#", text)


@lru_cache(maxsize=4_096)
def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


def is_same_result(left: tuple[str, str], right: tuple[str, str]) -> bool:
    """Return whether two results, each with what was asked for, have the same content.

    They have where they are the same texts, or have the same words and numbers but for those that were asked for: an
    echo has no content, and neither does another order.
    """
    one, other = plain_result(left[0]), plain_result(right[0])
    if one == other:
        return True
    asked = words(left[1]) | words(right[1])
    if words(one) - asked != words(other) - asked:
        return False
    asked = _numbers(left[1]) | _numbers(right[1])
    return _numbers(one) - asked == _numbers(other) - asked
