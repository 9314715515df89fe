"""One rule is changed in a matrix's text, and everything else stays as people wrote it."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.policy.rule_edits import EMPTY, EditedPolicyText, put_rule, remove_rule

TEXT = """# The whole file belongs to finance.
kind: Policy   # always

rules:
  # Reading is harmless.
  - name: look
    who: {network: support}
    tool: orders.find
    effect: allow

  # Small refunds.
  - name: small
    tool: orders.refund
    effect: allow
    when: >
      args.amount <= 100
    note: |
      nobody has to look

  - {name: one-line, tool: x.y, effect: deny}
# the end
"""


def put(text: str, rule: dict[str, Any]) -> EditedPolicyText:
    return put_rule(text, rule["name"], rule, compile_condition)


def names(edited: EditedPolicyText | None) -> list[str]:
    assert edited is not None
    assert not edited.problems
    return [rule.name for rule in read_policy(edited.text, compile_condition).rules]


def test_a_rule_is_replaced_where_it_stands() -> None:
    edited = put(TEXT, {"name": "small", "tool": "orders.refund", "effect": "allow", "when": "args.amount <= 50"})
    assert names(edited) == ["look", "small", "one-line"]
    assert not edited.rewritten
    for kept in ("# The whole file", "# always", "# Reading is harmless.", "# Small refunds.", "{network: support}"):
        assert kept in edited.text
    assert "args.amount <= 50" in edited.text
    assert "100" not in edited.text


def test_a_new_rule_comes_last() -> None:
    edited = put(TEXT, {"name": "new", "who": {"agent": "b"}, "tool": "a.b", "effect": "require_approval", "quorum": 2})
    assert names(edited) == ["look", "small", "one-line", "new"]
    assert edited.text.endswith("# the end\n")
    assert not edited.rewritten


def test_a_rule_goes_with_the_words_above_it() -> None:
    edited = remove_rule(TEXT, "small", compile_condition)
    assert names(edited) == ["look", "one-line"]
    assert edited is not None
    assert "# Small refunds." not in edited.text
    assert "# Reading is harmless." in edited.text


def test_rules_on_one_line_are_written_anew_and_what_is_around_them_stays() -> None:
    text = "# head\nkind: Policy\nrules: [{name: a, effect: deny}, {name: b, effect: allow}]\nnote: why # tail\n"
    edited = put(text, {"name": "b", "effect": "deny"})
    assert edited.rewritten
    assert names(edited) == ["a", "b"]
    assert edited.text.startswith("# head\n")
    assert edited.text.endswith("note: why # tail\n")
    assert names(remove_rule(text, "a", compile_condition)) == ["b"]


@pytest.mark.parametrize(
    "text", [EMPTY, "kind: Policy\nrules: []", "rules: []\nkind: Policy\n", "kind: Policy\nrules:\n  []\n"]
)
def test_the_first_rule_and_the_last(text: str) -> None:
    edited = put(text, {"name": "a", "effect": "allow"})
    assert names(edited) == ["a"]
    assert names(remove_rule(edited.text, "a", compile_condition)) == []


def test_what_is_wrong_is_reported_and_nothing_changes() -> None:
    assert [found.code for found in put(TEXT, {"name": "x", "effect": "alow"}).problems] == ["effect"]
    assert [found.code for found in put(TEXT, {"name": "x", "effect": "allow", "toool": "y"}).problems] == [
        "unknown_key"
    ]
    renamed = put_rule(TEXT, "small", {"name": "other", "effect": "deny"}, compile_condition)
    assert [found.code for found in renamed.problems] == ["name"]
    assert remove_rule(TEXT, "nothing", compile_condition) is None


def test_a_text_that_would_read_otherwise_once_written_is_left_alone() -> None:
    """YAML reads 010 as eight, so the list can't be written anew without renaming that rule."""
    text = "kind: Policy\nrules: [{name: 010, effect: deny}, {name: b, effect: allow}]\n"
    assert [found.code for found in put(text, {"name": "b", "effect": "deny"}).problems] == ["form"]


NAMES = st.sampled_from(["a", "b", "c", "d-1", "e.f"])
RULES = st.fixed_dictionaries(
    {"name": NAMES, "effect": st.sampled_from(["allow", "deny"])},
    optional={
        "tool": st.sampled_from(["x.*", "mail.send"]),
        "when": st.sampled_from(["args.n > 1", "args.t == 'a: b # c'", "true"]),
        "note": st.text(st.sampled_from("aé:#'\"- \n|>{}[]*&!%@`?,"), max_size=12),
        "who": st.just({"agent": "q*"}),
    },
)


FILES = st.lists(RULES, max_size=3, unique_by=lambda rule: rule["name"])


@settings(max_examples=60)
@given(FILES, st.sampled_from([None, False]), RULES, st.booleans())
def test_any_edit_gives_the_old_rules_with_that_change(
    rules: list[dict[str, Any]], flow: bool | None, rule: dict[str, Any], remove: bool
) -> None:
    document = json.loads(json.dumps({"kind": "Policy", "rules": rules}))  # no part of it is shared, so no aliases
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=flow, allow_unicode=True)
    before = [one["name"] for one in rules]
    name = rule["name"]
    if remove:
        edited = remove_rule(text, name, compile_condition)
        assert (edited is None) == (name not in before)
        if edited is not None:
            assert names(edited) == [one for one in before if one != name]
        return
    edited = put(text, rule)
    assert names(edited) == (before if name in before else [*before, name])
    written = {one["name"]: one for one in yaml.safe_load(edited.text)["rules"]}
    assert written == {**{one["name"]: one for one in rules}, name: rule}
