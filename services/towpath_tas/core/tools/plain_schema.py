"""Most schemas of tools are plain, and checking one as a few closures takes a tenth of the time of the general way.

Law: `fits` never says yes where the general check says no. It knows a part of JSON Schema 2020-12; a schema with
anything else in it is not compiled at all, and whatever does not fit goes the general way, which also says why.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

Fits = Callable[[Any], bool]

_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format"}
)
"""Words that check nothing; `format` neither, in this draft."""

_BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: bool(value >= bound),
    "maximum": lambda value, bound: bool(value <= bound),
    "exclusiveMinimum": lambda value, bound: bool(value > bound),
    "exclusiveMaximum": lambda value, bound: bool(value < bound),
}
_SIZES: Mapping[str, type[Sized]] = {"minLength": str, "maxLength": str, "minItems": list, "maxItems": list}


class _NotPlainError(Exception):
    """The schema has something that is not checked here."""


def compile_plain(schema: Any) -> Fits | None:
    """Return a check of *schema*, or None where it is not plain."""
    try:
        return _compile(schema)
    except (_NotPlainError, RecursionError):
        return None


def _compile(schema: Any) -> Fits:
    if schema is True:
        return _all(())
    if not isinstance(schema, Mapping):
        raise _NotPlainError
    checks: list[Fits] = []
    for word, value in schema.items():
        if word in _ANNOTATIONS:
            continue
        if word in {"properties", "additionalProperties"}:
            if word == "properties" or "properties" not in schema:
                checks.append(_members(schema))
        else:
            checks.append(_check(word, value))
    return _all(tuple(checks))


def _check(word: str, value: Any) -> Fits:
    if word == "type":
        return _any(tuple(_kind(name) for name in ([value] if isinstance(value, str) else value)))
    if word == "required":
        return _required(tuple(value))
    if word == "items":
        return _items(_compile(value))
    if word == "anyOf":
        return _any(tuple(map(_compile, value)))
    if word in {"enum", "const"}:
        return _one_of([value] if word == "const" else value)
    if word in _BOUNDS:
        return _bounded(_BOUNDS[word], value)
    if word in _SIZES:
        return _sized(_SIZES[word], value, least=word.startswith("min"))
    raise _NotPlainError


def _all(checks: Sequence[Fits]) -> Fits:
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _any(checks: Sequence[Fits]) -> Fits:
    if len(checks) == 1:
        return checks[0]
    return lambda value: any(check(value) for check in checks)


def _kind(name: str) -> Fits:
    kinds: Mapping[str, Fits] = {
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
        "null": lambda value: value is None,
        "array": lambda value: isinstance(value, list),
        "object": lambda value: isinstance(value, dict),
        "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),  # 1.0 goes the general way
    }
    if name not in kinds:
        raise _NotPlainError
    return kinds[name]


def _members(schema: Mapping[str, Any]) -> Fits:
    """`properties` and `additionalProperties` together: the second is about what the first does not name."""
    known = {name: _compile(inner) for name, inner in schema.get("properties", {}).items()}
    rest = schema.get("additionalProperties", True)
    others = None if rest is False else _compile(rest)

    def fits(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        for name, inner in value.items():
            check = known.get(name, others)
            if check is None or not check(inner):
                return False
        return True

    return fits


def _required(names: Sequence[str]) -> Fits:
    return lambda value: not isinstance(value, dict) or all(name in value for name in names)


def _items(check: Fits) -> Fits:
    return lambda value: not isinstance(value, list) or all(check(item) for item in value)


def _one_of(allowed: Sequence[Any]) -> Fits:
    if not all(isinstance(one, str) for one in allowed):
        raise _NotPlainError
    words = frozenset(allowed)
    return lambda value: isinstance(value, str) and value in words


def _bounded(holds: Callable[[Any, Any], bool], bound: Any) -> Fits:
    return lambda value: isinstance(value, bool) or not isinstance(value, int | float) or holds(value, bound)


def _sized(kind: type[Sized], bound: Any, *, least: bool) -> Fits:
    if least:
        return lambda value: not isinstance(value, kind) or len(value) >= bound
    return lambda value: not isinstance(value, kind) or len(value) <= bound
