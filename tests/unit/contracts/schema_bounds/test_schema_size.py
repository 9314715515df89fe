"""Schemas whose work multiplies are refused; those that people and libraries write are taken."""

from typing import Any

import pytest

from towpath_contracts.schema_bounds.size import MAX_SCHEMA_NODES, SchemaTooCostlyError, require_bounded, require_finite

TO_NODE = {"$ref": "#/$defs/node"}
TREE = {
    "$defs": {"node": {"properties": {"value": {"type": "integer"}, "inner": {"type": "array", "items": TO_NODE}}}},
    "properties": {"root": TO_NODE, "other": TO_NODE},
}
EXPRESSION = {
    "$defs": {
        kind: {"properties": {side: {"anyOf": [{"$ref": "#/$defs/sum"}, {"$ref": "#/$defs/product"}]}}}
        for kind, side in (("sum", "left"), ("product", "right"))
    },
    "$ref": "#/$defs/sum",
}
OPTIONAL = {"$defs": {"node": {"properties": {"next": {"anyOf": [TO_NODE, {"type": "null"}]}}}}, **TO_NODE}


@pytest.mark.parametrize("schema", [{}, TREE, EXPRESSION, OPTIONAL, {"properties": {"all": {"$ref": "#"}}}])
def test_schemas_of_trees_are_taken(schema: dict[str, Any]) -> None:
    require_bounded(schema)


@pytest.mark.parametrize("way", ["allOf", "anyOf", "oneOf"])
def test_what_refers_to_itself_twice_for_one_value_is_refused(way: str) -> None:
    schema = {"$defs": {"node": {"properties": {"x": {way: [TO_NODE, TO_NODE]}}}}, **TO_NODE}
    with pytest.raises(SchemaTooCostlyError, match=r"more than once, for the same value at #/\$defs/node/properties/x"):
        require_bounded(schema)


def test_it_is_refused_too_where_the_two_ways_are_of_different_kinds() -> None:
    for inner in ({"if": TO_NODE, "then": TO_NODE}, {**TO_NODE, "not": TO_NODE}, {"dependentSchemas": {"a": TO_NODE}}):
        schema = {"$defs": {"node": {"properties": {"x": {**TO_NODE, "allOf": [inner]}}}}, **TO_NODE}
        with pytest.raises(SchemaTooCostlyError, match="more than once"):
            require_bounded(schema)


def test_references_that_multiply_or_never_end_are_refused() -> None:
    doubling = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    chain = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(1_400)}
    for schema, reason in (
        ({"$defs": {**doubling, "a40": {}}, "$ref": "#/$defs/a0"}, "of one value"),
        ({"$ref": "#"}, "without an end"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "without an end"),
        ({"$defs": {**chain, "a1400": {}}, "$ref": "#/$defs/a0"}, "over and over"),
        ({"allOf": [{}] * MAX_SCHEMA_NODES}, "more than 5000"),
        ({"$ref": "#/$defs/none"}, "not there"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "outside itself"),
        ({"properties": {"a": {"$id": "x"}}}, "not followed"),
        ({"$dynamicRef": "#a"}, "not followed"),
    ):
        with pytest.raises(SchemaTooCostlyError, match=reason):
            require_bounded(schema)


def test_properties_and_data_named_like_keywords_are_none() -> None:
    require_bounded({"properties": {"$ref": {"type": "string"}, "$id": {}}, "enum": [{"$ref": "http://x"}]})
    require_finite({"properties": {"$ref": {"type": "string"}}, "default": {"$ref": "http://x"}})
    with pytest.raises(SchemaTooCostlyError, match="refers to itself"):
        require_finite(TREE)


def test_references_that_take_long_to_be_followed_are_refused() -> None:
    chain: dict[str, Any] = {str(place): {"$ref": f"#/$defs/{place + 1}"} for place in range(300)}
    chain["300"] = {}
    few = {str(place): {"$ref": "#/$defs/0"} for place in range(100)}
    require_bounded({"$defs": chain, "properties": few})
    many = {str(place): {"$ref": "#/$defs/0"} for place in range(1_500)}
    with pytest.raises(SchemaTooCostlyError, match="steps to be followed"):
        require_bounded({"$defs": chain, "properties": many})
