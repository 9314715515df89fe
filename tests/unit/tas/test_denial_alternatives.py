"""What a denial names is really open: other tools, other agents, a person."""

import time
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tas.policy.test_authorization import TOOLS, asked, spec, stored

from towpath_contracts.canonical import canonical_json
from towpath_contracts.tools.calls import Denial
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.denial_alternatives import MAX_SPECIALISTS, AgentDirectoryEntry
from towpath_tas.core.policy.conditions import ConditionBudget
from towpath_tas.core.policy.matrix import Matrix, Rule
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion

SNAPSHOT = "sha256:n"
CREW = {
    "billing": AgentDirectoryEntry(
        key="billing",
        agent_type="",
        tools=frozenset({"orders.refund", "orders.find", "mail.send"}),
        routes=frozenset({"desk"}),
    ),
    "desk": AgentDirectoryEntry(key="desk", agent_type="", tools=frozenset({"orders.refund"}), routes=frozenset()),
    "office": AgentDirectoryEntry(key="office", agent_type="", tools=frozenset({"orders.refund"}), routes=frozenset()),
    "guest": AgentDirectoryEntry(key="guest", agent_type="", tools=frozenset({"orders.find"}), routes=frozenset()),
}


def rule(name: str, effect: str = "allow", **more: Any) -> Rule:
    return Rule(**{"name": name, "effect": effect, **more})


def denied(
    *rules: Rule, grants: Any = (), tools: list[ToolVersion] = TOOLS, known: bool = True, **changes: Any
) -> Denial:
    bundle = ProjectAuthorizer(
        Matrix(rules, compile_condition, 7), ProjectToolRegistry(tools, matches, 3), compile_grant
    )
    bundle.directories = {SNAPSHOT: CREW} if known else {}
    question: AuthorizationQuery = replace(asked(), grants=grants, snapshot_digest=SNAPSHOT, **changes)
    decision = bundle.authorize(question)
    assert decision.denial is not None
    assert bundle.authorize(question) == decision, "from memory as well"
    return decision.denial


def others(denial: Denial) -> list[tuple[str, str, bool]]:
    return [(one.tool, one.verdict, one.conditional) for one in denial.alternatives]


def test_only_what_the_agent_is_equipped_with_and_may_use_is_an_alternative() -> None:
    tools = [*TOOLS, stored(spec("orders.drop")), stored(spec("orders.list"))]
    wide = rule("wide", tool="*", agent="*", when="args.amount > 100")
    found = denied(wide, rule("find", tool="orders.find"), rule("no", "deny", tool="orders.drop"), tools=tools)
    assert others(found) == [("orders.find", "allow", False), ("mail.send", "allow", True)]
    assert found.alternatives[0].why == "rule find allows it"
    assert found.allowed_tools == ("orders.find", "mail.send")
    everywhere = denied(wide, rule("find", tool="orders.find"), tools=tools, known=False)
    assert {one.tool for one in everywhere.alternatives} == {"orders.find", "orders.drop", "orders.list", "mail.send"}


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([rule("a", tool="mail.send", when="caller == 'anna'")], [("mail.send", "allow", False)]),
        ([rule("a", tool="mail.send", when="caller == 'eve'")], []),
        ([rule("a", tool="mail.send", when="run.labels.team == 'a'")], [("mail.send", "allow", False)]),
        ([rule("a", tool="mail.send", when="run.labels.nothing == 'a'")], []),
        ([rule("a", tool="mail.send", max_calls_per_run=3)], [("mail.send", "allow", True)]),
        ([rule("a", "require_approval", tool="mail.send")], [("mail.send", "require_approval", False)]),
        (
            [rule("a", tool="mail.send"), rule("b", "require_approval", tool="mail.*")],
            [("mail.send", "require_approval", False)],
        ),
        ([rule("a", tool="mail.send"), rule("b", "deny", tool="mail.*")], []),
        (
            [rule("a", tool="mail.send"), rule("b", "deny", tool="mail.*", when="args.x")],
            [("mail.send", "allow", True)],
        ),
        ([rule("a", tool="mail.send"), rule("b", "deny", tool="mail.*", when="run.nothing")], []),
    ],
)
def test_an_alternative_stands_as_its_rules_do(rules: list[Rule], found: Any) -> None:
    assert others(denied(*rules)) == found


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"tool": "mail.*"}, [("mail.send", "allow", False)]),
        ({"tool": "mail.*", "when": "args.amount < 3"}, [("mail.send", "allow", True)]),
        ({"tool": "mail.*", "when": "caller == 'eve'"}, []),
        ({"tool": "orders.*"}, []),
    ],
)
def test_grants_close_alternatives_too(entry: Any, found: Any) -> None:
    assert others(denied(rule("a", tool="mail.send"), grants=((entry,), ({"tool": "*"},)))) == found


def test_a_discovered_tool_is_an_alternative_only_where_a_rule_names_it() -> None:
    tools = [*TOOLS[:2], stored(spec("mail.send", discovered=True))]
    assert others(denied(rule("a", tool="mail.*"), tools=tools)) == []
    assert others(denied(rule("a", tool="mail.send"), tools=tools)) == [("mail.send", "allow", False)]


def test_specialists_may_make_the_very_call_and_whoever_is_near_comes_first() -> None:
    rules = (
        rule("office", agent="office", tool="orders.refund", when="args.amount <= 5"),
        rule("desk", "require_approval", agent="desk", tool="orders.refund"),
        rule("guest", agent="guest", tool="orders.*"),
    )
    found = denied(*rules)
    assert [(one.agent_key, one.verdict, one.reachable) for one in found.specialists] == [
        ("desk", "require_approval", True),
        ("office", "allow", False),
    ], "the guest has the right, and not the tool"
    assert found.suggestion.endswith("Agent desk may do it once a person approves: hand over to it.")
    more = denied(*rules, args={"amount": 6}, args_text='{"amount":6}')
    assert [one.agent_key for one in more.specialists] == ["desk"]
    barred = denied(*rules, grants=(({"tool": "orders.refund", "when": "agent.key == 'office'"},),))
    assert [one.agent_key for one in barred.specialists] == ["office"]
    assert denied(*rules, known=False).specialists == ()


def test_it_says_which_person_could_open_it() -> None:
    near = denied(rule("ask", "require_approval", tool="orders.refund", when="args.amount > 100"))
    assert near.escalation is not None
    assert (near.escalation.role, near.escalation.rule) == ("approver", "ask")
    assert "A person may approve it: rule ask lets a person approve it where args.amount > 100." in near.suggestion
    for rules, grants, role, named in (
        ((), (), "policy_admin", None),
        ((rule("no", "deny", tool="*"),), (), "policy_admin", "no"),
        ((rule("a", tool="*"),), ((),), "", None),
    ):
        found = denied(*rules, grants=grants).escalation
        assert found is not None
        assert (found.role, found.rule) == (role, named)
        assert found.why
    wrong = denied(rule("a", tool="*"), args={}, args_text="{}")
    assert (wrong.violation_type, wrong.escalation is not None and wrong.escalation.role) == ("invalid_arguments", "")
    assert (wrong.alternatives, wrong.specialists) == ((), ())


def test_a_denial_by_a_grant_says_what_is_missing_and_who_can_add_it() -> None:
    open_ = rule("all", tool="*", agent="*")
    other = denied(open_, grants=(({"tool": "orders.find"},),))
    assert other.violation_type == "not_granted"
    assert other.reason == "this task was not granted orders.refund (call)"
    assert "its caller can submit another task, whose grant names it" in other.suggestion
    small, own = {"tool": "orders.*", "when": "args.amount < 1"}, {"tool": "orders.refund", "when": "args.amount < 2"}
    bound = denied(open_, grants=((small, own), ({"tool": "*"},)))
    assert bound.reason == (
        "this task was granted orders.refund (call) only where args.amount < 1 or args.amount < 2"
    ), "a grant that names it without a condition is not the reason"
    below = {"tool": "orders.*", "when": "args.amount < 3"}
    chain = denied(
        open_, args={"amount": 5}, args_text='{"amount":5}', grants=((small, own), ({"tool": "*"},), (below,))
    )
    assert chain.reason == (
        "this task was granted orders.refund (call) only where "
        "(args.amount < 1 or args.amount < 2) and (args.amount < 3)"
    ), "each grant of the chain has to hold"
    long = {"tool": "orders.refund", "when": " && ".join(["args.amount < 1"] * 60)}
    assert len(denied(open_, grants=((long,),)).reason) < 500


def test_naming_specialists_ends_with_its_share_of_the_budget() -> None:
    """Fifty agents, and a condition about the agent that takes a good part of what one decision may take."""
    crew = {
        f"a{place}": AgentDirectoryEntry(
            key=f"a{place}", agent_type="", tools=frozenset({"orders.refund"}), routes=frozenset()
        )
        for place in range(50)
    }
    free = next(tool for tool in TOOLS if tool.spec.name == "orders.refund")
    when = "agent.key != 'billing' && args.items.all(x, x != agent.key)"
    bundle = ProjectAuthorizer(
        Matrix([rule("others", tool="orders.refund", when=when)], compile_condition, 7),
        ProjectToolRegistry([replace(free, spec=free.spec.model_copy(update={"parameters": {}}))], matches, 3),
        compile_grant,
    )
    bundle.directories = {SNAPSHOT: {**CREW, **crew}}
    found = {}
    for items in (10, 15_000):
        args = {**asked().args, "items": ["x"] * items}
        budget = ConditionBudget()
        began = time.thread_time()
        for _ in range(4):  # as it is decided again with origin, limits and directories
            text = canonical_json(args)
            query = replace(asked(), args=args, args_text=text, snapshot_digest=SNAPSHOT)
            decision = bundle.authorize(query, budget=budget)
        assert decision.denial is not None and decision.denial.violation_type in {"permission_denied", "permission"}
        assert time.thread_time() - began < 1
        found[items] = len(decision.denial.specialists)
    assert found[10] == MAX_SPECIALISTS
    assert found[15_000] < MAX_SPECIALISTS
