"""Plans in Python and in files: what a builder writes, and what it refuses at once."""

import json
from pathlib import Path

import pytest

from towpath import DeclarationError, RefusedError, call, plan
from towpath.cli import main
from towpath.cli.definitions.plan_options import PlanOptions
from towpath.tasks.plans import plan_json
from towpath_contracts.networks.plan_checks import check_plan
from towpath_contracts.problems.registry import ProblemError

DIGEST = (
    plan("digest", topic="locks")
    .step("finder", "Find papers on {{ bindings.topic }}.", bind="facts")
    .parallel(
        call("reader", "Read {{ result.facts.first }}.", bind="one"),
        call("critic", with_={"paper": "{{ result.facts }}"}, timeout="2m"),
        merge="fail_fast",
        id="read",
    )
    .step("writer", with_={"notes": "{{ result.one }}"}, timeout=30)
)


def test_a_draft_writes_the_plan_that_the_platform_takes() -> None:
    task = DIGEST.to_json()
    written, faults = check_plan(task["plan"], agents={"finder", "reader", "critic", "writer"}, bindings=["topic"])
    assert written is not None and not faults
    assert (task["bindings"], written.name, [one.id for one in written.steps]) == (
        {"topic": "locks"},
        "digest",
        ["step_01", "read", "step_03"],
    )
    assert written.steps[1].parallel is not None
    assert (written.steps[1].parallel.merge_strategy, written.steps[1].calls[1].timeout_ms) == ("fail_fast", 120_000)
    assert (written.steps[2].timeout_ms, written.steps[2].calls[0].with_) == (30_000, {"notes": "{{ result.one }}"})


def test_a_draft_is_never_changed_by_what_is_added_to_it() -> None:
    beginning = plan().step("a", "One.")
    assert len(beginning.step("b", "Two.").steps) == 2
    assert len(beginning.steps) == 1


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda: DIGEST.step("a", "{{ result.nothing }}"), "steps[3].agent.prompt: result.nothing is not defined"),
        (lambda: DIGEST.step("a", "Go.", bind="facts"), "steps[3].agent.result_key 'facts' is used by"),
        (lambda: DIGEST.step("a", "Go.", id="read"), "steps[3].id 'read' is used by steps[1].id already"),
        (lambda: DIGEST.step("a", "Go.", bind="no blanks"), "does not match"),
        (DIGEST.parallel, "steps[3].parallel.steps needs at least 1 agent"),
        (lambda: plan().step("a", "{{ 1 + 1 }}"), "steps[0].agent.prompt: {{ 1 + 1 }} is no reference"),
    ],
)
def test_what_is_wrong_with_a_step_is_reported_where_it_is_written(wrong: object, expected: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        wrong()  # type: ignore[operator]  # a lambda of the table above
    assert expected in str(refused.value)


def test_a_plan_is_checked_whole_before_it_leaves() -> None:
    asks = plan().step("a", "About {{ bindings.topic }}.")
    with pytest.raises(RefusedError) as refused:
        asks.to_json()
    assert (refused.value.code, refused.value.problem.errors[0].pointer) == ("plan_invalid", "/steps/0/agent/prompt")
    assert asks.given(topic="locks").to_json()["bindings"] == {"topic": "locks"}
    with pytest.raises(RefusedError, match="needs at least 1 step"):
        plan("empty").to_json()
    with pytest.raises(RefusedError, match="agents are: b"):
        asks.given(topic="locks").check({"b"})


def test_other_words_for_a_plan_are_a_sentence_and_plain_json() -> None:
    assert plan_json("Compare them.") == {"prompt": "Compare them."}
    assert plan_json({"steps": []}) == {"plan": {"steps": []}}
    assert plan_json({"prompt": "Go."}) == {"prompt": "Go."}


def test_files_and_words_of_the_command_line_make_the_same_task(tmp_path: Path) -> None:
    file = tmp_path / "digest.yaml"
    file.write_text("steps:\n  - {type: agent, agent: {agent_key: a, prompt: 'On {{ bindings.topic }}.'}}\n")
    given = PlanOptions(plan=file, set=("topic=x=y", "n:=[1]"), max_parallel=2).options()["plan"]
    assert (given["bindings"], given["max_parallel"]) == ({"topic": "x=y", "n": [1]}, 2)
    assert given["plan"]["steps"][0]["agent"]["agent_key"] == "a"
    whole = tmp_path / "task.json"
    whole.write_text(json.dumps({"network": "n", "plan": given}))
    assert PlanOptions(plan=whole).options()["plan"] == given
    assert PlanOptions(plan_prompt="Go.").options() == {"plan": {"prompt": "Go."}}
    for wrong in (
        PlanOptions(set=("a=b",)),
        PlanOptions(plan=file, plan_prompt="x"),
        PlanOptions(plan=file, set=("a",)),
    ):
        with pytest.raises(ProblemError):
            wrong.options()


@pytest.mark.prints("plans check")
def test_a_checked_file_tells_the_line_of_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("plan:\n  steps:\n    - type: agent\n    - type: agent\n      agent: {agent_key: ''}\n")
    assert main(["plans", "check", str(file)]) == 2
    errors = capsys.readouterr().err
    assert f"{file}:3: steps[0] needs exactly one of agent and parallel" in errors
    assert f"{file}:5: steps[1].agent.agent_key is required" in errors
    file.write_text("steps:\n  - {type: agent, agent: {agent_key: a, prompt: '{{ bindings.topic }}'}}\n")
    assert main(["plans", "check", str(file), "--set", "topic=locks", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "steps": 1, "network": None}
