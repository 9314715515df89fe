"""JSON that everybody can read, store and write again.

JSON libraries let pass what others then choke on: NaN and infinities (also as 1e999), halves of surrogate pairs,
U+0000 (Postgres has no place for it), and deep nesting (recursive readers stop at about 200 levels). What comes from
outside is refused at the edge, so no process behind it can be stopped by one value.
"""

import json
import re
from itertools import accumulate
from math import isfinite, isinf, isnan
from typing import Any, NoReturn

MAX_DEPTH = 64
"""Levels of nesting of a whole message or body; people's data rarely has ten."""

MAX_VALUE_DEPTH = 48
"""Levels of a value that travels inside messages (a result, arguments, an answer): the rest is for what is around."""

MAX_VALUES = 50_000
"""Values in what a client sends, names of fields beside them not counted: whoever checks it looks at each."""

MAX_NAME_CHARS = 1_024
"""Characters of a field's name in what a client sends: what is wrong below it repeats the name."""

_SUSPICIOUS_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ANY_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Also one without an end: of what is not known to be JSON each byte is looked at once."""

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotStrictJsonError(ValueError):
    """The text is not JSON as everybody can read it; the message is a phrase that says why.

    It stands in the records of runs, and stays as it is; `syntax`, where there is one, can be put in other words.
    """

    syntax: json.JSONDecodeError | None = None


def read_strict(data: bytes, *, max_depth: int = MAX_DEPTH, allow_nul: bool = False) -> Any:
    """Return the value of *data*; raises NotStrictJsonError. *allow_nul* lets U+0000 pass, for who replaces it."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _refuse(f"byte {error.start} is not UTF-8")
    try:
        value = _DECODER.decode(text)
    except NotStrictJsonError:
        raise
    except json.JSONDecodeError as error:
        refused = NotStrictJsonError(f"{error.msg} at line {error.lineno}, column {error.colno}")
        refused.syntax = error
        raise refused from None
    except RecursionError:
        _refuse(_too_deep(max_depth))
    except ValueError as error:  # an integer with thousands of digits
        _refuse(str(error))
    # Decoded text is bad only by an escape, and without that many brackets nothing is deep: most bodies end here.
    if "\\u" in text and _SUSPICIOUS_ESCAPE.search(text):
        fault = json_fault(value, max_depth=max_depth, allow_nul=allow_nul)
        if fault is not None:
            _refuse(fault)
    elif text.count("[") + text.count("{") > max_depth and _depth(data) > max_depth:
        _refuse(_too_deep(max_depth))
    return value


def check_json(data: bytes, *, max_depth: int = MAX_DEPTH, allow_nul: bool = False) -> str | None:
    """Return None when *data* is strict JSON of at most *max_depth* levels, else a phrase that says what is wrong."""
    try:
        read_strict(data, max_depth=max_depth, allow_nul=allow_nul)
    except NotStrictJsonError as error:
        return str(error)
    return None


def read_bounded(data: bytes) -> Any:
    """Like `read_strict`, for what clients send: also refuses too many values and too long names of fields."""
    if data.count(b",") >= MAX_VALUES and _ANY_STRING.sub(b"", data).count(b",") >= MAX_VALUES:
        _refuse(_too_many())  # before an object is made of each
    value = read_strict(data)
    # A walk through all values takes several times as long as reading them: few bodies need one.
    if len(data) > MAX_NAME_CHARS and (_signs(data) >= MAX_VALUES or _may_have_long_names(data)):
        fault = _size_fault(value)
        if fault is not None:
            _refuse(fault)
    return value


def _may_have_long_names(valid: bytes) -> bool:
    """Return whether a name of a field has more bytes than MAX_NAME_CHARS, in JSON that is known to be valid."""
    parts = valid.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')  # every second one is a string
    if max(map(len, parts)) <= MAX_NAME_CHARS:
        return False
    return any(
        len(parts[place]) > MAX_NAME_CHARS and parts[place + 1].lstrip()[:1] == b":"
        for place in range(1, len(parts), 2)
    )


def count_values(compact: bytes) -> int:
    """Return how many values valid JSON without white space has, names of fields not counted; at the speed of C."""
    bare = _STRING.sub(b"0", compact)
    return 1 + _signs(bare) - bare.count(b"[]") - bare.count(b"{}")


def has_more_values(data: bytes, most: int) -> bool:
    """Return whether *data* has more than *most* commas and brackets outside of its strings; it is not parsed for that.

    Where it has many strings it is not taken apart either: each is a value, or a name of one.
    """
    if _signs(data) <= most:
        return False
    if data.count(b'"') - data.count(b'\\"') > 4 * most:
        return True
    return _signs(_ANY_STRING.sub(b"", data)) > most


def _signs(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _too_many() -> str:
    return f"more than {MAX_VALUES} values"


def _size_fault(value: Any) -> str | None:
    waiting, seen = [value], 1
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if max(map(len, part), default=0) > MAX_NAME_CHARS:
                return f"the name of a field has more than {MAX_NAME_CHARS} characters"
            below: Any = part.values()
        elif isinstance(part, list):
            below = part
        else:
            continue
        seen += len(below)
        if seen > MAX_VALUES:
            return _too_many()
        waiting.extend(below)
    return None


def json_fault(value: Any, *, max_depth: int = MAX_DEPTH, allow_nul: bool = False) -> str | None:
    """Like `check_json`, of a value that is parsed already (dicts, lists or tuples, and scalars)."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for part in level:
            if isinstance(part, str):
                fault = _fault_of_text(part, allow_nul)
                if fault is not None:
                    return fault
            elif isinstance(part, dict):
                # Keys are looked at a level too low: they are text, and only containers count as levels.
                below.extend(part)
                below.extend(part.values())
            elif isinstance(part, list | tuple):
                below.extend(part)
            elif isinstance(part, float) and not isfinite(part):
                return "NaN is not JSON" if isnan(part) else "a number is too large"
        depth += 1
        if depth >= max_depth and any(isinstance(part, dict | list | tuple) for part in below):
            return _too_deep(max_depth)
        level = below
    return None


def is_deeper(valid: bytes, levels: int) -> bool:
    """Return whether JSON that is known to be valid has more than so many *levels*; most has not so many brackets."""
    return valid.count(b"[") + valid.count(b"{") > levels and _depth(valid) > levels


def _depth(valid: bytes) -> int:
    """Return the levels of JSON that is known to be valid: 1 up, -1 down, at the speed of C (a walk takes thrice)."""
    steps = _STRING.sub(b"", valid).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _fault_of_text(text: str, allow_nul: bool) -> str | None:
    if "\0" in text and not allow_nul:
        return "a string holds U+0000, which can't be stored"
    if not text.isascii() and _SURROGATE.search(text):
        return "a string holds half of a surrogate pair"
    return None


def _too_deep(max_depth: int) -> str:
    return f"more than {max_depth} levels of nesting"


def _read_float(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        _refuse(f"the number {digits[:20]} is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON")


def _refuse(why: str) -> NoReturn:
    raise NotStrictJsonError(why) from None


_DECODER = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse_constant)
