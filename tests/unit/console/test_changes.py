"""What differs between two definitions: found by name, told line by line, and never more work than is bounded."""

from time import process_time
from typing import Any

import pytest

from towpath_console.drawings.changes import MAX_CHANGES, MAX_COMPARED, Change, changes_between


def network(*agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "shop", "agents": list(agents), **more}


def agent(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, **more}


def test_equal_definitions_differ_in_nothing() -> None:
    one = network(agent("a", prompt_template="x\ny"), tools={"t": {"name": "t"}})
    assert changes_between(one, one).shown == ()


def test_an_agent_that_comes_first_changes_no_other() -> None:
    before, after = network(agent("b", model="m")), network(agent("a", description="new"), agent("b", model="m"))
    assert changes_between(before, after).shown == (Change("added", "agent a", "", "", "description: new"),)
    assert changes_between(after, before).shown == (Change("removed", "agent a", "", "description: new", ""),)


def test_members_are_told_with_both_values() -> None:
    before = network(agent("a", allowed_routes=["b"]), max_steps=10, tools={"t": {"effect_class": "pure"}})
    after = network(agent("a", allowed_routes=["b", "c"], model="m"), tools={"t": {"effect_class": "idempotent"}})
    assert changes_between(before, after).shown == (
        Change("removed", "", "max_steps", "10", ""),
        Change("changed", "agent a", "allowed_routes", "b", "b, c"),
        Change("added", "agent a", "model", "", "m"),
        Change("changed", "tool t", "effect_class", "pure", "idempotent"),
    )


def test_a_long_text_is_compared_line_by_line() -> None:
    lines = [f"line {number}" for number in range(40)]
    changed = [*lines[:5], "--- another", *lines[6:30], *lines[31:]]
    found = changes_between(
        network(agent("a", prompt_template="\n".join(lines))), network(agent("a", prompt_template="\n".join(changed)))
    )
    (change,) = found.shown
    told = [(line.sign, line.text) for line in change.lines]
    assert ("-", "line 5") in told and ("+", "--- another") in told and ("-", "line 30") in told
    assert ("…", "") in told and len(told) < 20, "what is equal is left out"


def test_the_work_is_bounded() -> None:
    def large(word: str) -> dict[str, Any]:
        agents = [
            agent(f"a{number}", prompt_template="\n".join(f"{word} {line % 7}" for line in range(999)))
            for number in range(50)
        ]
        return network(*agents, **{f"m{number}": word for number in range(MAX_CHANGES)})

    began = process_time()
    found = changes_between(large("one"), large("two"))
    assert process_time() - began < 5
    assert len(found.shown) == MAX_CHANGES and found.left == 50
    assert sum(len(change.lines) for change in found.shown) <= MAX_COMPARED


@pytest.mark.parametrize(("lines", "is_compared"), [(1_000, True), (1_001, False)])
def test_a_text_with_too_many_lines_is_named_and_not_compared(lines: int, is_compared: bool) -> None:
    before, after = (f"{word}\n" + "same\n" * (lines - 1) for word in ("one", "two"))
    (change,) = changes_between({"a": before}, {"a": after}).shown
    assert {("-", "one"), ("+", "two")} <= {(line.sign, line.text) for line in change.lines} or not is_compared
    assert change.before == ("" if is_compared else "1,001 lines, too many to compare here")


@pytest.mark.parametrize(("lines", "is_compared"), [(10, True), (11, False)])
def test_of_very_many_lines_the_last_texts_are_named_and_not_compared(lines: int, is_compared: bool) -> None:
    def texts(word: str, lines: int) -> dict[str, Any]:
        sizes = {"a": 1_000, "b": 1_000, "c": 990, "d": lines}
        return {name: f"{word}\n" + "same\n" * (size - 1) for name, size in sizes.items()}

    *first, last = changes_between(texts("one", 10), texts("two", lines)).shown
    assert all(change.lines for change in first), "5,980 lines are compared, and room is for 20 more"
    assert bool(last.lines) == is_compared and ("too many" in last.after) != is_compared


@pytest.mark.parametrize(("number", "left"), [(400, 0), (401, 1)])
def test_very_many_changes_are_shown_in_part_and_the_rest_is_counted(number: int, left: int) -> None:
    found = changes_between({}, {f"m{place}": "x" for place in range(number)})
    assert (len(found.shown), found.left) == (400, left)


def test_a_long_member_of_a_new_agent_is_shown_in_part() -> None:
    after = network(agent("a", model="x" * 160, description="y" * 161))
    (change,) = changes_between(network(), after).shown
    assert change.after.splitlines() == [f"model: {'x' * 160}", f"description: {'y' * 160}…"]
