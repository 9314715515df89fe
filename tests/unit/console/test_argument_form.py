"""Arguments as a form: what was not touched comes back exactly, and what can't be read is said beside its field."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath_console.argument_form import MOST_WRITTEN, ArgumentField, fields_of, read_form, with_faults

SCHEMA = {
    "properties": {
        "to": {"type": "string", "description": "Where to."},
        "sum": {"type": "number"},
        "kind": {"enum": ["slow", "fast"]},
        "urgent": {"type": "boolean"},
        "rows": {"type": "array"},
    },
    "required": ["to"],
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def untouched(fields: list[ArgumentField]) -> dict[str, str]:
    return {f"arg.{field.name}": field.text for field in fields}


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), VALUES, max_size=4))
def test_what_nobody_touches_comes_back_as_it_was(args: dict[str, Any]) -> None:
    fields = fields_of(args, SCHEMA)
    read, filled = read_form(untouched(fields), fields)
    assert json.dumps(read, sort_keys=True) == json.dumps(args, sort_keys=True)
    assert not any(field.fault for field in filled)


def test_a_field_is_made_for_what_the_tool_takes() -> None:
    fields = fields_of({"to": "a", "rows": []}, SCHEMA)
    kinds = {field.name: (field.kind, field.is_given, field.is_required) for field in fields}
    assert kinds == {
        "to": ("text", True, True), "rows": ("json", True, False), "sum": ("number", False, False),
        "kind": ("choice", False, False), "urgent": ("truth", False, False),
    }  # fmt: skip
    assert fields[0].description == "Where to."


def test_what_is_left_empty_or_ticked_is_left_out() -> None:
    fields = fields_of({"to": "a", "rows": [1]}, SCHEMA)
    read, filled = read_form({**untouched(fields), "leave-out.rows": "on"}, fields)
    assert read == {"to": "a"}
    assert [field.name for field in filled if field.is_left_out] == ["rows"]
    assert read_form({"arg.to": "", "arg.rows": "[]"}, fields)[0] == {"to": "", "rows": []}, "an empty text is a text"


def test_every_field_that_cannot_be_read_says_so() -> None:
    fields = fields_of({"to": "a", "sum": 1, "rows": [], "urgent": True}, SCHEMA)
    form = {"arg.to": "b", "arg.sum": "many", "arg.rows": "[1,", "arg.urgent": "maybe"}
    read, filled = read_form(form, fields)
    faults = {field.name: field.fault for field in filled if field.fault}
    assert read == {"to": "b"} and set(faults) == {"sum", "rows", "urgent"}
    assert "line 1" in faults["rows"] and "many" in faults["sum"]
    assert {field.name: field.text for field in filled}["rows"] == "[1,", "what was written is still there"
    for word in ("true", "NaN", "Infinity", "[1]", '"1"', ""):
        assert read_form({**untouched(fields), "arg.sum": word}, fields)[1][1].fault, word


def test_problems_of_the_schema_stand_beside_their_field() -> None:
    fields = fields_of({"to": "a", "a/b": 1, "rows": []}, SCHEMA)
    errors = [
        {"pointer": "/args/to", "detail": "too short"},
        {"pointer": "/args/a~1b", "detail": "not a string"},
        {"pointer": "/args/rows/0/to", "detail": "missing"},
        {"pointer": "/args", "detail": "'x' is required"},
    ]
    placed, others = with_faults(fields, errors)
    assert {field.name: field.fault for field in placed if field.fault} == {
        "to": "too short", "a/b": "not a string", "rows": "0.to: missing",
    }  # fmt: skip
    assert others == ["'x' is required"]


def test_a_text_of_more_than_a_line_has_several_lines_to_be_written_in() -> None:
    kinds = [fields_of({"to": text}, SCHEMA)[0].kind for text in ("x" * 60, "x" * 61, "x\ny")]
    assert kinds == ["text", "lines", "lines"]


def test_no_argument_is_left_out_before_somebody_says_so() -> None:
    assert not any(field.is_left_out for field in fields_of({"to": "a", "rows": [1]}, SCHEMA))


def test_what_is_too_long_for_a_form_is_kept_as_it_is_and_the_rest_can_be_changed() -> None:
    args = {"rows": ["x" * 80_000], "to": "a" * MOST_WRITTEN, "sum": 12}
    fields = fields_of(args, SCHEMA)
    assert {field.name: field.kind for field in fields if field.is_given} == {
        "rows": "json", "to": "kept", "sum": "number"
    }  # fmt: skip
    read, filled = read_form({"arg.rows": "[]", "arg.to": "changed", "arg.sum": "13"}, fields)
    assert read == {"rows": [], "to": args["to"], "sum": 13}
    assert filled[1].text == args["to"] and not any(field.fault for field in filled)
    assert read_form({"arg.sum": "1", "arg.rows": "[]", "leave-out.to": "on"}, fields)[0] == {"rows": [], "sum": 1}


@pytest.mark.parametrize(("more", "kind"), [(0, "lines"), (1, "kept")])
def test_a_form_writes_150_000_bytes_of_arguments(more: int, kind: str) -> None:
    (field,) = fields_of({"to": "x" * (150_000 + more)}, {})
    assert field.kind == kind
    (field,) = fields_of({"to": "<" * (30_000 + more)}, {})
    assert field.kind == kind, "as long as it is in the page"
