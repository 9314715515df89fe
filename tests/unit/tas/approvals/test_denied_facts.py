"""What of a denial stands in the log of a run, which whoever may read the run reads, and what in the audit."""

import json
from typing import Any

import pytest
from tests.support.tas.tas_calls import ask, decision
from tests.unit.tas.policy.test_authorization import bundle

from towpath_contracts.tools.calls import Denial
from towpath_contracts.tools.violations import DenialExplanation
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.matrix import MAX_MISSING_LOOKED_AT, CallPrincipal, Matrix, Rule

BY_RULE = DenialExplanation(
    detail="billing may not call pay: rule large (policies.yaml:14) denies it where caller == 'anna'.",
    remedy="Try what would pass.",
    rule_at="policies.yaml:14",
)
BY_NONE = DenialExplanation(
    detail="No rule allows it. Nearest rule: techs (policies.yaml:7).", nearest="techs", nearest_at="policies.yaml:7"
)


def told(explanation: DenialExplanation, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the explanations in the fact for the run and in the audit."""
    denial = Denial(violation_type="permission_denied", reason="denied by rule large", explanation=explanation)
    change = ask(None, ruled=decision("deny", denial=denial, **more))
    (sent,) = [json.loads(effect.fact) for effect in change.effects if getattr(effect, "fact", None)]
    return sent["denial"].get("explanation", {}), change.notes[0].detail["explanation"]


@pytest.mark.parametrize(
    ("explanation", "of_run"),
    [
        (BY_RULE, {"detail": "denied by rule large (policies.yaml:14)", "rule_at": "policies.yaml:14"}),
        (BY_NONE, {}),
    ],
)
def test_the_log_of_a_run_has_no_conditions_and_no_rules_of_others(
    explanation: DenialExplanation, of_run: dict[str, str]
) -> None:
    whole = explanation.model_dump(mode="json", exclude_defaults=True)
    in_run, in_audit = told(explanation)
    assert {key: text for key, text in in_run.items() if text} == of_run
    assert in_audit == whole
    in_run, in_audit = told(explanation, explains_in_run=True)
    assert {key: text for key, text in in_run.items() if text} == in_audit == whole


def test_only_the_authorizer_of_one_persons_platform_explains_in_runs() -> None:
    assert not bundle().explains_in_runs


@pytest.mark.parametrize("pattern", ["pay", "*"])
def test_so_many_rules_are_looked_at_for_what_is_missing_in_the_order_of_the_policy(pattern: str) -> None:
    others = [Rule(name=f"r{n}", effect="allow", tool=pattern, agent="x") for n in range(2 * MAX_MISSING_LOOKED_AT)]
    mixed = [Rule(name="first", effect="allow", tool="pay", agent="y"), *others]
    matrix = Matrix(mixed, compile_condition)
    principal = CallPrincipal(network="support", agent="billing", agent_type="", caller="anna")
    found = [rule.name for rule, _ in matrix.missing(principal, "pay", "call")]
    assert found[:3] == ["first", "r0", "r1"]
    assert len(found) == MAX_MISSING_LOOKED_AT
