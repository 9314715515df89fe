"""Plans and workflows happen as an oracle says that shares no code with them; its long form is a command."""

import pytest
from tests.oracles import plans
from tests.oracles.plan_rules import Happened, faulty, parts_of, path_of
from tests.oracles.plan_shapes import Case


def test_a_thousand_random_plans_agree_with_an_oracle() -> None:
    """Validity, order, concurrency, statuses, skipped steps, limits and merged bindings."""
    seen = plans.many(1_000, seed=1)
    rare = ("invalid", "completed", "failed", "cancelled", "timed_out", "step partial", "step skipped", "workflow")
    assert min(seen[one] for one in rare) >= 20, seen
    assert seen["peak 4"] >= 100 and "peak 5" not in seen, seen


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [("words", "")]),
        ("a{{ b }}", [("words", "a"), ("braces", "b")]),
        ("{{{ b }}", [("words", "{"), ("braces", "b")]),
        ("{{ a {{b}}", [("words", "{{ a "), ("braces", "b")]),
        ("{{ a", [("words", "{{ a")]),
    ],
)
def test_the_oracle_knows_braces(text: str, parts: list[tuple[str, str]]) -> None:
    assert parts_of(text) == parts


def test_the_oracle_knows_references_and_faults() -> None:
    assert path_of("result.a.b[0].c") == ("result", ["a", "b", 0, "c"])
    assert [path_of(text) for text in ("result", "result.", "result[", "other.a", "result.a b")] == [None] * 5
    broken = {"steps": [{"type": "agent", "agent": {"prompt": "{{ result.x }}"}}, {"id": "step_01", "type": "agent"}]}
    wrong = {"steps[0].agent.agent_key", "steps[0].agent.prompt", "steps[1]", "steps[1].id"}
    assert faulty(broken, {"bob"}, ()) == wrong


def test_what_a_run_does_otherwise_is_reported_with_its_seed() -> None:
    block = {"steps": [{"agent_key": "bob"}, {"agent_key": "cid"}], "merge_strategy": "fail_fast"}
    case = Case(7, plan={"steps": [{"id": "s", "type": "parallel", "parallel": block}]}, bad=0)
    run = plans.Driven(case).run()
    course = plans.course_of(case, run.ended, run.cut)
    assert plans.agree(case, run.trace, course)["completed"] == 1
    alone: list[Happened] = [one for one in course.trace if one[:2] != ("start", "s[1]")]
    course.trace = alone
    with pytest.raises(plans.DifferentError, match=r"seed 7: trace\[4\]"):
        plans.agree(case, run.trace, course)
