"""The form of a policy that editors know is the one that the tool-access service reads."""

from dataclasses import fields
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.project.file_schemas import file_schema
from towpath_contracts.files.policy_document import DocumentRule, ProfileName, RuleCallers, RuleRate
from towpath_fabric.profiles.policy_profiles import PROFILES
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import read_policy

NUMBERS = st.sampled_from([-1, 0, 1, 10, 11, 59, 60, 86_400, 1_000_000, 1_000_001, 2_592_000, 2_592_001, 2_678_401])
TEXTS = st.sampled_from(["a", "orders.*", "a b", "", "x" * 129, "[ab]?", "é"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("name", "tool", "operation", "note", "owner"), TEXTS),
    "who": st.dictionaries(st.sampled_from([*RuleCallers.model_fields, "netwrk"]), TEXTS, max_size=3),
    "effect": st.sampled_from(["allow", "require_approval", "ask"]),
    "max_calls_per_run": NUMBERS,
    "rate": st.fixed_dictionaries({"calls": NUMBERS}, optional={"per_s": NUMBERS, "per": NUMBERS}),
    "max_cost_per_run_usd": st.sampled_from([0, 0.5, 1, 1_000_000, 1_000_001]),
    "typo": st.just(1),
}
APPROVAL = {
    "expires_s": NUMBERS,
    "quorum": NUMBERS,
    "on_expiry": st.sampled_from(["deny", "escalate", "allow"]),
}
RULES = st.fixed_dictionaries(
    {"name": TEXTS, "effect": VALUES["effect"]},
    optional={key: VALUES[key] for key in VALUES if key not in {"name", "effect"}},
)
HELD = st.fixed_dictionaries({"name": TEXTS, "effect": st.just("require_approval")}, optional=APPROVAL)
VALIDATOR = jsonschema_rs.validator_for(file_schema("policy"))


@settings(max_examples=400)
@given(st.one_of(RULES, HELD))
def test_the_schema_takes_what_is_read_and_nothing_else(rule: dict[str, Any]) -> None:
    written = {"kind": "Policy", "rules": [rule]}
    text = yaml.safe_dump(written, allow_unicode=True)
    assert VALIDATOR.is_valid(written) == (not read_policy(text, compile_condition).problems)


def test_defaults_of_the_form_are_those_of_a_rule_that_says_nothing() -> None:
    (read,) = read_policy("{kind: Policy, rules: [{name: a, effect: deny}]}", compile_condition).rules
    form = DocumentRule(name="a", effect="deny")
    own = {
        name: getattr(form, name) for name in DocumentRule.model_fields if name in {one.name for one in fields(Rule)}
    }
    assert own == {name: getattr(read, name) for name in own}
    assert len(own) == 13
    assert {name: getattr(form.who, name) for name in RuleCallers.model_fields} == {
        name: getattr(read, name) for name in RuleCallers.model_fields
    }
    assert set(RuleRate.model_fields) == {"calls", "per_s"}


@pytest.mark.parametrize("key", DocumentRule.model_fields)
def test_every_key_of_the_form_is_known(key: str) -> None:
    text = yaml.safe_dump({"kind": "Policy", "rules": [{"name": "a", "effect": "allow", key: "1"}]})
    assert "unknown_key" not in {one.code for one in read_policy(text, compile_condition).problems}


def test_profiles_are_those_that_come_with_the_platform() -> None:
    assert set(ProfileName.__args__) == set(PROFILES)
