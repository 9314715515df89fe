"""Values against JSON Schemas, whatever people write into schemas and models into values."""

from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic import BaseModel

from towpath_contracts.json_schema import (
    MAX_FAULTS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SUB_SCHEMAS,
    schema_faults,
    unusable_schema,
)

VERDICT = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


class Price(BaseModel):
    """A model whose schema holds a pattern that looks around."""

    amount: Decimal


def test_b5_faults_are_reported_with_their_places() -> None:
    """Row B5: structured output validated against a schema."""
    assert schema_faults(VERDICT, {"score": 7}) == ()
    assert schema_faults(VERDICT, {"score": "7"}) == ("$.score: '7' is not of type 'integer'",)
    many = {"type": "array", "items": {"type": "string"}}
    assert len(schema_faults(many, list(range(50)))) == MAX_FAULTS


def test_b5_a_fault_inside_a_choice_is_reported_at_its_place() -> None:
    """Row B5: a model can mend what it is told of; that nothing of a choice fits tells it nothing."""
    assert schema_faults({"anyOf": [VERDICT, {"type": "null"}]}, {"score": "7"}) == (
        "$.score: '7' is not of type 'integer'",
    )


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (VERDICT, ""),
        (Price.model_json_schema(), ""),
        ({"type": "objekt"}, "not a JSON Schema: 'objekt' is not valid"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "the limit is"),
        ({"properties": {str(place): {} for place in range(MAX_SUB_SCHEMAS)}}, "more than 2000 sub-schemas"),
        ({"properties": {str(place): True for place in range(MAX_SUB_SCHEMAS - 2)}}, ""),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, "can't be combined"),
    ],
)
def test_a_schema_that_can_not_be_used_says_why(schema: dict[str, Any], fault: str) -> None:
    assert fault in unusable_schema(schema)
    assert bool(unusable_schema(schema)) == bool(fault)


def nested(levels: int, keyword: str) -> dict[str, Any]:
    """Return a schema of exactly *levels* levels."""
    inner: Any = {}
    for _ in range(levels - 1):
        inner = {keyword: inner}
    return cast("dict[str, Any]", inner)


def test_a_schema_may_have_so_many_levels_and_a_deeper_one_is_refused_before_anything_recurses_into_it() -> None:
    for keyword in ("not", "items"):  # one level each, so as many schemas inside each other as there are levels
        assert unusable_schema(nested(MAX_SCHEMA_DEPTH, keyword)) == ""
        for levels in (MAX_SCHEMA_DEPTH + 1, 150, 100_000):
            assert unusable_schema(nested(levels, keyword)) == "the schema is nested deeper than 64 levels"
            assert schema_faults(nested(levels, keyword), 1) == ("the schema is nested deeper than 64 levels",)


def test_nothing_in_a_schema_makes_a_check_slow_or_fetch_anything() -> None:
    slow = {"type": "string", "pattern": "^(a+)+$"}
    assert schema_faults(slow, "a" * 5_000 + "!")
    assert schema_faults(slow, "a" * 5_000) == ()
    levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)}
    doubling = {"$ref": "#/$defs/l0", "$defs": {**levels, "l40": {"type": "string"}}}
    assert "too many" in schema_faults(doubling, 1)[0]
    assert "never end" in schema_faults({"$ref": "#"}, 1)[0]
    assert "not part of it" in schema_faults({"$ref": "http://127.0.0.1:9/x.json"}, 1)[0]
    assert schema_faults(VERDICT, {"score": 1}) == ()  # what a check used up is not missed by the next


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"allOf": [{"pattern": rf"\w{{800}}|x|{place}"} for place in range(1_000)]}}},
        {"patternProperties": {rf"(?i)\w{{90}}{place}": {} for place in range(20)}},
        {"properties": {"a": {"$ref": "#/elsewhere/a"}}, "elsewhere": {"a": {"pattern": r"(?x)\w{ 900 }"}}},
    ],
)
def test_patterns_that_take_long_to_be_compiled_are_refused_before_any_is(schema: dict[str, Any]) -> None:
    assert "patterns that take too long" in unusable_schema(schema)
    assert "patterns that take too long" in schema_faults(schema, {"a": "x"})[0]


def test_many_patterns_as_people_write_them_are_taken() -> None:
    usual = [r"^\d{4}-\d{2}-\d{2}$", r"^[\w.+-]+@[\w-]+\.[\w.]+$", r"^(?!-)[a-z0-9-]{1,63}$", "^sha256:[0-9a-f]{64}$"]
    schema = {"properties": {f"p{place}": {"pattern": usual[place % 4] + f"|{place}"} for place in range(60)}}
    assert unusable_schema(schema) == ""


def test_a_pattern_of_another_dialect_is_not_checked() -> None:
    assert schema_faults(Price.model_json_schema(), {"amount": "one"}) == ()
    assert schema_faults({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "x", "b": "x"})


def test_of_a_choice_the_meant_one_is_reported() -> None:
    wanted = {"type": "object", "properties": {"title": {"type": "string"}}}
    schema = {"properties": {"deliverable": {"anyOf": [wanted, {"type": "null"}]}}}
    assert schema_faults(schema, {"deliverable": {"title": 7}}) == ("$.deliverable.title: 7 is not of type 'string'",)
    (found,) = schema_faults({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {})
    assert "any of the given schemas" in found, "nobody knows which was meant"
