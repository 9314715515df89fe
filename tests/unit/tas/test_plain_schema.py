"""The quick check of arguments never lets through what the general one refuses, and takes most schemas on."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from towpath_tas.core.tools.plain_schema import compile_plain

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


def words(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
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
        },
    )


SCHEMAS = st.recursive(st.just(True) | words(st.just(True)), words, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=6))
def test_what_fits_quickly_fits(schema: Any, values: list[Any]) -> None:
    fits = compile_plain(schema)
    general = Draft202012Validator(schema)
    for value in values:
        if fits is not None and fits(value):
            assert general.is_valid(value)
        elif fits is not None and "integer" not in str(schema):
            assert not general.is_valid(value)


@pytest.mark.parametrize(
    "word",
    [
        *("$ref", "$defs", "pattern", "patternProperties", "allOf", "oneOf", "not", "if", "prefixItems", "uniqueItems"),
        *("multipleOf", "dependentRequired", "unevaluatedProperties", "propertyNames", "contains", "of-tomorrow"),
    ],
)
def test_what_it_does_not_know_is_left_to_the_general_check(word: str) -> None:
    assert compile_plain({"type": "object", word: {}}) is None
    assert compile_plain({"properties": {"a": {"items": {word: {}}}}}) is None
    assert compile_plain({"properties": {"a": False}}) is None


def test_a_schema_as_tools_declare_it_is_plain() -> None:
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
    fits = compile_plain(schema)
    assert fits is not None
    assert fits({"order_id": "A", "amount": 1, "note": None})
    assert not any(map(fits, [{}, {"order_id": 1}, {"order_id": "A", "x": 1}, {"order_id": "A", "amount": 0}, []]))
