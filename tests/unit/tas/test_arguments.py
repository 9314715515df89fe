"""The fast check of arguments agrees with the general one, and takes most schemas on."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from towpath_contracts.json_schema import MAX_SCHEMA_DEPTH
from towpath_tas.adapters.cel import matches
from towpath_tas.core.tools.arguments import MAX_DEPTH, ArgumentChecker, SchemaTooDeepError, fast_validator

NAMES = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["string", "boolean", "null", "array", "object", "number", "integer"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "a", "bcd"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(st.sampled_from(["a", "bcd", ""]), min_size=1, unique=True),
            "const": st.sampled_from(["a", 1, True, None]),
            "minimum": st.integers(-2, 2),
            "maximum": st.sampled_from([-1, 0.5, 2]),
            "exclusiveMinimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "title": st.just("t"),
            "format": st.just("date"),
            "uniqueItems": st.just(True),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
            "unevaluatedProperties": st.booleans() | inner,
            "minProperties": st.integers(0, 2),
            "of-tomorrow": st.just(True),
        },
    )


SCHEMAS = st.recursive(st.just(True) | keywords(st.just(True)), keywords, max_leaves=6)


@settings(max_examples=200, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=6))
def test_what_is_valid_fast_is_valid(schema: Any, values: list[Any]) -> None:
    fast = fast_validator(schema)
    assert fast is not None
    general = Draft202012Validator(schema)
    for value in values:
        assert fast.is_valid(value) == general.is_valid(value)


def test_a_schema_of_too_many_levels_is_refused_and_the_deepest_one_taken_is_applied() -> None:
    def nested(levels: int) -> Any:
        schema: Any = {"type": "array"}
        for _ in range(levels - 1):
            schema = {"items": schema}
        return schema

    value: Any = []
    for _ in range(MAX_DEPTH - 2):
        value = [value]
    taken = ArgumentChecker(nested(MAX_SCHEMA_DEPTH), matches)
    assert taken.problems({"a": value}, "") == []
    assert taken.problems(value, "") == []
    for levels in (MAX_SCHEMA_DEPTH + 1, 150, 100_000):
        with pytest.raises(SchemaTooDeepError, match="deeper than 64 levels"):
            ArgumentChecker(nested(levels), matches)


@pytest.mark.parametrize("keyword", ["$ref", "$defs", "$schema", "pattern", "patternProperties", "multipleOf"])
def test_schemas_about_which_the_libraries_differ_are_left_to_the_general_check(keyword: str) -> None:
    assert fast_validator({"type": "object", keyword: {}}) is None
    assert fast_validator({"properties": {"a": {"items": {keyword: {}}}}}) is None


def test_a_schema_as_tools_declare_it_is_checked_fast() -> None:
    schema = {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "d", "maxLength": 9},
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    }
    fast = fast_validator(schema)
    assert fast is not None
    assert fast.is_valid({"order_id": "A", "amount": 1, "note": None})
    wrong: list[Any] = [{}, {"order_id": 1}, {"order_id": "A", "x": 1}, {"order_id": "A", "amount": 0}, []]
    assert not any(map(fast.is_valid, wrong))
