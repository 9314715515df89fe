"""Is a value what its JSON Schema asks for?

Schemas come from people and values from models, and neither may make the check slow or make it fetch anything.
Patterns run in a linear engine (one that it does not know is not checked), references lead nowhere outside the schema,
and the work is counted and bounded (`schema_bounds`). jsonschema is loaded at the first check: most processes never
make one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema, from_json, to_json

from towpath_contracts.schema_bounds.pattern_work import compile_work, patterns_in
from towpath_contracts.schema_bounds.work import Keyword, TooMuchWorkError, Work, counted_keywords

MAX_SCHEMA_BYTES = 65_536
"""A schema travels in every request of its run, and is part of the prompt."""

MAX_SCHEMA_DEPTH = 64
"""Levels of objects and lists. Each level of a schema takes about ten frames of recursive code to check, and Python has
a thousand; no more levels are needed, since arguments have as many at most."""

MAX_SUB_SCHEMAS = 2_000
"""Objects and booleans in a schema, each of which may be a sub-schema: to find one to be a schema takes 0.13 ms."""

MAX_PATTERNS = 100_000
"""Microseconds of compiling all patterns of a schema, at most: who checks the first answer waits for that at a loop."""

MAX_FAULTS = 5
"""A model mends a few mistakes at a time; more would fill its context."""

MAX_FAULT_CHARS = 200
"""Of one fault: its message repeats the value, which may be long."""

MAX_COMPILED = 256
"""Schemas that are kept compiled: an agent's is used for every step of its runs."""

_REQUIRED = " is a required property"
"""How jsonschema says that a member is missing, behind its name."""

Faults = Callable[[Any], tuple[str, ...]]


def unusable_schema(schema: Mapping[str, Any]) -> str:
    """Return what keeps *schema* from being used; empty when nothing does."""
    compiled = _compiled_schema(schema)
    return compiled if isinstance(compiled, str) else ""


def schema_faults(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Return what is wrong with *value* against *schema*: the first few faults with their places, or nothing."""
    compiled = _compiled_schema(schema)
    return (compiled,) if isinstance(compiled, str) else compiled(value)


def fault_in_words(said: str) -> str:
    """Return what jsonschema *said* of a value, in words for who has no schema before them."""
    return f"{said.removesuffix(_REQUIRED)} is missing" if said.endswith(_REQUIRED) else said


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Return whether *value* has more than *levels* of objects and lists; what lies deeper is not looked at."""
    if isinstance(value, Mapping):
        return levels == 0 or any(is_nested_deeper(inner, levels - 1) for inner in value.values())
    if isinstance(value, list | tuple):
        return levels == 0 or any(is_nested_deeper(inner, levels - 1) for inner in value)
    return False


def sub_schemas(schema: Any, most: int = MAX_SUB_SCHEMAS) -> int:
    """Return how many objects and booleans *schema* has; beyond *most* they are not counted."""
    found, pending = 0, [schema]
    while pending and found <= most:
        part = pending.pop()
        found += isinstance(part, Mapping | bool)
        if isinstance(part, Mapping):
            pending.extend(part.values())
        elif isinstance(part, list | tuple):
            pending.extend(part)
    return found


def _compiled_schema(schema: Mapping[str, Any]) -> Faults | str:
    if is_nested_deeper(schema, MAX_SCHEMA_DEPTH):  # before anything else recurses into it
        return f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"
    return _compiled(to_json(schema))


@lru_cache(maxsize=MAX_COMPILED)
def _compiled(text: bytes) -> Faults | str:
    """Return the check of the schema *text*, or what is wrong with it."""
    if len(text) > MAX_SCHEMA_BYTES:
        return f"the schema has {len(text)} bytes; the limit is {MAX_SCHEMA_BYTES}"
    schema = from_json(text)
    if sub_schemas(schema) > MAX_SUB_SCHEMAS:
        return f"the schema has more than {MAX_SUB_SCHEMAS} sub-schemas"
    if compile_work(patterns_in(schema)) > MAX_PATTERNS:
        return "the schema has patterns that take too long to be compiled: large counts such as {200}, above all of \\w"
    jsonschema, referencing = import_module("jsonschema"), import_module("referencing")
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"not a JSON Schema: {error.message[:MAX_FAULT_CHARS]} at {error.json_path}"
    if mixes_patterns(schema):
        return "patternProperties can't be combined with additionalProperties or unevaluatedProperties here"
    return _check(_validator_class()(schema, registry=referencing.Registry()))


def _check(validator: Any) -> Faults:
    unresolvable = import_module("referencing.exceptions").Unresolvable

    def check(value: Any) -> tuple[str, ...]:
        _work.begin()
        try:
            found = list(islice(_meant(validator.iter_errors(value)), MAX_FAULTS))
        except unresolvable as error:
            return (f"the schema refers to {error.ref!r}, which is not part of it",)
        except (RecursionError, TooMuchWorkError):
            return ("the schema's references never end, or it asks for too many steps for this value",)
        return tuple(f"{error.json_path}: {fault_in_words(error.message)[:MAX_FAULT_CHARS]}" for error in found)

    return check


def _meant(errors: Iterable[Any]) -> Iterator[Any]:
    """Name the places inside a choice where it is plain which one was meant: the only one that takes the value's type.

    A value that may be null is the common case: "is not valid under any of the given schemas" would help nobody.
    """
    for error in errors:
        choices: dict[Any, list[Any]] = {}
        for inner in error.context if error.validator in ("anyOf", "oneOf") else ():
            choices.setdefault(inner.schema_path[0], []).append(inner)
        likely = [found for found in choices.values() if not any(_of_another_type(inner) for inner in found)]
        yield from _meant(likely[0]) if len(likely) == 1 else (error,)


def _of_another_type(error: Any) -> bool:
    return error.validator == "type" and not error.relative_path


_work = Work()


@lru_cache(maxsize=1)
def _validator_class() -> Callable[..., Any]:
    validators = import_module("jsonschema.validators")
    known = validators.Draft202012Validator
    patterns: dict[str, Keyword] = {"pattern": _pattern, "patternProperties": _pattern_properties}
    extended: Callable[..., Any] = validators.extend(
        known, counted_keywords(known.VALIDATORS, patterns, _work, compiled=True)
    )
    return extended


def _pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _matches(wanted, instance):
        yield import_module("jsonschema").ValidationError(f"{instance[:100]!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for rule, schema in wanted.items():
            for key, value in instance.items():
                if _matches(rule, key):
                    yield from validator.descend(value, schema, path=key, schema_path=rule)


def _matches(pattern: str, text: str) -> bool:
    """Return whether *pattern* is found in *text*; a pattern of another dialect is taken for found."""
    linear = _linear(pattern)
    if linear is None:
        return True
    try:
        linear.validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=1_024)
def _linear(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:  # looks around, refers back: no linear engine can do that
        return None


def mixes_patterns(schema: Any) -> bool:
    """Return whether patterns are asked "is this property additional?": the library's own, backtracking engine answers.

    `unevaluatedProperties` asks those of other parts of the schema too.
    """
    return _has_mixed(schema) or (_has(schema, "unevaluatedProperties") and _has(schema, "patternProperties"))


def _has_mixed(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        mixed = isinstance(schema.get("patternProperties"), Mapping) and "additionalProperties" in schema
        return mixed or any(_has_mixed(part) for part in schema.values())
    return isinstance(schema, list) and any(_has_mixed(part) for part in schema)


def _has(schema: Any, keyword: str) -> bool:
    if isinstance(schema, Mapping):
        return keyword in schema or any(_has(part, keyword) for part in schema.values())
    return isinstance(schema, list) and any(_has(part, keyword) for part in schema)
