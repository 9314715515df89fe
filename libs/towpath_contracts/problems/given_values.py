"""Faults of files told with the value that a person has given."""

import re
from collections.abc import Iterable
from typing import Any

from towpath_contracts.problems.input_faults import WRONG_TYPES, in_plain_words
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.text import ELLIPSIS, SECRET_NAME, visible_json

MAX_SHOWN = 40
"""Characters of a value that is repeated."""

_SECRET_CHARS = 16
"""From here on a word with a digit may be a secret."""

_SECRET_PLACE = re.compile(rf"/(?:env|headers)(?:/|$)|{SECRET_NAME.pattern}", re.IGNORECASE)
"""Where any value may be a secret, whatever its key is called."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def in_words_of_a_file(details: Iterable[ProblemDetail], written: Any) -> tuple[ProblemDetail, ...]:
    """Return *details* in plain words, each wrong type with the value that stands there in what was *written*.

    A value that may be a secret, by the keys above it or by its look, is not repeated.
    """
    return tuple(
        one.model_copy(update={"detail": _not_that(one, value_at(one.pointer, written))})
        for one in in_plain_words(details)
    )


def value_at(pointer: str, written: Any) -> Any:
    """Return what *written* has at *pointer*; None where it has nothing there."""
    found = written
    for part in pointer.split("/")[1:]:
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found


def _not_that(one: ProblemDetail, given: Any) -> str:
    told = one.detail
    if one.code not in WRONG_TYPES or isinstance(given, dict | list) or _SECRET_PLACE.search(one.pointer):
        return told  # a mapping or list may be endless
    shown = "nothing" if given is None else visible_json(given)
    if SECRET_NAME.search(shown) or _looks_like_a_secret(shown):
        return told
    shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}{ELLIPSIS}"
    told = told.replace(" belongs here", f" belongs here, not {shown}", 1)
    if "bool" in one.code:
        return told + suggest_name(str(given), ("true", "false"), shown=str)
    if isinstance(given, str) and len(given) <= MAX_SHOWN and _NAME.fullmatch(given):
        return told.replace(": [first, second]", f": write [{given}]")
    return told


def _looks_like_a_secret(text: str) -> bool:
    """Whether a word of *text* looks as keys and tokens do: long, without spaces and with digits."""
    return any(len(word) >= _SECRET_CHARS and any(map(str.isdecimal, word)) for word in text.split())
