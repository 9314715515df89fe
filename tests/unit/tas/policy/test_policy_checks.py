"""What is probably wrong with a policy is reported with its line, and what is right is not."""

import fnmatch
import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.policy.patterns import covers, has_unclosed_bracket, simplified
from towpath_tas.core.policy.policy_checks import NetworkAgent, ProjectToolsAndAgents, check, doubts_about_question
from towpath_tas.core.policy.policy_file import read_policy


def tool(name: str, operation: str, *arguments: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {name: {} for name in arguments}, "additionalProperties": False, **more}
    return ToolSpec(name=name, toolset="t", operation=operation, parameters=schema)


BUY = {
    "item": {"type": "string"},
    "paid": {"type": "boolean"},
    "maybe": {"type": ["boolean", "null"]},
    "count": {"type": "integer"},
    "open": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
    "to": {"type": "object", "properties": {"country": {"enum": ["de", "fr"]}}},
}
TOOLS = (
    tool("orders.buy", "write", properties=BUY),
    tool("orders.find", "read", "order_id"),
    tool("orders.refund", "write", "order_id", "amount"),
    tool("mail.send", "send", "to", additionalProperties=True),
)
AROUND = ProjectToolsAndAgents(
    project="shop",
    tools={one.name: one for one in TOOLS},
    networks={
        "support": [NetworkAgent("triage"), NetworkAgent("billing", "writer", ("orders.find", "orders.refund"))],
        "sales": [NetworkAgent("closer", "writer", ("mail.send",))],
    },
)


def findings_of(*rules: str) -> list[tuple[str, str]]:
    text = "kind: Policy\nrules:\n" + "".join(f"  - {{{rule}}}\n" for rule in rules)
    return warnings_of(text)


def warnings_of(text: str) -> list[tuple[str, str]]:
    written = read_policy_text(text)
    assert written.read.problems == ()
    return [(one.code, one.detail) for one in check(written.read.rules, written.line_of, AROUND)]


def test_a_warning_names_the_line_of_the_key_that_it_is_about() -> None:
    found = warnings_of("""kind: Policy
rules:
  - name: one
    who:
      network: support
      agent: biling
    effect: deny
  - name: two
    effect: allow
    tool: order.find
  - name: three
    tool: orders.refund
    effect: allow
    when: >-
      args.amout
      < 5
  - {name: four, effect: deny,
     tool: "[o]rders.find"}
  - name: five
    tool: orders.find
    effect: allow
  - name: six
    effect: deny
    tool: orders.find
""")
    assert [(code, detail.partition(":")[0]) for code, detail in found] == [
        ("agent_unknown", "line 6"),
        ("tool_unknown", "line 10"),
        ("argument_unknown", "line 14"),
        ("spelling", "line 18"),
        ("contradiction", "line 19"),
        ("unreachable", "line 22"),
    ]


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ("name: a, tool: order.find, effect: allow", "tool_unknown", "did you mean 'orders.find'?"),
        (
            "name: a, tool: 'pay.*', effect: allow",
            "tool_unknown",
            "matches 'pay.*'; start the worker that has it",
        ),
        ("name: a, tool: orders.find, operation: write, effect: allow", "operation_unknown", "only read"),
        ("name: a, who: {network: suport}, effect: deny", "network_unknown", "did you mean 'support'?"),
        ("name: a, who: {agent: billin}, effect: deny", "agent_unknown", "did you mean 'billing'?"),
        ("name: a, who: {network: sales, agent: billing}, effect: deny", "agent_unknown", "no agent of sales"),
        ("name: a, who: {agent: triage, agent_type: writer}, effect: deny", "agent_type_unknown", "of a type"),
        ("name: a, who: {agent_type: writr}, effect: deny", "agent_type_unknown", "did you mean 'writer'?"),
        ("name: a, who: {agent: billing}, tool: mail.send, effect: allow", "not_equipped", "matches 'mail.send'"),
        ("name: a, tool: orders.refund, effect: allow, when: args.amout < 5", "argument_unknown", "mean 'amount'?"),
        ("name: a, tool: orders.find, effect: allow, when: \"args['amount'] < 5\"", "argument_unknown", "'amount'"),
        ("name: a, tool: orders.buy, effect: allow, when: args.item", "never_true", "args.item is string, never the"),
        ("name: a, tool: orders.buy, effect: deny, when: '!(args.item)'", "never_true", "applies whatever the arg"),
        (
            "name: a, tool: orders.buy, effect: allow, when: \"args.paid && (args['item'] || args.count > 3)\"",
            *("never_true", "args['item'] is string"),
        ),
        ("name: a, tool: orders.buy, effect: allow, when: args.to.country || args.paid", "never_true", "never applies"),
        (
            "name: a, tool: orders.buy, effect: allow, when: args.count > '200'",
            *("types_unlike", "compares a number with a text, so the rule never applies; write args.count > 200"),
        ),
        ("name: a, tool: orders.buy, effect: require_approval, when: args.count>'2'", "types_unlike", "whatever the"),
        ("name: a, tool: orders.buy, effect: deny, when: args.item == 5", "types_unlike", "the rule never applies"),
        (
            "name: a, tool: orders.refund, effect: deny, when: args.nosuch > 1",
            "argument_unknown",
            "are amount, order_id",
        ),
        ("name: a, tool: 'orders.**', effect: allow", "spelling", "is spelt 'orders.*'"),
        ("name: a, tool: '[o]rders.find', effect: allow", "spelling", "is spelt 'orders.find'"),
        ("name: a, who: {caller: 'a['}, effect: deny", "spelling", "never closes"),
    ],
)
def test_a_doubtful_rule_is_reported_with_its_line(rule: str, code: str, words: str) -> None:
    (found,) = findings_of(rule)
    assert found[0] == code
    assert found[1].startswith("line 3: rule a: ")
    assert words in found[1]


@pytest.mark.parametrize(
    "rule",
    [
        "name: a, who: {network: 's*', agent: 'b*', agent_type: writer}, tool: orders.refund, effect: allow",
        "name: a, tool: '*', operation: '[rw]*', effect: allow, when: args.amount < 5",
        "name: a, tool: mail.send, effect: allow, when: args.cc == 'x'",
        "name: a, tool: orders.buy, effect: allow, when: args.paid && !args.maybe && (args.open || args.to.zip)",
        "name: a, tool: orders.buy, effect: allow, when: \"args.item == '&& args.item ||' && args.count in [1, 2]\"",
        "name: a, tool: orders.buy, effect: allow, when: 'args.paid ? args.count > 3 : has(args.item)'",
        "name: a, who: {project: other, network: nowhere}, tool: nothing.here, effect: allow",
        "name: a, who: {caller: nobody-we-know}, effect: deny",
    ],
)
def test_a_sound_rule_is_not_reported(rule: str) -> None:
    assert findings_of(rule) == []


def test_an_answer_lists_unknown_networks_and_agents_of_the_question_and_its_rules() -> None:
    text = "kind: Policy\nrules:\n  - {name: typo, tool: 'orders.*', effect: deny, who: {network: suport}}\n"
    text += "  - {name: elsewhere, tool: mail.send, effect: deny, who: {network: nowhere}}\n"
    rules = read_policy(text, compile_condition).rules
    typo = "rule typo: no published network matches 'suport'; did you mean 'support'?"
    for network, agent, *found in (
        ("support", "billing"),
        ("support", "biling", "support has no agent 'biling'; did you mean 'billing'?"),
        ("supprt", "billing", "no published network is named 'supprt'; did you mean 'support'?"),
    ):
        who = CallPrincipal(network, agent, "", "ann", "shop")
        assert doubts_about_question(who, "orders.find", rules, AROUND) == (*found, typo)


@pytest.mark.parametrize(
    ("network", "agent", "tool_name", "doubt"),
    [
        (
            "support",
            "triage",
            "orders.refund",
            "equipped_tools of triage and publish the network, or leave the call to billing, which has it",
        ),
        (
            "sales",
            "closer",
            "orders.find",
            "equipped_tools of closer and publish the network",
        ),
        ("support", "billing", "orders.refund", None),
        ("support", "triage", "orders.lost", None),
        ("support", "triage", next(iter(OUTPUT_TOOLS)), None),
    ],
)
def test_an_answer_says_that_the_agent_is_not_equipped_with_the_tool_so_that_no_rule_alone_opens_it(
    network: str, agent: str, tool_name: str, doubt: str | None
) -> None:
    around = replace(AROUND, tools={**AROUND.tools, **OUTPUT_TOOLS})
    found = doubts_about_question(CallPrincipal(network, agent, "", "ann", "shop"), tool_name, (), around)
    told = f"no rule alone opens it: {agent} of {network} is not equipped with {tool_name}; add it to {doubt}"
    assert found == (() if doubt is None else (told,))


DENY = "name: never, tool: 'orders.*', effect: deny"
ASK = "name: ask, tool: 'orders.*', effect: require_approval"


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (DENY, "name: b, tool: orders.find, effect: allow", "unreachable"),
        (DENY, "name: b, tool: 'orders.f*', effect: require_approval, max_calls_per_run: 3", "unreachable"),
        (DENY, "name: b, tool: 'orders.f*', effect: allow, when: caller == 'x'", "unreachable"),
        (DENY, "name: b, tool: orders.find, effect: deny", "unreachable"),
        (DENY, "name: b, tool: 'orders.*', effect: allow", "contradiction"),
        (ASK, "name: b, tool: 'orders.*', effect: allow", "contradiction"),
        (ASK, "name: b, who: {agent: billing}, tool: 'orders.*', effect: allow", "unreachable"),
        (ASK, "name: b, tool: 'orders.*', effect: require_approval", "duplicate_rule"),
        (
            f"{DENY}, when: caller == 'x'",
            "name: b, tool: orders.find, effect: allow, when: caller == 'x'",
            "unreachable",
        ),
    ],
)
def test_a_rule_that_never_decides_is_reported_wherever_it_stands(first: str, second: str, code: str) -> None:
    for rules in ((first, second), (second, first)):
        assert [found[0] for found in findings_of(*rules)] == [code]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (DENY, "name: b, tool: '*', effect: allow"),
        (DENY, "name: b, tool: mail.send, effect: allow"),
        (f"{DENY}, when: caller == 'x'", "name: b, tool: orders.find, effect: allow"),
        (f"{DENY}, operation: write", "name: b, tool: 'orders.*', effect: allow"),
        (ASK, "name: b, tool: 'orders.*', effect: allow, max_calls_per_run: 3"),
        (ASK, "name: b, tool: orders.find, effect: allow"),
        (ASK, "name: b, tool: 'orders.*', effect: require_approval, quorum: 2"),
        ("name: all, tool: 'orders.*', effect: allow", "name: b, tool: orders.find, effect: allow"),
    ],
)
def test_a_rule_that_has_a_say_is_not_reported(first: str, second: str) -> None:
    for rules in ((first, second), (second, first)):
        assert findings_of(*rules) == []


def test_names_that_differ_in_spelling_only_are_reported() -> None:
    rules = (
        "name: Small-refunds, tool: orders.refund, effect: allow",
        "name: small_refunds, tool: orders.find, effect: allow",
    )
    assert [found[0] for found in findings_of(*rules)] == ["spelling"]
    types = ("name: a, who: {caller: night-job}, effect: deny", "name: b, who: {caller: NightJob}, effect: deny")
    ((code, item),) = findings_of(*types)
    assert (code, "caller 'NightJob' and, above, 'night-job'" in item) == ("spelling", True)


PATTERNS = st.text(alphabet="ab*?[]!-", min_size=1, max_size=5)
WORDS = ["".join(letters) for size in range(4) for letters in itertools.product("ab", repeat=size)]


@given(PATTERNS, PATTERNS)
def test_a_pattern_that_covers_another_matches_all_that_it_does(wide: str, narrow: str) -> None:
    if covers(wide, narrow):
        for word in WORDS:
            assert fnmatch.fnmatchcase(word, wide) or not fnmatch.fnmatchcase(word, narrow)


@given(PATTERNS)
@example("[[a]")
@example("[a-*?]")
def test_the_plainer_spelling_means_the_same(pattern: str) -> None:
    if not has_unclosed_bracket(pattern):
        for word in WORDS:
            assert fnmatch.fnmatchcase(word, simplified(pattern)) is fnmatch.fnmatchcase(word, pattern)


def test_ten_thousand_rules_are_looked_at_without_comparing_all_pairs() -> None:
    rules = [f"name: r{n}, tool: 'orders.{n}*', effect: allow" for n in range(3_000)]
    codes = [found[0] for found in findings_of(*rules)]
    assert len(codes) == 200
    assert set(codes) == {"tool_unknown"}


def test_a_misspelt_tool_is_told_once() -> None:
    assert findings_of("name: a, who: {network: support, agent: billing}, tool: orders.fine, effect: allow") == [
        ("tool_unknown", "line 3: rule a: no registered tool matches 'orders.fine'; did you mean 'orders.find'?")
    ]
    codes = [code for code, _ in findings_of("name: a, who: {agent: billing}, tool: pay.all, effect: allow")]
    assert codes == ["tool_unknown", "not_equipped"], "which may come with its worker, and is equipped by nobody"
