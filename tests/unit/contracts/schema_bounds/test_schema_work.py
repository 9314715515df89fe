"""The work of a check is bounded, and what is counted in another way than the library does is decided as it does."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from towpath_contracts.json_schema import schema_faults
from towpath_contracts.schema_bounds.work import MAX_WORK, TooMuchWorkError, Work, counted_keywords

UNIQUE = {"type": "array", "uniqueItems": True}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


class _Counting(Work):
    def __init__(self) -> None:
        super().__init__()
        self.done = 0

    def do(self, units: int) -> None:
        self.done += units


def test_unique_items_cost_work_in_proportion_to_their_number() -> None:
    compared = []

    class Item(dict[str, int]):
        def __eq__(self, other: object) -> bool:
            compared.append(1)
            return super().__eq__(other)

        __hash__ = None  # type: ignore[assignment]

    keyword = counted_keywords(Draft202012Validator.VALIDATORS, {}, work := _Counting())["uniqueItems"]
    assert list(keyword(None, True, [Item(a=n) for n in range(20_000)], UNIQUE) or ()) == []
    assert len(compared) == 0
    assert work.done < 20_000
    assert list(keyword(None, True, [Item(a=n % 19_999) for n in range(20_000)], UNIQUE) or ()) != []


@settings(max_examples=300, deadline=None)
@given(st.lists(VALUES, max_size=5))
def test_items_are_equal_where_the_library_finds_them_equal(items: list[Any]) -> None:
    assert (schema_faults(UNIQUE, items) == ()) == Draft202012Validator(UNIQUE).is_valid(items)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.sampled_from([{"prefixItems": [{}]}, {"contains": {"const": 1}}, {"anyOf": [{"prefixItems": [{"const": 1}]}]}]),
    st.sampled_from([False, {"const": 2}]),
)
def test_unevaluated_items_are_those_of_the_library(items: list[int], known: dict[str, Any], rest: Any) -> None:
    schema = {**known, "unevaluatedItems": rest}
    assert (schema_faults(schema, items) == ()) == Draft202012Validator(schema).is_valid(items)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3),
    st.sampled_from([{"properties": {"a": {}}}, {"anyOf": [{"properties": {"b": {"const": 1}}}]}]),
    st.sampled_from([False, {"const": 2}]),
)
def test_unevaluated_properties_are_those_of_the_library(
    value: dict[str, int], known: dict[str, Any], rest: Any
) -> None:
    schema = {**known, "unevaluatedProperties": rest}
    assert (schema_faults(schema, value) == ()) == Draft202012Validator(schema).is_valid(value)


def test_a_check_ends_after_its_work_and_the_next_begins_anew() -> None:
    long = {"items": {"enum": [f"v{n}" for n in range(1_000)]}}
    assert "too many steps" in schema_faults(long, ["v999"] * 1_000)[0]
    assert schema_faults(long, ["v999"]) == ()
    work = Work()
    work.do(MAX_WORK)
    with pytest.raises(TooMuchWorkError):
        work.do(1)
    work.begin()
    work.do(1)
