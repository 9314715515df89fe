"""A suite is judged case by case: what does not hold is told in a sentence, what is wrong in the file by its line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.decider.gemini_server import gemini
from tests.support.decider.model_servers import KEY, OpenAi

from towpath.errors import RefusedError
from towpath.project.scaffold import create_project
from towpath_contracts.files.evaluation_suite import ExpectedOutcome
from towpath_contracts.problems.registry import ProblemError
from towpath_testing.evaluation.arguments import includes
from towpath_testing.evaluation.evaluator import EvaluationRequest, evaluate
from towpath_testing.evaluation.expectations import unmet

HEAD = {
    "kind": "Evaluation",
    "network": "../networks/support.yaml",
    "policy": "../policies.yaml",
    "tools": ["../tools"],
}
REFUND = {"name": "refund", "input": "Refund order 8812"}
APPROVED = {**REFUND, "gates": [{"rule": "refunds-over-100"}]}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    create_project(folder)
    return folder


async def runs_of(project: Path, *cases: Row, head: Row | None = None, **asked: Any) -> list[Row]:
    path = project / "tests" / "suite.yaml"
    path.write_text(yaml.safe_dump({**HEAD, **(head or {}), "cases": list(cases)}, sort_keys=False))
    found = [line async for line in evaluate(EvaluationRequest(suite=path, **asked))]
    return [line["run"] for line in found if "run" in line] or found


async def failures(project: Path, case: Row, **expect: Any) -> list[str]:
    (run,) = await runs_of(project, {**case, "expect": expect})
    assert run["passed"] == (not run["failures"])
    return list(run["failures"])


async def test_a_case_passes_where_all_of_it_holds(project: Path) -> None:
    expect = {
        "reason": "responded",
        "contains": ["8812", "129.00"],
        "lacks": ["sorry"],
        "matches": r"\d+\.\d\d EUR",
        "output": {"type": "object", "required": ["message"]},
        "that": ['result.agents == ["triage", "billing"]', "result.calls.size() == 2", "result.gates.size() == 1"],
        "calls": [{"tool": "orders.refund", "args": {"amount": 129}, "times": 1}, {"tool": "orders.find"}],
        "no_calls": [{"tool": "orders.refund", "args": {"order_id": "8811"}}],
        "max_usd": 0,
        "max_tokens": 0,
        "max_steps": 4,
    }
    assert await failures(project, APPROVED, **expect) == []


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ({"status": "failed"}, "the run is completed (responded), not failed"),
        ({"reason": "step_limit"}, "the run is completed because of responded, not step_limit"),
        ({"contains": ["thanks"]}, "the answer does not contain 'thanks': 'Order 8812 is refunded"),
        ({"lacks": ["refunded"]}, "the answer contains 'refunded': 'Order 8812"),
        ({"matches": "^No"}, "the answer does not match '^No': 'Order"),
        ({"output": {"properties": {"message": {"maxLength": 3}}}}, "the answer does not fit its schema at /message:"),
        ({"output": {"required": ["id"]}}, "the answer does not fit its schema: 'id' is missing"),
        ({"that": ["result.steps < 2"]}, "result.steps < 2 is False, not true"),
        ({"that": ["result.stpes < 2"]}, "result.stpes < 2 can't be evaluated:"),
        ({"calls": [{"tool": "orders.send"}]}, "orders.send was not called"),
        (
            {"calls": [{"tool": "orders.refund", "args": {"amount": 1}}]},
            "orders.refund with {'amount': 1} was not called; it succeeded with {'order_id': '8812', 'amount': 129.0}",
        ),
        ({"calls": [{"tool": "orders.find", "times": 2}]}, "orders.find was called 1 times, not 2"),
        ({"calls": [{"tool": "orders.refund", "status": "denied"}]}, "orders.refund was not denied; it succeeded"),
        ({"no_calls": [{"tool": "orders.find"}]}, "orders.find was called, with {'order_id': '8812'}"),
        ({"max_steps": 3}, "it took 4 steps, more than 3"),
    ],
)
async def test_what_does_not_hold_is_told(project: Path, expect: Row, told: str) -> None:
    (said,) = await failures(project, APPROVED, **expect)
    assert said.startswith(told)


async def test_a_run_that_ended_otherwise_is_told_once_with_what_must_not_have_run(project: Path) -> None:
    wanted = {"status": "failed", "contains": ["thanks"], "no_calls": [{"tool": "orders.refund"}]}
    assert [one.split(",")[0] for one in await failures(project, APPROVED, **wanted)] == [
        "the run is completed (responded)",
        "orders.refund was called",
    ]


async def test_gates_are_decided_as_the_case_says(project: Path) -> None:
    denied = {**REFUND, "gates": [{"tool": "orders.refund", "args": {"amount": 129}, "decide": "deny"}]}
    edited = {**REFUND, "gates": [{"kind": "approval", "edit": {"amount": 60}}]}
    edited |= {"expect": {"calls": [{"tool": "orders.refund", "args": {"amount": 60, "order_id": "8812"}}]}}
    denied |= {"name": "denied", "expect": {"calls": [{"tool": "orders.refund", "status": "denied"}]}}
    runs = await runs_of(project, denied, edited)
    assert [run["failures"] for run in runs] == [[], []]
    assert [run["gates"][0]["decided"] for run in runs] == ["deny", "approve"]


async def test_a_gate_that_nobody_expects_is_denied_and_one_that_does_not_open_is_missed(project: Path) -> None:
    (run,) = await runs_of(project, {**REFUND, "gates": [{"rule": "another", "args": {"amount": 1}}]})
    opened, missed = run["failures"]
    assert opened.startswith("a gate opened that is not expected: approval refunds-over-100 orders.refund")
    assert missed == "no gate opened for another {'amount': 1}"
    assert [call["status"] for call in run["calls"]] == ["succeeded", "denied"]


async def test_a_verdict_that_a_gate_does_not_take_fails_the_case(project: Path) -> None:
    (run,) = await runs_of(project, {**REFUND, "gates": [{"decide": "retry"}]})
    assert not run["passed"]
    assert run["failures"] == [one for one in run["failures"] if one.startswith("verdict_invalid: an approval takes")]


async def test_what_one_run_changes_no_other_sees(project: Path) -> None:
    runs = await runs_of(project, APPROVED, repeat=3, models=["scripted:support"])
    assert [(run["attempt"], run["model"], run["passed"]) for run in runs] == [
        (number, "scripted:support", True) for number in (1, 2, 3)
    ]


async def test_cases_are_chosen_by_name_and_by_label(project: Path) -> None:
    cases = [
        {"name": "a", "input": "Hi", "labels": {"topic": "x"}},
        {"name": "b", "input": "Hi", "labels": {"topic": "y", "more": "z"}},
    ]
    assert [run["case"] for run in await runs_of(project, *cases, cases=["b"])] == ["b"]
    assert [run["case"] for run in await runs_of(project, *cases, labels={"topic": "x"})] == ["a"]
    with pytest.raises(ProblemError, match=r"no case of .* has topic=z"):
        await runs_of(project, *cases, labels={"topic": "z"})
    with pytest.raises(ProblemError, match="has no case 'refun'; did you mean 'refund'"):
        await runs_of(project, APPROVED, cases=["refun"])


async def test_models_are_compared_recorded_and_replayed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, kept = OpenAi(), tmp_path / "answers.jsonl"
    says = '{"action": "RESPOND", "action_reasoning": "so", "action_details": {"payload": {"message": "hi"}}}'
    case = {"name": "greets", "input": "Hello", "expect": {"contains": ["hi"], "max_usd": 0.000_001}}
    models = ["openai:gpt-5-mini", "openai:nobody-prices-this", "scripted:support"]
    with gemini(api.says(says)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("TOWPATH_OPENAI_BASE_URL", f"{server.url}/v1")
        runs = await runs_of(project, case, models=models, record=kept)
    assert [run["usd"] for run in runs] == [pytest.approx(api.usd), None, 0.0]
    assert runs[0]["failures"] == [f"it cost {api.usd:.6g} USD, more than 1e-06"]
    assert runs[1]["failures"] == ["the cost is not known, so it can't be at most 1e-06 USD: the model has no price"]
    assert [run["tokens"] for run in runs] == [1_110, 1_110, 0]
    monkeypatch.delenv("OPENAI_API_KEY")
    again = await runs_of(project, case, models=models[:2], replay=kept)
    assert [(run["text"], run["usd"]) for run in again] == [("hi", pytest.approx(api.usd)), ("hi", None)]
    (missed,) = await runs_of(project, {**case, "input": "Good evening"}, models=models[:1], replay=kept)
    assert missed["failures"][0].startswith(f"no recording: {kept} has no answer of openai:gpt-5-mini for agent triage")
    assert KEY not in kept.read_text()


async def test_without_a_provider_only_what_needs_none_is_run(project: Path) -> None:
    network = (project / "networks/support.yaml").read_text()
    (project / "networks/paid.yaml").write_text(network.replace("model: scripted:support", "model: gemini:x"))
    head = {"network": "../networks/paid.yaml"}
    assert await runs_of(project, APPROVED, head=head, offline=True) == [{"left_out": "it asks gemini:x"}]
    published = {"network": "support"}
    (left,) = await runs_of(project, APPROVED, head=published, offline=True)
    assert left == {"left_out": "support is published on a platform"}
    with pytest.raises(RefusedError, match="a published network needs a platform"):
        await runs_of(project, APPROVED, head=published)
    (run,) = await runs_of(project, APPROVED, offline=True)
    assert run["passed"]


async def test_a_run_that_takes_too_long_fails_its_case_and_says_what_it_waits_for(project: Path) -> None:
    slow = [{"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": {}}, "delay_ms": 5_000}]
    case = {"name": "slow", "task": {"script": slow, "max_steps": 2}}
    (run,) = await runs_of(project, case, head={"timeout_s": 0.2}, models=["scripted:task"])
    assert run["failures"][0].startswith("timeout")
    assert (run["status"], run["usd"]) == ("", None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"policy": "../polices.yaml"}, "polices.yaml does not exist. "),
        ({"tools": ["../tool"]}, "tool does not exist. "),
        ({"networks": "a"}, "there is no field 'networks'"),
        ({"cases": [REFUND, {**REFUND}]}, ":9: 'refund' is there already"),
        ({"cases": [{**REFUND, "expect": {"that": ["result.steps <"]}}]}, ":11: that: no CEL expression"),
        ({"cases": [{**REFUND, "expect": {"that": ["1 < 2"]}}]}, "it does not look at result"),
        ({"cases": [{**REFUND, "expect": {"matches": "("}}]}, "no regular expression"),
        ({"cases": [{**REFUND, "expect": {"output": {"type": "text"}}}]}, "no JSON Schema"),
        ({"cases": [{**REFUND, "task": {"model": "gemini:x"}}]}, "model is no part of task"),
        ({"cases": [{**REFUND, "task": {"max_step": 3}}]}, "max_step"),
        ({"cases": [{**REFUND, "gates": [{"decide": "perhaps"}]}]}, "'approve', 'deny'"),
        ({"cases": [{"name": "refund"}]}, "input is required"),
    ],
)
async def test_a_mistake_in_the_file_is_told_with_its_line_before_anything_runs(
    project: Path, change: Row, told: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        await runs_of(project, *change.pop("cases", [REFUND]), head=change)
    assert refused.value.problem.code == "evaluation_invalid"
    assert told in str(refused.value)


async def test_a_network_that_no_platform_would_take_ends_the_evaluation(project: Path) -> None:
    (project / "networks/bad.yaml").write_text(
        "name: bad\nmodel: scripted:support\nagents: [{key: a, equipped_tools: [b.c]}]\n"
    )
    with pytest.raises(RefusedError, match="network_invalid"):
        await runs_of(project, APPROVED, head={"network": "../networks/bad.yaml"})


async def test_options_that_exclude_each_other_are_refused(project: Path, tmp_path: Path) -> None:
    both = {"record": tmp_path / "a", "replay": tmp_path / "b"}
    with pytest.raises(ProblemError, match="give one of them"):
        await runs_of(project, APPROVED, **both)
    with pytest.raises(ProblemError, match="a platform asks its models itself"):
        await runs_of(project, APPROVED, server="http://127.0.0.1:1", replay=tmp_path / "b")


def test_of_a_long_answer_200_characters_are_shown() -> None:
    outcome = {"status": "completed", "reason": "", "text": "a" * 201, "output": {}, "calls": [], "usd": 0.0}
    (said,) = unmet(ExpectedOutcome(contains=("b",)), outcome)
    assert said == f"the answer does not contain 'b': '{'a' * 200}…'"
    (said,) = unmet(ExpectedOutcome(contains=("b",)), {**outcome, "text": "a" * 200})
    assert said == f"the answer does not contain 'b': '{'a' * 200}'"


@pytest.mark.parametrize(
    ("found", "expected", "fits"),
    [
        ({"a": 1.0, "b": 2}, {"a": 1}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_arguments_are_compared_as_far_as_they_are_named(found: Row, expected: Row, *, fits: bool) -> None:
    assert includes(found, expected) is fits
