"""Flows of swarms: what they mean, and what is said of those that mean nothing."""

import pytest

from towpath_contracts.networks.flow import SwarmFlowError, parse_flow, write_flow


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("a", [["a"]]),
        ("a >> b", [["a"], ["b"]]),
        ("  a>>b\n>> c ", [["a"], ["b"], ["c"]]),
        ("(a | b) >> c", [["a", "b"], ["c"]]),
        ("(c|a|b)>>d", [["a", "b", "c"], ["d"]]),
        ("start >> (z | y) >> end", [["start"], ["y", "z"], ["end"]]),
        ("(a) >> b", [["a"], ["b"]]),
        ("team/a.1:x-y_z >> B", [["team/a.1:x-y_z"], ["B"]]),
    ],
)
def test_a_flow_is_a_row_of_stages_each_in_the_order_of_names(text: str, stages: list[list[str]]) -> None:
    parsed = parse_flow(text)
    assert [list(stage) for stage in parsed] == stages
    assert parse_flow(write_flow(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "column 1: the flow is empty"),
        (" \n\t", "column 1: the flow is empty"),
        (">> a", "column 1: the flow begins with '>>'; a stage stands before it"),
        ("| a", "column 1: the flow begins with '|'; a stage stands before it"),
        ("a >>", "column 5: a stage is missing after the '>>' of column 3, before the end"),
        ("a >> >> b", "column 6: a stage is missing after the '>>' of column 3, before '>>'"),
        ("a b", "column 3: 'b' follows a stage; put '>>' between stages"),
        ("a(b)", "column 2: '(' follows a stage; put '>>' between stages"),
        ("a | b", "column 3: '|' outside of parentheses; write a parallel stage as (a | b)"),
        ("(a | b", "column 1: this '(' is never closed"),
        ("(", "column 1: this '(' is never closed"),
        ("a)", "column 2: ')' closes nothing"),
        ("a >> )", "column 6: ')' closes nothing"),
        ("()", "column 1: the group is empty"),
        ("((a))", "column 2: a group inside a group; a group is a whole stage"),
        ("(a | (b | c))", "column 6: a group inside a group; a group is a whole stage"),
        ("(a (b))", "column 4: a group inside a group; a group is a whole stage"),
        ("(a >> b) >> c", "column 4: '>>' inside the group of column 1; a group is a whole stage, close it before"),
        ("( | a)", "column 3: a name is missing before '|'"),
        ("(a | )", "column 6: a name is missing before ')'"),
        ("(a b)", "column 4: 'b' follows a name; put '|' between the members of a group"),
        ("a > b", "column 3: unexpected '>'; a flow has names, '>>', '|' and parentheses"),
        ("a >> b;", "column 7: unexpected ';'; a flow has names, '>>', '|' and parentheses"),
        ("a >> é", "column 6: unexpected 'é'; a flow has names, '>>', '|' and parentheses"),
        (f"a >> {'x' * 129}", "column 6: a name has at most 128 characters, this one 129"),
    ],
)
def test_a_mistake_of_form_is_reported_with_its_column(text: str, expected: str) -> None:
    with pytest.raises(SwarmFlowError) as caught:
        parse_flow(text)
    assert str(caught.value) == expected
    assert [fault.code for fault in caught.value.faults] == ["flow_invalid"]


def test_every_name_that_stands_twice_is_reported_at_once() -> None:
    with pytest.raises(SwarmFlowError) as caught:
        parse_flow("a >> (b | b) >> a >> (c | a)")
    assert [(fault.code, fault.column) for fault in caught.value.faults] == [
        ("flow_duplicate", 11),
        ("flow_cycle", 17),
        ("flow_cycle", 27),
    ]
    assert str(caught.value.faults[0]) == "column 11: b stands twice in one stage (first in column 7)"
    assert str(caught.value.faults[1]) == (
        "column 17: a stands in two stages, which would be a cycle (first in column 1)"
    )


def test_a_long_flow_of_spaces_is_read_at_once() -> None:
    assert parse_flow("a" + " " * 4_000 + ">> b" + " " * 4_000) == (("a",), ("b",))
