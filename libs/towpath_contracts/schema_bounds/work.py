"""Keywords of JSON Schema whose work is counted, so that no schema and no value makes a check long.

The library compares all pairs for `uniqueItems`, searches lists for the `unevaluated…` keywords, and follows references
that multiply for as long as it takes. Here those two cost linear work, and a check ends after MAX_WORK. Work is counted
in keywords, not in time: the same schema and value end in the same way on every machine.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from towpath_contracts.schema_bounds.pattern_work import MAX_PATTERN_WORK, pattern_work

MAX_WORK = 200_000
"""Keywords that one check applies: a list of some thousand objects takes half, well under a second of one processor."""

MEMBERS_PER_UNIT = 8
"""Members of a keyword or a value that are looked at in the time that applying a keyword takes."""

PATTERN_US_PER_UNIT = 3
"""Microseconds of compiling a pattern, or of a search with it, that count as one keyword."""

UNKNOWN_US_PER_LETTER = 50
"""Searching with a pattern of which nothing is known: most of these are refused by the engine, and are not searched."""

REFERENCE_WORK = 20
BRANCH_WORK = 4
"""A reference, and each schema of `allOf` and its like, take as long as so many keywords."""

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CANONICAL = json.JSONEncoder(sort_keys=True)

Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]


class TooMuchWorkError(Exception):
    """A check was ended after all that it may do."""


class Work:
    """What the check at hand may still do; each thread, and each task, has its own."""

    def __init__(self) -> None:
        self._left = ContextVar("left", default=MAX_WORK)

    def begin(self, most: int = MAX_WORK) -> None:
        """Begin a check that may do *most*."""
        self._left.set(most)

    def do(self, units: int) -> None:
        """Count *units*; raises TooMuchWorkError where they are too many."""
        left = self._left.get() - units
        self._left.set(left)
        if left < 0:
            raise TooMuchWorkError


def counted_keywords(
    known: Mapping[str, Keyword], patterns: Mapping[str, Keyword], work: Work, *, compiled: bool = False
) -> dict[str, Keyword]:
    """Return *known* keywords, with *patterns* in place of the library's, all of them counted as *work*.

    *compiled*: a pattern is compiled once, and not each time that a text is searched.
    """
    linear = {
        "uniqueItems": _unique_items,
        "unevaluatedItems": _unevaluated_items,
        "unevaluatedProperties": _unevaluated_properties,
    }
    counted = {name: _counted(name, keyword, work) for name, keyword in {**known, **linear, **patterns}.items()}
    return counted | {name: _counted_searches(counted[name], work, compiled=compiled) for name in patterns}


def _counted_searches(keyword: Keyword, work: Work, *, compiled: bool) -> Keyword:
    """Return *keyword*, `pattern` or `patternProperties`, with the work of its patterns counted as well."""

    def counting(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterable[Any]:
        if isinstance(instance, dict) and isinstance(wanted, dict):
            for pattern in wanted:
                work.do(_search_units(pattern, instance, compiled=compiled))
        elif isinstance(instance, str) and isinstance(wanted, str):
            work.do(_search_units(wanted, (instance,), compiled=compiled))
        return keyword(validator, wanted, instance, schema) or ()

    return counting


def _search_units(pattern: str, texts: Collection[str], *, compiled: bool) -> int:
    known, chars = pattern_work(pattern), sum(map(len, texts))
    if known is None:
        each, search = MAX_PATTERN_WORK, float(chars * UNKNOWN_US_PER_LETTER)
    else:
        each, search = known.compiled, known.search(chars)
    return int(((0 if compiled else len(texts) * each) + search) // PATTERN_US_PER_UNIT)


def _counted(name: str, keyword: Keyword, work: Work) -> Keyword:
    extra = REFERENCE_WORK if name in ("$ref", "$dynamicRef") else 1
    per_member = {"enum": MEMBERS_PER_UNIT, **dict.fromkeys(_BRANCHES, BRANCH_WORK * MEMBERS_PER_UNIT)}.get(name, 1)

    def counting(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterable[Any]:
        units = extra
        if isinstance(wanted, list):
            units += len(wanted) * per_member // MEMBERS_PER_UNIT
        elif isinstance(wanted, dict):
            units += len(wanted) // MEMBERS_PER_UNIT
        if isinstance(instance, list | dict):
            units += len(instance) // MEMBERS_PER_UNIT
        work.do(units)
        return keyword(validator, wanted, instance, schema) or ()

    return counting


def _unique_items(_: Any, wanted: Any, instance: Any, __: Any) -> Iterator[Any]:
    if wanted and isinstance(instance, list):
        seen = {_CANONICAL.encode(_comparable(item)) for item in instance}
        if len(seen) < len(instance):
            yield _error("has items that are equal")


def _comparable(value: Any) -> Any:
    """Return *value* so that equal values have the same JSON: 1 and 1.0 are equal."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value


def _unevaluated_items(validator: Any, _: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """As the library has it: an item for which the keyword's own schema is met counts as evaluated."""
    if isinstance(instance, list):
        found = set(
            import_module("jsonschema._utils").find_evaluated_item_indexes_by_schema(validator, instance, schema)
        )
        left = sum(place not in found for place in range(len(instance)))
        if left:
            yield _error(f"has {left} items that are not allowed")


def _unevaluated_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        found = set(
            import_module("jsonschema._utils").find_evaluated_property_keys_by_schema(validator, instance, schema)
        )
        for name, value in instance.items():
            if name not in found and any(validator.descend(value, wanted, path=name, schema_path=name)):
                yield _error(f"the member {name[:100]!r} is not allowed")


def _error(message: str) -> Exception:
    error: Exception = import_module("jsonschema").ValidationError(message)
    return error
