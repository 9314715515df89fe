"""Expected verdicts are answered by the code that decides, and a bad file is refused whole."""

from typing import Any

import pytest
import yaml

from towpath_contracts.files.policy_tests import PolicyTestCase
from towpath_tas.adapters.cel import compile_condition, compile_grant
from towpath_tas.core.expectations import CaseEvaluation, failures, is_expected, read_expectations, run_case
from towpath_tas.core.policy.matrix import Matrix
from towpath_tas.core.policy.policy_file import read_policy

POLICY = """kind: Policy
rules:
  - {name: small, who: {agent: billing}, tool: orders.refund, effect: allow, when: args.amount <= 100,
     max_calls_per_run: 2}
  - {name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100}
  - {name: night, tool: "mail.*", operation: write, effect: allow, when: run.labels.shift == 'night'}
  - {name: traced, tool: pay.out, effect: deny, when: "origin.worst == 'untrusted'"}
  - {name: told, tool: tell, effect: allow, when: "size(origin.leaks) == 0 && origin.readers_known"}
  - {name: secret, tool: tell, effect: deny, when: "origin.confidential && !('ann' in origin.readers)"}
  - {name: pays, tool: pay.out, effect: allow, max_cost_per_run_usd: 1}
"""
BILLING = {"network": "support", "agent": "billing"}


def matrix() -> Matrix:
    return Matrix(read_policy(POLICY, compile_condition).rules, compile_condition)


def case(tool: str, verdict: str, **more: Any) -> PolicyTestCase:
    return PolicyTestCase.model_validate({"who": BILLING, "tool": tool, "verdict": verdict, **more})


def said(tool: str, **more: Any) -> tuple[str, str | None]:
    found = run_case(matrix(), case(tool, "allow", **more), compile_grant)
    return found.verdict, found.rule


def test_every_part_of_a_case_is_weighed() -> None:
    assert said("orders.refund", args={"amount": 5}) == ("allow", "small")
    assert said("orders.refund", args={"amount": 500}) == ("require_approval", "large")
    assert said("orders.refund", args={"amount": 5}, who={"agent": "other"}) == ("deny", None)
    assert said("orders.refund", args={"amount": 5}, used={"small": 2}) == ("deny", "small")
    assert said("orders.refund", args={"amount": 5}, grant=[{"tool": "mail.*"}]) == ("deny", None)
    assert said("mail.send", operation="write", labels={"shift": "night"}) == ("allow", "night")
    assert said("mail.send", labels={"shift": "night"}) == ("deny", None)
    assert said("pay.out", spent_usd=0.5, origin={"worst": "task"}) == ("allow", "pays")
    assert said("pay.out", spent_usd=0.5, origin={"worst": "untrusted"}) == ("deny", "traced")
    known = {"leaks": [], "readers_known": True, "confidential": True}
    assert said("tell", origin={**known, "readers": ["ann"]}) == ("allow", "told")
    assert said("tell", origin={**known, "readers": ["nobody"]}) == ("deny", "secret")
    assert said("tell", origin=known) == ("deny", "secret"), "what a case does not state restricts"
    assert said("pay.out", spent_usd=1.5, origin={"worst": "task"}) == ("deny", "pays")
    assert said("pay.out", origin={"worst": "task"}) == ("deny", "pays")


def test_a_case_that_names_a_rule_wants_that_rule() -> None:
    by_rule = CaseEvaluation(verdict="deny", rule="small")
    by_none = CaseEvaluation(verdict="deny", rule=None)
    assert is_expected(case("t", "deny"), by_rule)
    assert is_expected(case("t", "deny", rule="small"), by_rule)
    assert not is_expected(case("t", "deny", rule="large"), by_rule)
    assert not is_expected(case("t", "deny", rule=""), by_rule)
    assert is_expected(case("t", "deny", rule=""), by_none)
    assert not is_expected(case("t", "allow"), by_none)


def test_failures_name_their_case_and_say_why() -> None:
    cases = [case("orders.refund", "allow", args={"amount": 5}), case("orders.refund", "allow", args={"amount": 500})]
    ((place, wrong),) = failures(matrix(), cases, compile_grant)
    assert (place, wrong.verdict, wrong.rule) == (1, "require_approval", "large")
    assert {(one.rule, one.matched) for one in wrong.trace} == {("small", False), ("large", True)}


def test_a_file_is_read_with_the_lines_of_its_cases() -> None:
    text = "kind: PolicyTest\npolicy: p.yaml\ncases:\n  - {tool: a, verdict: allow}\n\n  - tool: b\n    verdict: deny\n"
    read = read_expectations(text)
    assert read.found is not None
    assert (read.found.policy, read.lines) == ("p.yaml", (4, 6))
    assert [one.tool for one in read.found.cases] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "mapping"),
        ("kind: Policy\ncases: []", "PolicyTest"),
        ("kind: PolicyTest\ncases: []", "at least 1"),
        ("kind: PolicyTest\ncases:\n  - {tool: a, verdict: alow}\n", "line 3"),
        ("kind: PolicyTest\ncases:\n\n  - {tool: a, verdict: allow, toool: b}\n", "line 4"),
        ("kind: PolicyTest\n\ncases: []\n", "line 3: cases: at least 1 entry belongs here"),
        ("kind: PolicyTest\ncases:\n  - tool: a\n    verdict: allow\n    toool: b\n", "line 5: there is no field"),
        ("kind: PolicyTest\ncases:\n  - {tool: a, who: {agnet: b}, verdict: allow}\n", "line 3"),
        ("kind: PolicyTest\n\tcases: 1", "not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(text: str, word: str) -> None:
    read = read_expectations(text)
    assert read.found is None
    assert any(word in problem.detail for problem in read.problems), read.problems


def test_what_is_written_is_what_is_weighed() -> None:
    """YAML's own types reach the condition: a quoted number is no number, and an unclear condition never allows."""
    text = yaml.safe_dump(
        {
            "kind": "PolicyTest",
            "cases": [{"tool": "orders.refund", "who": BILLING, "args": {"amount": "5"}, "verdict": "deny"}],
        }
    )
    read = read_expectations(text)
    assert read.found is not None
    found = run_case(matrix(), read.found.cases[0], compile_grant)
    assert (found.verdict, found.rule) == ("require_approval", "large")
