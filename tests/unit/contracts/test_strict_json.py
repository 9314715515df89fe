"""JSON as everybody can read it: what is refused, what is not, and that both ways of asking agree."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.strict_json import (
    MAX_DEPTH,
    MAX_NAME_CHARS,
    MAX_VALUES,
    NotStrictJsonError,
    _may_have_long_names,
    check_json,
    count_values,
    has_more_values,
    json_fault,
    read_bounded,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NAMES = st.text(max_size=MAX_NAME_CHARS // 12)  # a character takes twelve bytes at most where it is escaped
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=20)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Expecting value"),
        (b"{} {}", "Extra data"),
        (b'"\xed\xa0\x80"', "byte 1 is not UTF-8"),
        (b"[NaN]", "NaN is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b'{"a": -1e999}', "too large"),
        (b"9" * 400 + b".0", "too large"),
        (b"9" * 5000, "digits"),
        (b'{"a": "\\u0000"}', r"U\+0000"),
        (b'{"\\u0000": 1}', r"U\+0000"),
        (b'"a\x00b"', "control character"),
        (b'["\\uD83D"]', "surrogate"),
        (b'["\\udc00\\ud83d"]', "surrogate"),
        (b"[" * 65 + b"]" * 65, "64 levels"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "64 levels"),
        (b'["]]",' * 65 + b"1" + b"]" * 65, "64 levels"),
        (b'["\\\\",' * 65 + b"1" + b"]" * 65, "64 levels"),
        (b"[" * 100_000, "64 levels"),
    ],
)
def test_what_somebody_could_not_read_is_refused(data: bytes, why: str) -> None:
    found = check_json(data)
    assert found is not None
    assert re.search(why, found)


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"[" * 64 + b"]" * 64,
        b'{"a":' * 64 + b"1" + b"}" * 64,
        b"[" + b"[]," * 500 + b"[]]",
        b'"\\ud83d\\ude00"',
        b'"\\\\u0000 \\\\ud800"',
        b'"' + b"[" * 500 + b'"',
        b"[" + b'"[[",' * 500 + b'"\\"[["]',
        b"1e308",
        '{"ключ": "значение"}'.encode(),
    ],
)
def test_what_everybody_can_read_is_not(data: bytes) -> None:
    assert check_json(data) is None


def test_the_limit_is_what_is_asked_for() -> None:
    assert check_json(b"[[[]]]", max_depth=3) is None
    assert check_json(b"[[[]]]", max_depth=2) == "more than 2 levels of nesting"
    assert json_fault(([[]],), max_depth=2) == "more than 2 levels of nesting"
    assert json_fault({"a": {"b": 1}}, max_depth=2) is None


def test_nul_passes_where_it_is_replaced_later() -> None:
    assert check_json(b'["\\u0000", "\\\\u0000"]', allow_nul=True) is None
    assert check_json(b'["\\u0000", "\\ud800"]', allow_nul=True) == "a string holds half of a surrogate pair"


@given(VALUES, st.integers(1, 6))
def test_a_value_is_judged_like_its_text(value: Any, levels: int) -> None:
    assert (check_json(json.dumps(value).encode(), max_depth=levels) is None) == (
        json_fault(value, max_depth=levels) is None
    )


def test_depth_is_found_beside_wide_data() -> None:
    deep: Any = "end"
    for _ in range(MAX_DEPTH + 1):
        deep = {"wide": list(range(50)), "deep": deep}
    assert json_fault(deep) == "more than 64 levels of nesting"


def test_a_client_sends_a_bounded_number_of_values() -> None:
    assert len(read_bounded(b"[" + b"0," * (MAX_VALUES - 2) + b"0]")) == MAX_VALUES - 1
    for nested in (b"[" + b"0," * (MAX_VALUES - 1) + b"0]", b"[" + b"[0,0]," * (MAX_VALUES // 3 + 1) + b"0]"):
        with pytest.raises(NotStrictJsonError, match="more than 50000 values"):
            read_bounded(nested)


@given(VALUES)
def test_values_are_counted_without_a_walk_as_by_one(value: Any) -> None:
    def walked(part: Any) -> int:
        below = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return 1 + sum(map(walked, below))

    assert count_values(json.dumps(value, separators=(",", ":")).encode()) == walked(value)


@given(VALUES)
def test_only_json_with_a_long_name_may_have_one(value: Any) -> None:
    """Texts of any length and any escapes beside it change nothing."""
    text = json.dumps([value, "\\" * 7 + '"' * 5 + "x" * 2_000, {'\\": "\\': '": "' * 900}])
    assert not _may_have_long_names(text.encode())
    assert _may_have_long_names(json.dumps([json.loads(text), {"n" * 1_025: 0}]).encode())


def test_a_client_names_no_field_at_length() -> None:
    assert read_bounded(b'{"' + b"n" * MAX_NAME_CHARS + b'": "' + b"v" * 9_000 + b'"}')
    with pytest.raises(NotStrictJsonError, match="name of a field"):
        read_bounded(b'[{"' + b"n" * (MAX_NAME_CHARS + 1) + b'": 0}]')


@pytest.mark.parametrize("unit", [b',"', b',"\\"', b',\\"', b',"\\\n', b'{"":,'])
def test_values_are_counted_in_linear_time_in_what_is_no_json(unit: bytes) -> None:
    with pytest.raises(NotStrictJsonError):
        read_bounded(unit * 200_000)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[" + b"[]," * 11 + b"0]", True),
        (b"[" + b"[]," * 4 + b"0]", False),
        (json.dumps({"text": json.dumps([{"a": [1, 2]}] * 50)}).encode(), False),
        (b'["' + b"," * 50 + b'"]', False),
        (b'["' + b"\\\\," * 50 + b'"]', False),
        (b"[" + b'"",' * 50 + b"0]", True),
        (b"[" + b'"\\\\",' * 50 + b"0]", True),
    ],
)
def test_more_values_than_are_taken_are_seen_without_reading_them(data: bytes, expected: bool) -> None:
    assert has_more_values(data, 10) is expected


def test_commas_in_texts_are_no_values() -> None:
    text = json.dumps([',\\"' * MAX_VALUES] * 3).encode()
    assert len(read_bounded(text)) == 3
