"""Acceptance criteria take no time to speak of, whatever a caller writes and a model answers."""

from typing import Any

import pytest
from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import use

from towpath_contracts.canonical import canonical_json
from towpath_engine.expressions.criterion import compile_criterion, fault_of
from towpath_engine.rules.criteria import criteria_input
from towpath_engine.rules.criteria_input import CUT, MAX_CHARS, MAX_ITEMS, MAX_VALUES, shorten


def values_in(value: Any) -> int:
    """Count a value and all that is within it."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, parts))


@pytest.mark.parametrize(
    "text",
    [
        "workspace.files.all(f, workspace.files[f].size > 0)",
        "workspace.files.all(f, f in workspace.files)",
        "size(artifacts.filter(a, a.endsWith('.md'))) >= 3",
        "['a.md', 'b.md'].all(n, n in artifacts)",
        "'deploy' in results.map(r, r['tool'])",
        "claimed.items[0].exists(x, x.n + 1 > 3 && tests.failed == 0 && tests.passed > 1)",
        "last_output.matches('^done [0-9]{4}-[0-9]{2}$')",
        "last_output.contains('x.matches(')",
        "has(workspace.files) || last_output == 'workspace.files'",
    ],
)
def test_what_people_write_is_taken(text: str) -> None:
    assert fault_of(text) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("workspace.files.all(f, workspace.files == workspace.files)", "not at workspace, workspace"),
        ("workspace.files.all(f, f in workspace['files'])", "write workspace.files"),
        ("workspace.files.all(f, f in workspace . // \n files)", "write workspace.files"),
        ("workspace.files.all(f, has(workspace.files))", "write workspace.files"),
        ("results.all(r, r in claimed && r in last_output)", "not at claimed, last_output"),
        ("size(results.map(r, claimed)) > 0", "map may look at nothing"),
        ("size(results.map(r, [r, r])) > 0", "map may not make"),
        ("size(workspace.files.map(f, f + f)) > 0", "map may not make"),
        ("workspace.files.exists(f, f + f + f + f + f + f == '')", "4 signs +"),
        ("(last_output + last_output).all(x, x == 1)", "goes over what a criterion sees"),
        ("[claimed, claimed].all(x, x == 1)", "a list without such names"),
        ("last_output.matches('a') || last_output.matches('b')", "matches once"),
        ("results.exists(r, r.tool.matches('b'))", "not beside a macro"),
        ("last_output.matches(claimed.pattern)", "in quotes"),
        ("last_output.matches(claimed.pattern) // .matches('a')", "in quotes"),
        ("last_output.matches('" + "a" * 257 + "')", "257 characters; the limit is 256"),
        ("last_output.matches('(((a?){99}){99}){5}b')", "the limit is 4096"),
        (r"last_output.matches('((a?)\x7b99}){0,99}')", "the limit is 4096"),
        ("last_output.matches('a{ 0000005000 }')", "the limit is 4096"),
        (r"last_output.matches('(?x)a{ #}\n 9999}')", "without the flag x"),
        ("last_output.matches(r'''a''')", "not in three"),
    ],
)
def test_what_takes_long_is_refused_at_submit_and_kept_by_runs_that_have_begun(text: str, fault: str) -> None:
    assert fault in fault_of(text)
    compile_criterion(text)


def test_answers_are_seen_within_bounds_and_small_ones_as_they_are() -> None:
    small = {"a": [1, None, True, 2.5, "x" * 1_000], "b": {"c": {"d": []}}}
    assert shorten(small) == small and shorten("x" * MAX_CHARS) == "x" * MAX_CHARS
    long = shorten("x" * (MAX_CHARS + 1))
    assert len(long) == MAX_CHARS and long.endswith(CUT)
    assert shorten(list(range(1_000))) == list(range(MAX_ITEMS))
    assert len(shorten({str(n): n for n in range(1_000)})) == MAX_ITEMS
    for large in ([[1] * 300] * 300, {str(n): {"x": [[n]] * 9} for n in range(300)}, [{"y" * 999: "z" * 999}] * 300):
        seen = shorten(large)
        assert values_in(seen) <= MAX_VALUES and len(canonical_json(seen)) < 2 * MAX_CHARS


def test_c3_criteria_see_the_beginning_of_a_long_answer() -> None:
    """C3: `last_output` and `results` are cut to 16,384 characters with a mark, and lists to 256 items."""
    machine = goal_run("size(last_output.text) == 16380 && last_output.text.endsWith('[cut]') && size(results) == 1")
    machine.decide(use("edit"))
    machine.finish(result={"text": "x" * 20_000})
    assert machine.finished.reason == "criteria_met"


def test_only_what_an_expression_looks_at_is_given_to_it() -> None:
    machine = goal_run("tests.failed == 0")
    state = machine.state
    assert state.goal is not None
    scene = criteria_input(state, state.goal)
    assert scene["workspace"] == {"files": {}} and scene["claimed"] is None
    scene["workspace"] = {"files": {"a.md": {"size": 3, "digest": "d"}}}
    for text in ("workspace.files['a.md'].size == 3", "workspace['files'].all(f, f == 'a.md')", "has(workspace.files)"):
        assert compile_criterion(text).met(scene), text
    assert compile_criterion("workspace.files.all(workspace, workspace == 'a.md')").met(scene)
    assert compile_criterion("tests == {}").met({"tests": {}}), "nothing else has to be there"
