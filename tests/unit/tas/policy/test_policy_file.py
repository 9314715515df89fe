"""A policy file is taken whole or refused with every problem at once, each with its line."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.files.policy_document import MAX_RULES
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.core.policy import policy_file
from towpath_tas.core.policy.conditions import Condition
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import (
    MAX_NODES,
    MAX_PROBLEMS,
    ParsedPolicy,
    read_policy,
    rule_from_row,
    rule_row,
)
from towpath_tas.core.policy.policy_size import MAX_CONDITION_CHARS, MAX_PATTERNS

GOOD = """
kind: Policy
rules:
  - name: refunds-small
    who: {network: support, agent: "billing", agent_type: "*", caller: "*"}
    tool: "orders.*"
    operation: "*"
    effect: allow
    when: "args.amount <= 100"
    max_calls_per_run: 20
    note: small ones
    owner: finance
  - {name: large, tool: orders.refund, effect: require_approval, expires_s: 3600}
"""


def read(text: str) -> ParsedPolicy:
    return read_policy(text, compile_condition)


def test_a_good_file_becomes_rules() -> None:
    found = read(GOOD)
    assert found.problems == ()
    first, second = found.rules
    assert (first.network, first.agent, first.caller, first.max_calls_per_run) == ("support", "billing", "*", 20)
    assert (second.effect, second.expires_s, second.operation) == ("require_approval", 3600, "*")


def test_limits_and_approvals_are_read() -> None:
    found = read(
        """kind: Policy
rules:
  - name: asks
    who: {project: "shop-*"}
    effect: require_approval
    rate: {calls: 10, per_s: 60}
    max_cost_per_run_usd: 0.50
    quorum: 2
    on_expiry: escalate
"""
    )
    (asks,) = found.rules
    assert (asks.project, asks.rate_calls, asks.rate_per_s) == ("shop-*", 10, 60)
    assert (asks.max_cost_per_run_usd, asks.quorum, asks.on_expiry) == (0.5, 2, "escalate")


def test_the_digest_of_a_rule_outlives_new_keys() -> None:
    """Approvals are bound to it: a release that knows more keys must not void them."""
    assert [rule.digest for rule in read(GOOD).rules] == [
        "sha256:4247c2ce90fa9f40db2b02d01e3ff9a9305c1570cf2be9650885189d5d405c45",
        "sha256:e27fe09fb3ef95e3ab85197888a5057cc67869c111eef4c71c98ff114f8c5f25",
    ]


def test_every_problem_is_reported_at_once_with_its_line() -> None:
    found = read(
        """kind: Policy
rules:
  - name: a b
    effect: alow
  - name: ok
    effect: deny
    max_calls_per_run: 0
    expires_s: 5
  - name: ok
    efect: allow
    tool: [x]
  - effect: allow
    when: args.amount <=
    who: {agnt: x}
"""
    )
    seen = {(problem.pointer, problem.detail.split(":")[0]) for problem in found.problems}
    assert found.rules == ()
    assert seen == {
        ("/rules/0/name", "line 3"),
        ("/rules/0/effect", "line 4"),
        ("/rules/1/max_calls_per_run", "line 7"),
        ("/rules/1/expires_s", "line 8"),
        ("/rules/2/name", "line 9"),
        ("/rules/2/efect", "line 10"),
        ("/rules/2/tool", "line 11"),
        ("/rules/3/name", "line 12"),
        ("/rules/3/when", "line 13"),
        ("/rules/3/who/agnt", "line 14"),
    }
    assert any("did you mean 'effect'" in problem.detail for problem in found.problems)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("a: [", "not YAML"),
        ("- x", "mapping"),
        ("kind: policy\nrules: []", "a policy begins with 'kind: Policy'"),
        (
            "name: shop\nkind: Network",
            "line 2: this is a Network, not a Policy; towpath networks validate FILE checks it, and towpath ",
        ),
        (
            "kind: McpServers\nservers: {}",
            "this is a McpServers, not a Policy; towpath mcp inspect FILE lists its tools, and towpath work",
        ),
        ("kind: Policy\nrules: [{name: x, effect: allow, when: args.n = 1}]", "= sets nothing here; did you mean ==?"),
        ("kind: Policy\nrules: [{name: x, effect: allow, when: \"args.n == 'it\\\\'s = x' &&\"}]", "it ends too early"),
        ("kind: Policy\nrules: [{name: x, effect: allow, when: args.n ==}]", "CEL, at character 10: it ends too early"),
        ("kind: Policy", "rules: []"),
        ("kind: Policy\nrules: 3", "list"),
        ("kind: Policy\nrules: [3]", "mapping"),
        ("kind: Policy\nrules: [&a {name: x, effect: deny}, *a]", "aliases"),
        ("kind: Policy\nrules: [{name: x, effect: deny}, {name: x, effect: deny}]", "stands above"),
        ("kind: Policy\nrules: [{name: x, name: y, effect: deny}]", "given twice"),
        ("kind: Policy\nrules: [{name: x, effect: deny, tool: 'a b'}]", "not a pattern"),
        ("kind: Policy\nrules: [{name: x, effect: deny, max_calls_per_run: 3}]", "no limit"),
        ("kind: Policy\nrules: [{name: x, effect: allow, expires_s: 600}]", "expires"),
        ("kind: Policy\nrules: [{name: x, effect: allow, when: amount > 1}]", "; did you mean 'args.amount'?"),
        (
            "kind: Policy\nrules: [{name: x, effect: allow, when: arg.d == a}]",
            "unknown name a, arg: a condition sees agent, args, caller, origin, run; did you mean 'args.a', 'args'?",
        ),
        ("kind: Policy\n\trules: []", "not YAML"),
        ("kind: Policy\nrules: []\nrulez: []", "did you mean 'rules'"),
        ("kind: Policy\nrules: [{name: x, effect: allow, rate: 3}]", "mapping"),
        ("kind: Policy\nrules: [{name: x, effect: allow, rate: {calls: 3}}]", "'per_s' is missing"),
        ("kind: Policy\nrules: [{name: x, effect: allow, rate: {calls: 0, per_s: 60}}]", "from 1 to"),
        ("kind: Policy\nrules: [{name: x, effect: deny, rate: {calls: 3, per_s: 60}}]", "no limit"),
        ("kind: Policy\nrules: [{name: x, effect: allow, max_cost_per_run_usd: 0}]", "US dollars"),
        ("kind: Policy\nrules: [{name: x, effect: allow, max_cost_per_run_usd: 1e3}]", "US dollars"),
        ("kind: Policy\nrules: [{name: x, effect: allow, quorum: 2}]", "only a require_approval rule"),
        ("kind: Policy\nrules: [{name: x, effect: require_approval, quorum: 11}]", "from 1 to 10"),
        ("kind: Policy\nrules: [{name: x, effect: require_approval, on_expiry: allow}]", "deny, escalate"),
        ("kind: Policy\nrules: [{name: x, effect: deny, who: {project: 'a b'}}]", "not a pattern"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(text: str, word: str) -> None:
    found = read(text)
    assert any(word in problem.detail for problem in found.problems), found.problems
    assert found.rules == ()


@pytest.mark.parametrize(
    ("limit", "most", "more"),
    [
        ("max_calls_per_run: {}", "1000000", "1000001"),
        ("rate: {{calls: {}, per_s: 60}}", "1000000", "1000001"),
        ("rate: {{calls: 3, per_s: {}}}", str(31 * 86_400), str(31 * 86_400 + 1)),
        ("max_cost_per_run_usd: {}", "1000000", "1000000.01"),
    ],
)
def test_a_limit_of_a_rule_has_a_limit(limit: str, most: str, more: str) -> None:
    """A month for a rate, a million calls or dollars."""
    rule = f"kind: Policy\nrules: [{{{{name: x, effect: allow, {limit}}}}}]"
    assert read(rule.format(most)).problems == ()
    assert len(read(rule.format(more)).problems) == 1


def test_no_rules_is_a_policy_that_denies_everything() -> None:
    assert read("kind: Policy\nrules: []") == ParsedPolicy()


def test_notes_do_not_change_what_a_rule_is() -> None:
    one, other = read(GOOD), read(GOOD.replace("small ones", "others").replace("finance", "law"))
    assert [rule.digest for rule in one.rules] == [rule.digest for rule in other.rules]
    third = read(GOOD.replace("100", "200"))
    assert third.rules[0].digest != one.rules[0].digest


def test_a_rule_survives_its_row() -> None:
    for rule in read(GOOD).rules:
        assert rule_from_row({**rule_row(rule), "of_a_newer_release": 1}) == rule


@given(st.text(max_size=300))
def test_any_text_is_answered(text: str) -> None:
    found = read(text)
    assert bool(found.problems) or all(isinstance(rule, Rule) for rule in found.rules)


@given(
    st.lists(
        st.sampled_from([*GOOD.splitlines(), "- x", "{", "rules:", "  - name: &a b", "? a", "!!int x"]), max_size=15
    )
)
def test_any_mixture_of_lines_is_answered(lines: list[str]) -> None:
    found = read("\n".join(lines))
    assert not (found.problems and found.rules)


def test_a_text_of_too_many_rules_or_values_is_refused_before_any_of_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[str] = []
    monkeypatch.setattr(yaml, "compose", lambda text, **_: built.append(text))
    rules = "kind: Policy\nrules: [" + "[]," * (MAX_RULES + 1) + "]"
    values = "kind: Policy\nrules: [[" + "a," * MAX_NODES + "]]"
    for text, what in ((rules, f"{MAX_RULES} rules"), (values, f"{MAX_NODES} values")):
        (found,) = read_policy_text(text).read.problems
        assert (found.code, found.detail) == ("too_many", f"line 2: more than {what}; no more are allowed")
        assert read_policy_text(f"profile: open\n{text}").read.problems[0].code == "too_many"
    assert built == []


def test_as_many_rules_as_are_allowed_are_read() -> None:
    text = "kind: Policy\nrules: [" + ",".join(f"{{name: r{n}, effect: deny}}" for n in range(MAX_RULES)) + "]"
    assert len(read(text).rules) == MAX_RULES


def test_nothing_is_looked_at_after_the_last_problem_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def suggest(wrong: str, _known: object, **_: str) -> str:
        looked.append(wrong)
        return ""

    monkeypatch.setattr(policy_file, "suggest_name", suggest)
    keys = ", ".join(f"n{place}: x" for place in range(MAX_PROBLEMS * 3))
    for text in (f"{{{keys}}}", ", ".join(f"{{{one}}}" for one in keys.split(", "))):
        looked.clear()
        assert len(read(f"kind: Policy\nrules: [{text}]").problems) == MAX_PROBLEMS
        assert len(looked) <= MAX_PROBLEMS


def conditions(number: int, chars: int) -> str:
    lines = (f"- {{name: r{n}, effect: deny, when: \"'{n:0{chars - 10}}' == ''\"}}" for n in range(number))
    return "kind: Policy\nrules:\n" + "\n".join(lines)


def test_the_different_conditions_of_a_policy_are_bounded_together_and_not_compiled_beyond() -> None:
    compiled: list[str] = []

    def compiler(text: str) -> Condition:
        compiled.append(text)
        return compile_condition(text)

    most = MAX_CONDITION_CHARS // 1_024
    assert read(conditions(most, 1_024)).problems == ()
    found = read_policy(conditions(most + 100, 1_024), compiler)
    (fault,) = found.problems
    assert (fault.code, fault.pointer) == ("conditions_too_large", f"/rules/{most}/when")
    assert "at most 131072" in fault.detail
    assert len(compiled) == most
    same = "kind: Policy\nrules:\n" + "\n".join(
        f"- {{name: r{n}, effect: deny, when: args.a == 1}}" for n in range(MAX_RULES)
    )
    compiled.clear()
    assert read_policy(same, compiler).problems == ()
    assert compiled == ["args.a == 1"]


def test_a_condition_that_is_wrong_is_told_in_every_rule_that_has_it() -> None:
    text = "kind: Policy\nrules:\n" + "\n".join(f"- {{name: r{n}, effect: deny, when: 'a >'}}" for n in range(3))
    assert [one.pointer for one in read(text).problems] == [f"/rules/{n}/when" for n in range(3)]


def test_the_different_patterns_of_a_policy_are_bounded_and_names_are_not() -> None:
    def tools(sign: str) -> str:
        return "kind: Policy\nrules:\n" + "\n".join(
            f"- {{name: r{n}, effect: deny, tool: 't{n}{sign}'}}" for n in range(MAX_PATTERNS + 9)
        )

    assert read(tools("")).problems == ()
    (fault,) = read(tools("*")).problems
    assert (fault.code, fault.pointer) == ("patterns_too_large", f"/rules/{MAX_PATTERNS}/tool")


def details(text: str) -> list[str]:
    return [problem.detail for problem in read(text).problems]


def test_a_misspelt_key_is_not_told_as_a_missing_one_too() -> None:
    assert details("kid: Policy\nrulez: []") == [
        "line 1: there is no field 'kid'; did you mean 'kind'?",
        "line 2: there is no field 'rulez'; did you mean 'rules'?",
    ]
    assert details("kind: Policy\nrules: [{name: x, action: allow}]") == [
        "line 2: there is no field 'action'; here it is 'effect'"
    ]
    nothing_near = details("kind: Policy\nrules: [{name: x, zzzz: allow}]")
    assert nothing_near[0].startswith("line 2: there is no field 'zzzz'; there are name, ")
    assert nothing_near[1:] == ["line 2: 'effect' is missing: add it"]
