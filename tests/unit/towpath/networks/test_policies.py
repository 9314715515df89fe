"""Policies in Python are those of policy files: the same keys and defaults, and what is wrong is told by its line."""

from dataclasses import fields

import pytest

from towpath import Agent, DeclarationError, Network, Policy, PolicyRule, RefusedError, tool
from towpath.client.policy import policy_of
from towpath.networks.policies import CONDITION_NAMES, condition_fault
from towpath.testing import execute_tool, harness, respond, script
from towpath_contracts.files.policy_document import DocumentRule, RuleCallers, RuleRate
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.core.policy.condition_work import VARIABLES

WHO = set(RuleCallers.model_fields)


@tool
def refund(order_id: str, amount: float) -> str:
    """Give money back."""
    return f"{amount:.0f} for {order_id}"


DESK = Network("desk", [Agent("billing", prompt="Refund.", tools=[refund], default=True, can_respond=True)])
POLICY = Policy(
    [
        PolicyRule("refunds", agent="billing", tool="refund", effect="allow"),
        PolicyRule("over-100", agent="billing", tool="refund", effect="require_approval", when="args.amount > 100"),
    ]
)


def test_a_rule_has_the_keys_and_the_defaults_of_a_rule_in_a_file() -> None:
    keys = {one.name for one in fields(PolicyRule)}
    assert keys == (DocumentRule.model_fields.keys() - {"who"}) | WHO
    rule = PolicyRule("all", effect="allow")
    assert {key: getattr(rule, key) for key in WHO} == RuleCallers().model_dump()
    written = DocumentRule(name="all", effect="allow").model_dump(exclude={"who"})
    assert {key: getattr(rule, key) for key in keys - WHO} == written
    assert rule.to_json() == {"name": "all", "effect": "allow"}


def test_what_a_policy_writes_is_read_as_the_rules_that_it_has() -> None:
    few = PolicyRule("few", caller="ann", network="shop-*", effect="allow", rate=RuleRate(calls=3, per_s=60))
    policy = Policy([*POLICY.rules, few], profile="strict", note="für später")
    read = read_policy_text(policy.to_yaml())
    assert read.read.problems == ()
    found = [(one.name, one.effect, one.agent, one.caller, one.network) for one in read.read.rules[:3]]
    assert found == [
        ("refunds", "allow", "billing", "*", "*"),
        ("over-100", "require_approval", "billing", "*", "*"),
        ("few", "allow", "*", "ann", "shop-*"),
    ]
    assert len(read.read.rules) > 3, "the profile adds its own"
    assert "note: für später" in policy.to_yaml()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"effect": "ask"}, "rule 'r': effect: it has to be 'allow', 'deny' or 'require_approval'"),
        ({"effect": "allow", "agents": "b"}, "PolicyRule takes no 'agents'; did you mean 'agent'?"),
        ({"effect": "allow", "who": {"agent": "b"}}, "PolicyRule takes no 'who': write agent=, network= and"),
        ({"effect": "allow", "quorum": 0}, "rule 'r': quorum: it has to be at least 1"),
        ({"effect": "allow", "agent": "a b"}, "rule 'r': agent: "),
        ({"effect": "allow", "when": "args.amount >"}, "rule 'r': when: it can't be read as CEL, at character "),
        ({"effect": "allow", "when": "args.a = 1"}, "rule 'r': when: = sets nothing here; did you mean ==?"),
        (
            {"effect": "allow", "when": "arg.a == 1"},
            "rule 'r': when: unknown name arg: a condition sees agent, args, caller, origin, run; did you mean 'args'?",
        ),
        (
            {"effect": "allow", "when": "euros > 50"},
            "unknown name euros: a condition sees agent, args, caller, origin, run; did you mean 'args.euros'?",
        ),
        ({"effect": "deny", "max_calls_per_run": 3}, "rule 'r': max_calls_per_run: a deny rule has no limit"),
        ({"effect": "allow", "quorum": 2}, "rule 'r': quorum: only a require_approval rule has it"),
        ({"effect": "allow", "discovered": True}, "rule 'r': discovered: tool= must begin with the toolset's name"),
        (
            {"effect": "deny", "discovered": True, "tool": "files.*"},
            "rule 'r': discovered: a deny rule holds for discovered tools as well",
        ),
    ],
)
def test_a_wrong_rule_is_told_by_the_line_that_declares_it(options: dict[str, object], expected: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        PolicyRule("r", **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"{__file__}:")
    assert expected in str(caught.value)


ALL = PolicyRule("all", effect="allow")


@pytest.mark.parametrize(
    ("rules", "options", "expected"),
    [
        (ALL, {}, "rules is a list: write Policy([PolicyRule(…), …])"),
        ("all", {}, "rules is a list"),
        ([{"name": "all", "effect": "allow"}], {}, "a rule is written PolicyRule('NAME', effect=…), not as dict"),
        ([ALL, PolicyRule("all", effect="deny")], {}, "2 rules are named 'all'"),
        ([ALL], {"profile": "nope"}, "there is no profile 'nope'; there are open, balanced, strict"),
    ],
)
def test_a_wrong_policy_is_told_by_the_line_that_declares_it(
    rules: object, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        Policy(rules, **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"{__file__}:")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "args.to.all(x, x != 'a')",
        "type(args.a) == int && has(origin.worst)",
        "args.name == 'a = b and c'",
        "run.step < 3",
    ],
)
def test_a_condition_that_can_be_read_is_taken(condition: str) -> None:
    assert condition_fault(condition) == ""
    assert PolicyRule("r", effect="allow", when=condition).when == condition


def test_what_a_condition_sees_is_what_the_tool_access_service_shows_it() -> None:
    assert set(CONDITION_NAMES) == VARIABLES


def test_a_condition_that_only_a_platform_refuses_is_told_by_the_line_of_the_policy() -> None:
    policy = Policy([PolicyRule("r", tool="refund", effect="allow", when="frobnicate(args.amount)")])
    with pytest.raises(RefusedError) as caught:
        harness(DESK, policy=policy, tools=[refund])
    (found,) = caught.value.problem.errors
    assert found.detail.startswith(f"{policy.declared_at}: when: unknown function frobnicate")
    assert found.pointer == "/rules/0/when"


async def test_a_harness_takes_a_policy_in_python() -> None:
    model = script([execute_tool("refund", order_id="8812", amount=129), respond("done")])
    async with harness(DESK, policy=POLICY, tools=[refund], model=model) as h:
        run = await h.run("Refund order 8812")
        gate = await h.next_gate()
        assert gate.rule == "over-100"
        await gate.deny("too high")
        assert (await run.result()).tool_calls("refund") == []


def test_a_policy_is_applied_as_its_text_and_its_line() -> None:
    applied = policy_of(POLICY)
    assert (applied.text, applied.source) == (POLICY.to_yaml(), str(POLICY.declared_at))
    assert applied.source.startswith(f"{__file__}:")
