"""Reading a JSON body strictly.

Law: what the gateway lets in can be stored and written again by everybody behind it. So it refuses what JSON libraries
let pass: NaN and infinities, halves of surrogate pairs, U+0000 (Postgres has no place for it), and deep nesting.
"""

import json
from typing import Any, NoReturn

from towpath_contracts.problems import ProblemError, problem

MAX_BODY_BYTES = 1024 * 1024
"""The largest body: NATS carries no more in one message."""

MAX_DEPTH = 64
"""Levels of nesting; people's data rarely has ten, and recursive readers behind the gateway stop at about 200."""

_OPENING = ("[", "{")


def read_json(body: bytes) -> Any:
    """Return the value of *body*; raises ProblemError `request_malformed` saying what is wrong."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"byte {error.start} is not UTF-8")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg} at line {error.lineno}, column {error.colno}")
    except RecursionError:
        _refuse(f"more than {MAX_DEPTH} levels of nesting")
    except ValueError as error:  # an integer with thousands of digits
        _refuse(str(error))
    if "\\u" in text or sum(map(text.count, _OPENING)) > MAX_DEPTH:
        _check(value)
    return value


def is_json(content_type: str | None) -> bool:
    """Say whether a Content-Type names JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _check(value: Any) -> None:
    waiting = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            _refuse(f"more than {MAX_DEPTH} levels of nesting")
        if isinstance(part, str):
            _check_text(part)
        elif isinstance(part, list):
            waiting += [(item, depth + 1) for item in part]
        elif isinstance(part, dict):
            waiting += [(item, depth + 1) for item in part.values()]
            waiting += [(key, depth) for key in part]


def _check_text(text: str) -> None:
    if "\0" in text:
        _refuse("a string holds U+0000, which can't be stored")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        _refuse("a string holds half of a surrogate pair")


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON")


def _refuse(why: str) -> NoReturn:
    raise ProblemError(problem("request_malformed", why)) from None
