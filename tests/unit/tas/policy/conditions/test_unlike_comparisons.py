"""A comparison of a number with a text is found wherever it stands, and what may be meant so is not."""

import pytest

from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.conditions import ConditionResult
from towpath_tas.core.policy.unlike_comparisons import MAX_OPERAND, UnlikeComparison, unlike_comparisons

SCHEMA = {
    "properties": {
        "count": {"type": "integer"},
        "amount": {"type": "number"},
        "name": {"type": "string"},
        "note": {"type": ["string", "null"]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array"},
        "to": {"type": "object", "properties": {"country": {"enum": ["de", "fr"]}}},
        "either": {"type": ["string", "integer"]},
        "open": {"anyOf": [{"type": "string"}]},
    }
}
ARGS = {"count": 5, "amount": 1.5, "name": "x", "note": None, "paid": True, "tags": ["a"], "to": {"country": "de"}}
RESULTS = {None: ConditionResult.UNCLEAR, True: ConditionResult.YES, False: ConditionResult.NO}


def found_in(when: str, *schemas: object) -> list[UnlikeComparison]:
    compile_condition(when)  # what is no condition is never looked at
    return list(unlike_comparisons(when, schemas or (SCHEMA,)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("when", "sides", "result", "meant"),
    [
        ("args.amount > '200'", "a number with a text", None, "args.amount > 200"),
        ("'200' < args.amount", "a number with a text", None, "args.amount > 200"),
        ("args['count']<=\"-3.5\"", "a number with a text", None, "args['count'] <= -3.5"),
        ("args.count > 'many'", "a number with a text", None, ""),
        ("args.amount == '200'", "a number with a text", False, "args.amount == 200"),
        ("args.amount != '200'", "a number with a text", True, "args.amount != 200"),
        ("args.name == 8812", "a text with a number", False, "args.name == '8812'"),
        ("args.name > -3", "a text with a number", None, "double(args.name) > -3"),
        ("args.note == true", "a text with true or false", False, "args.note == 'true'"),
        ("args.paid == 'true'", "true or false with a text", False, "args.paid == true"),
        ("args.paid == 1", "true or false with a number", False, ""),
        ("args.tags == 'a'", "a list with a text", False, "'a' in args.tags"),
        ("args.tags != 'a'", "a list with a text", True, "!('a' in args.tags)"),
        ("args.to.country == 5", "a text with a number", False, "args.to.country == '5'"),
        ("args.to == 'de'", "an object with a text", False, ""),
    ],
)
def test_it_is_told_what_comes_of_it_as_the_engine_evaluates_it_and_what_is_meant(
    when: str, sides: str, result: bool | None, meant: str
) -> None:
    (one,) = found_in(when)
    assert (one.sides, one.result, one.meant, one.is_whole) == (sides, result, meant, True)
    context = {"args": {**ARGS, "note": "x"}}
    assert compile_condition(when)(context) is RESULTS[result]
    if meant:
        assert found_in(meant) == []
        compile_condition(meant)


@pytest.mark.parametrize(
    "when",
    [
        "args.amount > '200' && args.paid",
        "args.paid || (args.amount > '200')",
        "!(args.amount > '200')",
        "args.paid ? args.amount > '200' : false",
        "args.tags.exists(tag, args.amount > '200')",
    ],
)
def test_a_part_of_a_condition_is_found(when: str) -> None:
    (one,) = found_in(when)
    assert (one.written, one.is_whole) == ("args.amount > '200'", False)


@pytest.mark.parametrize(
    "when",
    [
        "args.amount > 200 && args.count == 3.0",
        "args.name == '200' && args.paid == true && args.paid",
        "string(args.count) == '3'",
        "args.name.size() > 3 && size(args.name) > 3",
        "args.name + '1' == '200' && args.count * 2 > 3",
        "args.either > 3 && args.either == 'x'",
        "args.open == 3",
        "args.nosuch == 3",
        "args.tags[0] == 'a'",
        "args.note == null",
        "args.count == args.amount",
        "'args.count > 1' == args.name",
        "args.name in ['a']",
    ],
)
def test_what_may_be_meant_so_is_not_told(when: str) -> None:
    assert found_in(when) == []


def test_nothing_is_told_unless_all_tools_say_so() -> None:
    other = {"properties": {"amount": {"type": "string"}}}
    assert found_in("args.amount > '200'", SCHEMA, other) == found_in("args.amount > '200'", SCHEMA, {}) == []
    assert list(unlike_comparisons("args.amount > '200'", ())) == []


def test_a_long_side_is_read_no_further() -> None:
    assert found_in(f"args{'.to' * MAX_OPERAND} == 1") == []
