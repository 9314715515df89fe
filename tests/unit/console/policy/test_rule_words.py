"""A rule in words: who may call what, where, and what bounds it; and as YAML that the policy could have."""

from typing import Any

import pytest
import yaml

from towpath_console.pages.policy.rule_words import LONGEST_CONDITION, rule_limits, rule_sentences, rule_yaml
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import read_policy

REFUNDS = {
    "name": "refunds-over-100", "effect": "require_approval", "network": "support", "agent": "billing",
    "agent_type": "*", "caller": "*", "tool": "orders.refund", "operation": "*", "when": "args.amount > 100",
    "quorum": 1, "on_expiry": "deny", "expires_s": 86400, "note": "Somebody looks.", "owner": "finance",
    "discovered": False, "max_calls_per_run": None, "rate_calls": None, "digest": "sha256:0",
}  # fmt: skip


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            {},
            (
                "One person is asked before agent billing of network support calls orders.refund,"
                " where args.amount > 100. After 24 h without an answer it is denied."
            ),
        ),
        (
            {"quorum": 2, "expires_s": 1800, "on_expiry": "escalate", "when": None, "network": "*"},
            (
                "2 people are asked before agent billing calls orders.refund."
                " After 30 min without an answer others are asked."
            ),
        ),
        (
            {"effect": "allow", "agent": "*", "when": "", "caller": "mia", "max_calls_per_run": 3},
            "Any agent of network support, in runs of mia, may call orders.refund. At most 3 calls in a run.",
        ),
        (
            {"effect": "deny", "agent": "*", "network": "*", "tool": "*", "when": None, "agent_type": "critic"},
            "An agent of type critic may not call any tool.",
        ),
        (
            {"effect": "allow", "agent_type": "critic", "operation": "read", "when": None}
            | {"rate_calls": 5, "rate_per_s": 60, "max_cost_per_run_usd": 0.5, "discovered": True},
            (
                "Agent billing of type critic of network support may call orders.refund (read)."
                " At most 5 calls in 60 s. Until the run has cost $0.5. Also for tools that a server offers by itself."
            ),
        ),
    ],
)
def test_a_rule_is_said_in_sentences(members: dict[str, Any], said: str) -> None:
    assert " ".join(rule_sentences(REFUNDS | members)) == said


def test_a_rule_that_says_only_what_it_is_called_is_said_all_the_same() -> None:
    assert rule_sentences({"name": "x", "effect": "deny"}) == ["Any agent may not call any tool."]
    assert rule_yaml({"name": "x"}) == "- name: x\n"
    long = rule_sentences(REFUNDS | {"when": "a" * 301})[0]
    assert long.endswith(f"{'a' * (LONGEST_CONDITION - 1)}….") and LONGEST_CONDITION == 300


def test_a_rule_in_short_says_how_many_are_asked_and_for_how_long() -> None:
    assert rule_limits(REFUNDS) == ["asks one person; after 24 h without an answer: deny"]
    assert rule_limits(REFUNDS | {"quorum": 2, "expires_s": 60}) == [
        "asks 2 people; after 1 min without an answer: deny"
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"max_calls_per_run": 3, "expires_s": 3600, "quorum": 2, "on_expiry": "escalate"},
        {"effect": "allow", "rate_calls": 5, "rate_per_s": 60, "max_cost_per_run_usd": 0.5, "operation": "read"},
        {"effect": "deny", "agent_type": "critic", "caller": "mia", "note": "né: 'so'"},
    ],
)
def test_the_yaml_of_a_rule_is_read_as_the_rule(members: dict[str, Any]) -> None:
    wanted = REFUNDS | members
    written = rule_yaml(wanted)
    assert "digest" not in written and ("operation" in written) == ("operation" in members)
    text = "kind: Policy\nrules:\n" + "".join(f"  {line}\n" for line in written.splitlines())
    (read,) = read_policy(text, compile_condition).rules
    assert all(getattr(read, name) == value for name, value in wanted.items() if name != "digest")


def test_what_is_usual_is_left_out_of_the_yaml() -> None:
    written = rule_yaml(REFUNDS)
    assert not [word for word in ("quorum", "on_expiry", "expires_s", "discovered", "max_calls") if word in written]
    assert yaml.safe_load(rule_yaml({"name": "*", "tool": "*"})) == [{"name": "*", "tool": "*"}]
