"""Are these arguments what the tool's schema asks for?

Checked before any condition sees them, so that no rule judges what the tool would not take. Schemas come from workers
and arguments from models: neither may make the check slow (patterns run in a linear engine, given from outside) or make
it fetch anything (references lead nowhere outside the schema). The work of a check is bounded (`schema_bounds`).

jsonschema-rs finds arguments valid in half a microsecond where jsonschema takes 90, so it is asked first; jsonschema
says what is wrong. It alone checks schemas where the two differ: jsonschema-rs would fetch references, knows another
dialect of patterns, and compares decimals exactly (`multipleOf`). It is not interruptible either, so that it is asked
only where schema and arguments together are not large.
"""

import functools
import importlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from towpath_contracts.json_schema import (
    MAX_SCHEMA_DEPTH,
    fault_in_words,
    is_nested_deeper,
    mixes_patterns,
    sub_schemas,
)
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.schema_bounds.pattern_work import MAX_PATTERN_WORK, pattern_work, patterns_in
from towpath_contracts.schema_bounds.size import SchemaTooCostlyError, require_bounded
from towpath_contracts.schema_bounds.work import Keyword, Work, counted_keywords

_NOT_FAST = re.compile(r'"(?:\$|pattern|multipleOf)')
"""How keywords begin that jsonschema alone checks: references and all other `$` keywords, both kinds of patterns."""

_NAMES_ONLY = frozenset({"required", "additionalProperties", "unevaluatedProperties", "dependentRequired"})
"""Keywords whose messages contain names of members, not values."""

PatternMatcher = Callable[[str, str], bool]
"""`matches(pattern, text)`: is the pattern found in the text? Raises ValueError for a pattern it does not know."""

MAX_ARGS_CHARS = 262_144
"""Larger arguments belong in a blob."""

MAX_DEPTH = 64
"""Deeper arguments are an attack on recursive code, not data."""

MAX_SCHEMA_CHARS = 65_536
MAX_ERRORS = 5
"""A model corrects a few mistakes at a time; more would fill its context."""


class SchemaTooDeepError(ValueError):
    """A tool's schema has more than MAX_SCHEMA_DEPTH levels."""


MAX_PATTERNS = 300_000
"""Microseconds of compiling all patterns of a schema, at most: two of the most costly that there are."""

MAX_EXPLAINED = 500
"""Sub-schemas of what is no JSON Schema, for jsonschema to say why: it takes 0.13 ms for each."""

MAX_FAST_WORK = 2_000_000
"""Sub-schemas and listed values of a schema, times values in the arguments: a quarter of a second of jsonschema-rs."""

_work = Work()


class ArgumentChecker:
    """Checks arguments against one tool's schema."""

    def __init__(self, schema: Mapping[str, Any], matches: PatternMatcher) -> None:
        """Compile *schema*; raises ValueError saying what is wrong with it, SchemaTooDeepError for one too deep."""
        if is_nested_deeper(schema, MAX_SCHEMA_DEPTH):  # before anything else recurses into it
            msg = f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels; move inner schemas into $defs"
            raise SchemaTooDeepError(msg)
        if len(json.dumps(schema)) > MAX_SCHEMA_CHARS:
            msg = f"the schema is longer than {MAX_SCHEMA_CHARS} characters"
            raise ValueError(msg)
        require_bounded(schema)
        _require_schema(schema)
        if mixes_patterns(schema):
            msg = "patternProperties can't be combined with additionalProperties or unevaluatedProperties here"
            raise ValueError(msg)
        patterns = set(patterns_in(schema))
        if (
            sum(MAX_PATTERN_WORK if (work := pattern_work(one)) is None else work.compiled for one in patterns)
            > MAX_PATTERNS
        ):
            msg = (
                "has patterns that take too long to be compiled: large counts such as {200}, above all of \\w and \\pL"
            )
            raise SchemaTooCostlyError(msg)
        for pattern in patterns:
            matches(pattern, "")
        self._nodes = _members(schema)
        self._fast = fast_validator(schema)
        self._validator = _validator_class(matches)(schema, registry=Registry())

    def problems(self, args: Mapping[str, Any], text: str, hidden: Collection[str] = ()) -> list[str]:
        """Return what is wrong with *args*, whose JSON is *text*; an empty list if nothing is.

        Raises TooMuchWorkError for arguments that can't be checked in good time.
        A model reads this, so values of *hidden* parameters, which the system fills in, are never disclosed.
        """
        if len(text) > MAX_ARGS_CHARS:
            return [f"the arguments have {len(text)} characters, at most {MAX_ARGS_CHARS} are allowed"]
        if is_nested_deeper(args, MAX_DEPTH):
            return [f"the arguments are nested deeper than {MAX_DEPTH} levels"]
        try:
            if self._fast is not None and self._is_quick(text) and self._fast.is_valid(args):
                return []
            _work.begin()
            if self._validator.is_valid(args):
                return []
            found = sorted(self._validator.iter_errors(args), key=lambda error: list(map(str, error.absolute_path)))
        except (Unresolvable, RecursionError, ValueError) as error:
            return [f"the tool's schema can't be applied: {type(error).__name__}"]
        return [_describe_error(error, hidden) for error in found[:MAX_ERRORS]]

    def _is_quick(self, text: str) -> bool:
        if self._nodes * len(text) <= MAX_FAST_WORK:
            return True
        return self._nodes * (1 + text.count(",") + text.count("[") + text.count("{")) <= MAX_FAST_WORK


def fast_validator(schema: Any) -> Any:
    """Return a jsonschema-rs validator that agrees with jsonschema about every value; None where that is not certain.

    The library is imported with the first schema: with its 15 MB it takes 30 ms, and only replicas need it.
    """
    if _NOT_FAST.search(json.dumps(schema)):
        return None
    try:
        return importlib.import_module("jsonschema_rs").Draft202012Validator(schema)
    except ValueError:
        return None


def _require_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for what is no JSON Schema. jsonschema says why, unless it would take long: of a large one."""
    fast = importlib.import_module("jsonschema_rs")
    if fast.meta.is_valid(schema):
        return
    if sub_schemas(schema, MAX_EXPLAINED) > MAX_EXPLAINED:
        try:
            fast.meta.validate(schema)
        except fast.ValidationError as error:
            place = "".join(f".{part}" for part in error.instance_path)
            msg = f"not a JSON Schema: {error.message[:300]} at ${place[:300]}"
            raise ValueError(msg) from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        msg = f"not a JSON Schema: {error.message[:300]} at {error.json_path[:300]}"
        raise ValueError(msg) from error


def _members(schema: Any) -> int:
    """Return how many objects and listed values *schema* has."""
    if isinstance(schema, Mapping):
        return 1 + sum(_members(part) for part in schema.values() if isinstance(part, Mapping | list))
    return sum(_members(part) if isinstance(part, Mapping | list) else 1 for part in schema)


def _describe_error(error: ValidationError, hidden: Collection[str]) -> str:
    where = ".".join(str(part) for part in error.absolute_path) or "arguments"
    if error.absolute_path and error.absolute_path[0] in hidden:
        return f"{error.absolute_path[0]}: not valid; the system fills it in"
    if isinstance(error.instance, dict | list) and error.validator not in _NAMES_ONLY:
        return f"{where}: does not satisfy {error.validator}"  # the full message would repeat everything inside
    if error.validator == "additionalProperties":
        return f"{where}: {_unknown_members(error, hidden)}"
    said = fault_in_words(error.message) if error.validator == "required" else error.message
    return f"{where}: {said[:300]}"


def _unknown_members(error: ValidationError, hidden: Collection[str]) -> str:
    """Return what jsonschema says of members that there are not, and which one may be meant by the first of them."""
    schema: Any = error.schema
    given: Any = error.instance
    declared = schema.get("properties", {})
    meant = [name for name in declared if name not in given and (error.absolute_path or name not in hidden)]
    unknown = [name for name in given if name not in declared]
    if "patternProperties" in schema or not unknown:  # which of them was unexpected, is known to the message alone
        return error.message[:300]
    return f"{error.message[:300]}{suggest_name(unknown[0], meant)}"


@functools.cache
def _validator_class(matches: PatternMatcher) -> Callable[..., Validator]:
    """Cached: making the class takes 2 ms, and every tool of every project needs it."""

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not matches(wanted, instance):
            yield ValidationError(f"{instance[:100]!r} does not match {wanted!r}")

    def pattern_properties(
        validator: Any, wanted: Mapping[str, Any], instance: Any, _: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for rule, schema in wanted.items():
                for key, value in instance.items():
                    if matches(rule, key):
                        yield from validator.descend(value, schema, path=key, schema_path=rule)

    patterns: dict[str, Keyword] = {"pattern": pattern, "patternProperties": pattern_properties}
    keywords = counted_keywords(Draft202012Validator.VALIDATORS, patterns, _work)
    extended: Callable[..., Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return extended
