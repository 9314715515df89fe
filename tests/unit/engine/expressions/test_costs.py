"""Acceptance criteria take no time to speak of, whatever a caller writes and a model answers."""

from typing import Any

import pytest
from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import use

from towpath_contracts.canonical import canonical_json
from towpath_contracts.events import log as ev
from towpath_engine.expressions import criterion
from towpath_engine.expressions.costs import MAX_SEARCHES, SEARCHED_CHARS, size_of
from towpath_engine.expressions.criterion import compile_criterion, fault_of, search_work
from towpath_engine.rules.criteria import MAX_WORK, criteria_input
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


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("^done [0-9]{4}-[0-9]{2}$", 100),
        ("error|failed", 100),
        ("^sha256:[0-9a-f]{64}$", 50),
        ("[0-9a-f]{64}", 1),
        (r"\pL{450}", 0),
        (r"[ab]*a[ab]{250}c", 0),
    ],
)
def test_what_a_pattern_costs_is_known_before_it_is_compiled(pattern: str, fits: int) -> None:
    work = search_work(f"last_output.matches(r'{pattern}')")
    assert int(MAX_SEARCHES // work) >= fits
    assert fits or work > MAX_SEARCHES
    assert search_work(f"(last_output.a + last_output.b).matches(r'{pattern}')") >= work


def test_patterns_that_look_around_are_refused() -> None:
    assert "looks around" in fault_of("last_output.matches('(?=a)b')")
    assert search_work("last_output == 'a.matches(b)'") == 0
    assert SEARCHED_CHARS == MAX_CHARS


FILES = {f"{place:04d}/{'n' * 90}": {"size": place, "digest": "d" * 71} for place in range(1_000)}
LISTED = {"items": ["y" * 60] * 256}
SCENE: dict[str, Any] = {"workspace": {"files": FILES}, "claimed": LISTED, "last_output": LISTED}


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("size(workspace.files.filter(f, f.endsWith('.md'))) >= 3", MAX_WORK),
        ("size(workspace.files.map(f, f)) > 0", MAX_WORK),
        ("workspace.files.all(f, f in claimed.items || true)", 50_000),
        (" || ".join(["workspace.files == 1"] * 40), 40_000),
        ("claimed.items.all(i, i in last_output.items)", 20_000),
        ("workspace.files.all(f, workspace.files[f].size > 0)", 10_000),
    ],
)
def test_what_an_expression_costs_follows_from_what_it_sees(text: str, least: float) -> None:
    assert fault_of(text) == ""
    work = compile_criterion(text).work
    assert work.estimate({name: size_of(value) for name, value in SCENE.items()}) >= least
    small = {
        "workspace": {"files": {"a.md": {"size": 1}}},
        "claimed": {"items": ["a"]},
        "last_output": {"items": ["b"]},
    }
    assert work.estimate({name: size_of(value) for name, value in small.items()}) < MAX_WORK / 64


def test_criteria_beyond_what_a_validation_may_cost_are_not_met() -> None:
    dear = [f"size(last_output.items.filter(i, i != 'z{place}')) > 0" for place in range(10)]
    machine = goal_run(*dear, "last_output.items[0] == 'y'")
    machine.decide(use("edit"))
    machine.finish(result={"items": ["y"] * 256})
    (found,) = machine.events(ev.StepResultValidated)
    assert 0 in found.criteria and 9 not in found.criteria


def test_a_criterion_that_cannot_be_compiled_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at in a thread first, and must not be compiled again where everybody waits."""
    tried: list[str] = []

    def compiled(text: str) -> criterion.CompiledCriterion:
        tried.append(text)
        return compile_criterion(text)

    monkeypatch.setattr(criterion, "compile_criterion", compiled)
    for _ in range(2):
        assert "unknown name nobody_here" in fault_of("nobody_here == 1")
    assert len(tried) == 1
