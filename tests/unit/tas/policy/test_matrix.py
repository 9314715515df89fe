"""The matrix: deny beats approval beats allow, nothing means deny, and what is not clearly true never allows."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_tas.adapters.cel import CelCondition, compile_condition, compile_grant, matches
from towpath_tas.core.policy.conditions import ConditionResult
from towpath_tas.core.policy.matrix import (
    NO_USAGE,
    CallPrincipal,
    LimitCounters,
    LimitKind,
    Matrix,
    MatrixVerdict,
    RateLimit,
    Rule,
    RuleEffect,
)

WHO = CallPrincipal("support", "billing", "writer", "anna", "shop")
EFFECTS: tuple[RuleEffect, ...] = ("allow", "deny", "require_approval")


def rule(name: str, effect: RuleEffect, **more: Any) -> Rule:
    return Rule(name=name, effect=effect, digest=name, **more)


def decide(rules: list[Rule], args: dict[str, Any] | None = None, used: LimitCounters = NO_USAGE) -> MatrixVerdict:
    context = {"args": args or {}, "run": {}, "agent": {}, "caller": "anna"}
    return Matrix(rules, compile_condition).decide(WHO, "orders.refund", "write", context, used)


def test_no_rule_means_deny() -> None:
    assert decide([]).effect == "deny"
    assert decide([]).rule is None


def test_deny_beats_approval_beats_allow_in_any_order() -> None:
    rules = [rule("a", "allow"), rule("b", "require_approval"), rule("c", "deny")]
    for order in itertools.permutations(rules):
        assert decide(list(order)).effect == "deny"
    for order in itertools.permutations(rules[:2]):
        assert decide(list(order)).effect == "require_approval"
    assert decide(rules[:1]).effect == "allow"


@pytest.mark.parametrize(
    "narrowed",
    [
        {"project": "shop-*"},
        {"network": "sales"},
        {"agent": "refunds"},
        {"agent_type": "reader"},
        {"caller": "bert"},
        {"tool": "orders.find"},
        {"tool": "orders"},
        {"tool": "orders.refund.*"},
        {"operation": "read"},
    ],
)
def test_a_rule_for_others_does_not_apply(narrowed: dict[str, str]) -> None:
    assert decide([rule("a", "allow", **narrowed)]).effect == "deny"


@pytest.mark.parametrize(
    "widened",
    [
        {"network": "sup*", "agent": "b?lling"},
        {"project": "sh*"},
        {"tool": "orders.*"},
        {"tool": "*"},
        {"tool": "orders.re[fg]und", "caller": "anna"},
    ],
)
def test_globs_apply(widened: dict[str, str]) -> None:
    assert decide([rule("a", "allow", **widened)]).effect == "allow"


@pytest.mark.parametrize("args", [{}, {"amount": "5"}, {"amount": None}, {"amount": [1]}, {"amount": {"a": 1}}])
def test_a_condition_that_errs_never_allows_and_always_restricts(args: dict[str, Any]) -> None:
    when = "args.amount <= 100"
    assert decide([rule("a", "allow", when=when)], args).effect == "deny"
    everything = rule("all", "allow")
    assert decide([everything, rule("d", "deny", when=when)], args).effect == "deny"
    assert decide([everything, rule("r", "require_approval", when=when)], args).effect == "require_approval"


@pytest.mark.parametrize("when", ["'yes'", "1", "args", "[true]", "null"])
def test_only_the_boolean_true_is_a_yes(when: str) -> None:
    assert decide([rule("a", "allow", when=when)]).effect == "deny"
    assert decide([rule("all", "allow"), rule("d", "deny", when=when)]).effect == "deny"


def test_conditions_see_arguments() -> None:
    rules = [
        rule("small", "allow", when="args.amount <= 100"),
        rule("large", "require_approval", when="args.amount > 100"),
        rule("huge", "deny", when="args.amount > 10000"),
    ]
    assert [decide(rules, {"amount": n}).effect for n in (1, 100, 100.5, 101, 10001)] == [
        "allow",
        "allow",
        "require_approval",
        "require_approval",
        "deny",
    ]


def test_a_limit_that_is_used_up_denies_even_where_another_rule_allows() -> None:
    rules = [rule("few", "allow", max_calls_per_run=2), rule("all", "allow")]
    assert decide(rules, used=LimitCounters(calls={"few": 1})).effect == "allow"
    last = decide(rules, used=LimitCounters(calls={"few": 2}))
    assert (last.effect, last.limited) == ("deny", rules[0])


def test_the_limit_of_an_approval_does_not_turn_into_a_right() -> None:
    rules = [rule("ask", "require_approval", max_calls_per_run=1), rule("all", "allow")]
    assert decide(rules).effect == "require_approval"
    assert decide(rules, used=LimitCounters(calls={"ask": 1})).effect == "deny"


def test_every_limited_rule_that_matches_is_counted() -> None:
    rules = [rule("a", "allow", max_calls_per_run=2), rule("b", "allow", max_calls_per_run=9), rule("c", "allow")]
    assert [one.name for one in decide(rules).counted] == ["a", "b"]


def test_a_rate_that_is_used_up_denies() -> None:
    rules = [rule("slow", "allow", rate_calls=3, rate_per_s=60), rule("all", "allow")]
    assert decide(rules, used=LimitCounters(rates={"slow": 2})).rated == (RateLimit("slow", 3, 60),)
    last = decide(rules, used=LimitCounters(rates={"slow": 3}))
    assert (last.effect, last.limited, last.limit) == ("deny", rules[0], "rate")


@pytest.mark.parametrize(
    ("spent", "effect", "limit"),
    [(None, "deny", "cost"), (0.0, "allow", None), (0.49, "allow", None), (0.5, "deny", "cost"), (9.0, "deny", "cost")],
)
def test_a_run_may_not_cost_more_than_its_rule_says_and_an_unknown_cost_is_too_much(
    spent: float | None, effect: RuleEffect, limit: LimitKind | None
) -> None:
    rules = [rule("cheap", "allow", max_cost_per_run_usd=0.5), rule("all", "allow")]
    found = decide(rules, used=LimitCounters(spent_usd=spent))
    assert (found.effect, found.limit) == (effect, limit)


PATTERNS = st.sampled_from(["*", "orders.*", "orders.refund", "orders.find", "*.refund", "billing", "support", "x"])
RULES = st.lists(
    st.builds(
        Rule,
        name=st.uuids().map(str),
        effect=st.sampled_from(EFFECTS),
        tool=PATTERNS,
        agent=PATTERNS,
        network=PATTERNS,
        when=st.sampled_from([None, "args.n > 1", "args.missing", "true", "false"]),
    ),
    max_size=12,
)


def _plain_answer(rules: list[Rule], n: int) -> str:
    """The same law, written as naively as possible."""
    import fnmatch

    met = []
    for one in rules:
        if not all(
            fnmatch.fnmatchcase(value, pattern)
            for value, pattern in (
                ("orders.refund", one.tool),
                (WHO.agent, one.agent),
                (WHO.network, one.network),
            )
        ):
            continue
        answer = {None: True, "true": True, "false": False, "args.n > 1": n > 1, "args.missing": None}[one.when]
        if answer is True or (answer is None and one.effect != "allow"):
            met.append(one.effect)
    for effect in ("deny", "require_approval", "allow"):
        if effect in met:
            return effect
    return "deny"


@given(RULES, st.integers(0, 3))
def test_the_index_decides_like_the_plain_law(rules: list[Rule], n: int) -> None:
    assert decide(rules, {"n": n}).effect == _plain_answer(rules, n)


@given(RULES, RULES, st.integers(0, 3))
def test_adding_a_restriction_never_opens_anything(rules: list[Rule], more: list[Rule], n: int) -> None:
    strictness = {"allow": 0, "require_approval": 1, "deny": 2}
    restricting = [one for one in more if one.effect != "allow"]
    before, after = decide(rules, {"n": n}).effect, decide([*rules, *restricting], {"n": n}).effect
    opened_by_approval = before == "deny" and after == "require_approval"  # an approval rule is also a way in
    assert strictness[after] >= strictness[before] or opened_by_approval


def test_the_trace_says_why_a_rule_did_not_match() -> None:
    rules = [rule("a", "allow", agent="x"), rule("b", "allow", when="args.n > 1"), rule("c", "deny", tool="mail.*")]
    matrix = Matrix(rules, compile_condition)
    trace = matrix.trace(WHO, "orders.refund", "write", {"args": {"n": 2}, "run": {}, "agent": {}, "caller": ""})
    assert [(one.rule, one.matched) for one in trace] == [("a", False), ("b", True)]
    assert "agent 'billing' is not 'x'" in trace[0].detail


def test_the_trace_says_that_a_pattern_does_not_open_a_discovered_tool() -> None:
    rules = [rule("wide", "allow", tool="orders.*"), rule("named", "allow", tool="orders.refund")]
    context = {"args": {}, "run": {}, "agent": {}, "caller": ""}
    trace = Matrix(rules, compile_condition).trace(WHO, "orders.refund", "write", context, discovered=True)
    assert [(one.rule, one.matched) for one in trace] == [("wide", False), ("named", True)]
    assert "discovered" in trace[0].detail


def test_a_condition_that_no_longer_compiles_never_allows() -> None:
    def broken(text: str) -> CelCondition:
        raise ValueError(text)

    matrix = Matrix([rule("a", "allow", when="true")], broken)
    assert matrix.decide(WHO, "t", "call", {}).effect == "deny"


@pytest.mark.parametrize(
    "text",
    ["args.", "amount > 1", "args.a > 1 &&", "system('x')", "args.a.foo()", "x" * 5_000, "args.l.all(x, y > 1)", ""],
)
def test_a_condition_is_checked_when_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "args.items.all(item, item.price < 10)",
        "agent.key == 'billing' && run.labels.team == 'a'",
        "type(args.a) == int",
        "has(args.a) ? args.a in ['x', 'y'] : caller.startsWith('svc-')",
    ],
)
def test_useful_conditions_compile(text: str) -> None:
    compile_condition(text)


@pytest.mark.parametrize("text", ["args.l.all(x, x > 1)", "[1].exists (x, true)", "args.l.map(x, x)", "args."])
def test_a_grant_may_not_bring_loops(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_grant(text)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_condition_answers_whatever_the_arguments_are(value: Any) -> None:
    for text in ("args.a <= 100", "args.a.startsWith('x')", "args.a in [1, 'a']", "size(args.a) > 2", "!args.a"):
        assert compile_condition(text)({"args": {"a": value}, "run": {}, "agent": {}, "caller": ""}) in set(
            ConditionResult
        )


def test_patterns_take_linear_time() -> None:
    assert not matches(r"^(a+)+$", "a" * 5_000 + "b")
    assert matches(r"\d{2}", "x12")
    assert matches('"\\\\é', '"\\é')
    with pytest.raises(ValueError, match="can't be used"):
        matches(r"(?=x)", "x")
