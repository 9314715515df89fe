"""Reading what a model wrote: find the JSON object, then hold it against what was asked for.

An answer is a decision in form or it is refused with a reason that the model can act on. Unknown actions and
unknown fields are refused. Whatever a model writes, reading it takes time in proportion to its length and never raises.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from pydantic_core import from_json

from towpath_contracts.base import JsonObject
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, json_fault

WHOLE_ANSWER = "answer"
"""How an answer is called as the place of what is wrong with it."""

MAX_CANDIDATES = 16
"""Places in a text where an object is looked for; a model that writes prose rarely opens more braces than this."""

MAX_SIGNS = 100_000
"""Braces, quotes and backslashes that are looked at for that, in all places together: a fiftieth of a second."""

_FENCED = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_SIGN = re.compile(r'["{}\\]')

Check = Callable[[JsonObject], str]
"""Says what is wrong with an object; an empty text means that it is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedAnswer:
    """What the model answered, as it wrote it."""

    value: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAnswer:
    """Why an answer can't be used, in words for the model."""

    reason: str


def read_answer(text: str, check: Check) -> AcceptedAnswer | RefusedAnswer:
    """Read the one object in *text* and *check* it."""
    found = find_object(text)
    if isinstance(found, RefusedAnswer):
        return found
    reason = check(found.value)
    return RefusedAnswer(reason=reason) if reason else found


def find_object(text: str) -> AcceptedAnswer | RefusedAnswer:
    """Return the first JSON object in *text*, also from within a code fence or prose."""
    whole = _parse(text)
    if isinstance(whole, AcceptedAnswer):
        return whole
    fence = _FENCED.search(text)
    if fence is not None:
        inner = _parse(fence.group(1))
        if isinstance(inner, AcceptedAnswer):
            return inner
    for candidate in _candidates(text):
        inside = _parse(candidate)
        if isinstance(inside, AcceptedAnswer):
            return inside
    return whole


def _parse(text: str) -> AcceptedAnswer | RefusedAnswer:
    try:
        value = from_json(text, allow_inf_nan=False)
    except TypeError:
        return RefusedAnswer(reason="not JSON: it holds half of a surrogate pair")
    except ValueError as error:
        return RefusedAnswer(reason=f"not JSON: {error}" if text.strip() else "the answer is empty")
    if not isinstance(value, dict):
        return RefusedAnswer(reason=f"a JSON object is wanted, not {type(value).__name__}")
    fault = json_fault(value, max_depth=MAX_VALUE_DEPTH)  # what could not be stored, sent on or read by others
    return AcceptedAnswer(value=value) if fault is None else RefusedAnswer(reason=fault)


def _candidates(text: str) -> list[str]:
    """Return the outermost balanced brace groups of *text*, in one pass per place tried."""
    found: list[str] = []
    start, left = text.find("{"), MAX_SIGNS
    for _ in range(MAX_CANDIDATES):
        if start < 0 or left <= 0:
            break
        end, seen = _balanced_end(text, start, left)
        left -= seen
        if end > 0:
            found.append(text[start:end])
        start = text.find("{", end if end > 0 else start + 1)
    return found


def _balanced_end(text: str, start: int, most: int) -> tuple[int, int]:
    """Return where the object that opens at *start* ends, or -1, and how many of *most* signs were looked at.

    Braces inside strings do not count.
    """
    depth, quoted, escaped_at, seen = 0, False, -1, 0
    for seen, match in enumerate(islice(_SIGN.finditer(text, start), most), start=1):
        sign, place = match.group(), match.start()
        if quoted:
            if place == escaped_at:
                continue
            if sign == "\\":
                escaped_at = place + 1
            elif sign == '"':
                quoted = False
        elif sign == '"':
            quoted = True
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return place + 1, seen
    return -1, seen
