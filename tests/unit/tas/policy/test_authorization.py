"""Authorization is the conjunction of registry, arguments, grant and matrix; denials help; tools are proposed."""

import random
import time
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.canonical import canonical_json
from towpath_contracts.schema_bounds.size import SchemaTooCostlyError
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import AuthorizationDecision, ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.denials import MAX_ALLOWED, rank
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, Rule
from towpath_tas.core.tools.arguments import ArgumentChecker
from towpath_tas.core.tools.registry import (
    ProjectToolRegistry,
    ToolVersion,
    WorkerTrust,
    foreign_toolset,
    judge_proposal,
    platform_tool_version,
    spec_digest,
)

PARAMETERS = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "customer": {"type": "string", "pattern": "^C-\\d+$"}},
    "required": ["amount"],
    "additionalProperties": False,
}


def spec(name: str, **more: Any) -> ToolSpec:
    fields = {"name": name, "toolset": "orders", "parameters": PARAMETERS, "effect_class": "idempotent", **more}
    return ToolSpec.model_validate(fields)


def stored(one: ToolSpec, version: int = 1, owner: str = "team") -> ToolVersion:
    return ToolVersion(spec=one, version=version, digest=spec_digest(one), owner=owner)


TOOLS = [stored(spec(name)) for name in ("orders.find", "orders.refund", "mail.send")]
ALLOW = Rule(name="all", effect="allow", tool="orders.*", digest="d")


def bundle(*rules: Rule, tools: list[ToolVersion] = TOOLS) -> ProjectAuthorizer:
    return ProjectAuthorizer(Matrix(rules, compile_condition, 7), ProjectToolRegistry(tools, matches, 3), compile_grant)


def asked(
    tool: str = "orders.refund", args: Any = None, grant: Any = None, operation: str = "call"
) -> AuthorizationQuery:
    given_args = {"amount": 5} if args is None else args
    return AuthorizationQuery(
        run_id=uuid.uuid4(),
        project="default",
        principal=CallPrincipal("support", "billing", "", "anna"),
        step=1,
        tool=tool,
        operation=operation,
        args=given_args,
        args_text=canonical_json(given_args),
        labels={"team": "a"},
        grants=() if grant is None else (tuple(grant),),
    )


def violation(decision: AuthorizationDecision) -> str:
    return decision.denial.violation_type if decision.denial else ""


def test_a_clear_yes_names_its_rule_and_versions() -> None:
    decision = bundle(ALLOW).authorize(asked())
    assert (decision.effect, decision.rule, decision.policy_version, decision.basis) == (
        "allow",
        "all",
        7,
        (("all", "d"),),
    )


def test_an_unknown_tool_is_denied_and_the_nearest_allowed_one_is_named() -> None:
    decision = bundle(ALLOW).authorize(asked("orders.refnd"))
    assert violation(decision) == "tool_unknown"
    assert decision.denial is not None
    assert decision.denial.suggestion == "Did you mean orders.refund?"
    assert decision.denial.allowed_tools[0] == "orders.refund"


def test_no_rule_is_permission_denied_with_an_alternative() -> None:
    decision = bundle(ALLOW).authorize(asked("mail.send"))
    assert violation(decision) == "permission_denied"
    assert decision.denial is not None
    assert set(decision.denial.allowed_tools) == {"orders.find", "orders.refund"}
    assert "Try orders." in decision.denial.suggestion


def test_a_condition_that_was_not_met_is_reported() -> None:
    small = Rule(name="small", effect="allow", tool="orders.refund", when="args.amount <= 3")
    denial = bundle(small).authorize(asked()).denial
    assert denial is not None
    assert denial.suggestion == "Rule small would allow it where args.amount <= 3."


def test_another_operation_is_another_reason() -> None:
    assert violation(bundle(ALLOW).authorize(asked(operation="delete"))) == "operation_unknown"


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({}, "'amount' is missing"),
        ({"amount": "5"}, "amount: '5' is not of type 'number'"),
        ({"amount": 1, "x": 2}, "'x' was unexpected"),
        (
            {"amout": 1},
            "arguments: Additional properties are not allowed ('amout' was unexpected); did you mean 'amount'?",
        ),
        ({"amount": 1, "customer": "D-1"}, "customer: 'D-1' does not match"),
    ],
)
def test_invalid_arguments_are_denied_before_any_rule_is_asked(args: dict[str, Any], word: str) -> None:
    decision = bundle(ALLOW).authorize(asked(args=args))
    assert violation(decision) == "invalid_arguments"
    assert word in decision.reason


def test_a_parameter_that_the_system_fills_in_is_not_the_one_that_may_be_meant() -> None:
    hidden = spec("orders.refund", system_params=("customer",))
    decision = bundle(ALLOW, tools=[stored(hidden)]).authorize(asked(args={"amount": 1, "custmer": "x"}))
    assert "'custmer' was unexpected" in decision.reason and "did you mean" not in decision.reason


def test_values_that_the_system_filled_in_are_never_shown() -> None:
    hidden = spec("orders.refund", system_params=("customer",))
    decision = bundle(ALLOW, tools=[stored(hidden)]).authorize(asked(args={"amount": 1, "customer": "secret-value"}))
    assert violation(decision) == "invalid_arguments"
    assert "secret-value" not in decision.reason


def test_a_failed_choice_does_not_tell_the_values_inside() -> None:
    parameters = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = ArgumentChecker(parameters, matches).problems({"token": "secret-value"}, "{}")
    assert found == ["arguments: does not satisfy anyOf"]


def test_arguments_that_are_too_large_or_too_deep_are_refused() -> None:
    check = ArgumentChecker({"type": "object"}, matches)
    assert "characters" in check.problems({"a": "x" * 300_000}, "x" * 300_000)[0]
    deep: Any = {}
    for _ in range(80):
        deep = {"a": deep}
    assert "deeper" in check.problems(deep, "")[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": {"a": {"pattern": "(?=x)"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"description": "x" * 70_000},
        {"allOf": [{"patternProperties": {"(a+)+$": {}}}], "unevaluatedProperties": False},
    ],
)
def test_a_schema_that_can_not_be_checked_safely_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        ArgumentChecker(schema, matches)


def test_a_reference_is_never_fetched() -> None:
    with pytest.raises(SchemaTooCostlyError, match="outside itself"):
        ArgumentChecker({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}, matches)


def test_pattern_properties_are_checked() -> None:
    check = ArgumentChecker({"patternProperties": {"^n_": {"type": "number"}}}, matches)
    assert check.problems({"n_a": 1, "other": "x"}, "{}") == []
    assert check.problems({"n_a": "x"}, "{}") == ["n_a: 'x' is not of type 'number'"]


@pytest.mark.parametrize(
    ("grant", "effect"),
    [
        (None, "allow"),
        ([], "deny"),
        ([{"tool": "orders.*"}], "allow"),
        ([{"tool": "mail.*"}], "deny"),
        ([{"tool": "orders.refund", "operation": "read"}], "deny"),
        ([{"tool": "orders.refund", "when": "args.amount < 6"}], "allow"),
        ([{"tool": "orders.refund", "when": "args.amount < 5"}], "deny"),
        ([{"tool": "orders.refund", "when": "args.nothing"}], "deny"),
        ([{"tool": "orders.refund", "when": "args."}], "deny"),
        ([{"tool": "orders.refund", "when": "[1].all(x, true)"}], "deny"),
        ([{"tool": "mail.*"}, {"tool": "orders.refund"}], "allow"),
        ([{}], "deny"),
    ],
)
def test_a_grant_narrows_and_never_widens(grant: Any, effect: str) -> None:
    decision = bundle(ALLOW).authorize(asked(grant=grant))
    assert decision.effect == effect
    if effect == "deny":
        assert violation(decision) == "not_granted"
    assert bundle().authorize(asked(grant=grant)).effect == "deny"


def test_a_limit_tells_what_it_is() -> None:
    limited = Rule(name="few", effect="allow", tool="orders.*", max_calls_per_run=1)
    first = bundle(limited).authorize(asked(), {"few": 0})
    assert (first.effect, first.counted) == ("allow", ("few",))
    second = bundle(limited).authorize(asked(), {"few": 1})
    assert violation(second) == "limit_exceeded"


def test_the_nearest_tools_come_first() -> None:
    names = ["mail.send", "orders.find_all", "orders.find", "refunds.list"]
    assert rank([spec(name) for name in names], "orders.fnd")[:2] == ("orders.find", "orders.find_all")


def test_tools_whose_names_take_long_to_be_compared_are_ranked_soon() -> None:
    letters, chance = list("abcdefghijklmnop" * 7 + "qrstuv"), random.Random(7)
    names = ["evil." + "".join(chance.sample(letters, len(letters))) for _ in range(1_001)]
    specs = [spec(name) for name in names[1:]]
    began = time.thread_time()
    assert len(rank(specs, names[0])) == MAX_ALLOWED
    assert time.thread_time() - began < 0.3  # letter by letter it would be a second


@given(st.text(max_size=40), st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_nothing_unknown_is_ever_allowed(tool: str, args: dict[str, Any]) -> None:
    decision = bundle(ALLOW).authorize(asked(tool, args))
    assert decision.effect == "deny" or (tool.startswith("orders.") and "amount" in args)


OLD = spec("orders.refund")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "unchanged"),
        ({"description": "better"}, "pending"),
        ({"parameters": {"type": "object"}}, "pending"),
        ({"polling": True}, "accepted"),
        ({"effect_class": EffectClass.IRREVERSIBLE}, "accepted"),
        ({"effect_class": EffectClass.RECONCILABLE}, "accepted"),
        ({"effect_class": EffectClass.PURE}, "pending"),
        ({"trusted_output": True}, "pending"),
        ({"toolset": "others"}, "pending"),
        ({"operation": "read"}, "pending"),
        ({"sensitive": True}, "accepted"),
        ({"reports": "tests"}, "pending"),
    ],
)
def test_what_only_tightens_is_taken_and_what_weakens_waits(change: dict[str, Any], status: str) -> None:
    new = OLD.model_copy(update=change)
    assert judge_proposal(new, "team", stored(OLD), trusting=False).status == status
    assert judge_proposal(new, "team", stored(OLD), trusting=True).status in {"accepted", "unchanged"}


def test_a_tool_is_not_taken_over_by_another_owner() -> None:
    assert judge_proposal(OLD, "stranger", stored(OLD), trusting=False).status == "pending"


def test_a_sensitive_tool_stays_sensitive() -> None:
    sensitive = OLD.model_copy(update={"sensitive": True})
    assert judge_proposal(OLD, "team", stored(sensitive), trusting=False).status == "pending"


def test_a_new_tool_is_taken_unless_it_claims_to_be_trusted() -> None:
    assert judge_proposal(OLD, "team", None, trusting=False).status == "accepted"
    assert (
        judge_proposal(OLD.model_copy(update={"trusted_output": True}), "team", None, trusting=False).status
        == "pending"
    )


def test_a_new_tool_that_only_a_pattern_opens_waits_and_is_noted_where_workers_are_trusted() -> None:
    for trusting, status in ((False, "pending"), (True, "accepted")):
        judged = judge_proposal(OLD, "team", None, trusting=trusting, opened_by=ALLOW)
        assert (judged.status, "rule all, whose pattern orders.* opens it" in judged.reason) == (status, True)


def test_a_new_tool_whose_name_begins_as_those_of_another_toolset_alone_waits() -> None:
    toolsets = {"orders": {"shop", "desk"}, "pay": {"pay"}}
    offered = [
        OLD.model_copy(update={"name": name, "toolset": "shop"}) for name in ("orders.x", "pay.x", "mail.x", "pay")
    ]
    assert [foreign_toolset(spec, toolsets) for spec in offered] == ["", "pay", "", ""]
    judged = judge_proposal(OLD, "team", None, trusting=False, name_taken_by="pay")
    assert (judged.status, judged.reason) == ("pending", "names that begin with orders. are those of toolset pay")
    assert judge_proposal(OLD, "team", None, trusting=True, name_taken_by="pay").status == "accepted"


def test_what_a_person_refused_is_not_accepted_because_rules_or_trust_changed() -> None:
    judged = judge_proposal(OLD, "team", None, trusting=True, refused="refused: no")
    assert (judged.status, judged.reason) == ("pending", "refused: no")


@pytest.mark.parametrize(
    ("embedded", "keys", "new", "known"),
    [(True, False, True, True), (True, True, True, False), (False, True, False, False)],
)
def test_workers_are_trusted_by_where_the_platform_runs(*, embedded: bool, keys: bool, new: bool, known: bool) -> None:
    trust = WorkerTrust.on(embedded=embedded, keys=keys)
    assert (trust.covers(toolset_known=False), trust.covers(toolset_known=True)) == (new, known)
    assert trust.covers(toolset_known=False, foreign=True) is known


def test_rules_that_are_not_those_of_the_version_permit_nothing_and_what_decides_names_its_rules() -> None:
    law = bundle(ALLOW)
    law.rules_digest = "sha256:aa"
    assert (law.authorize(asked()).effect, law.authorize(asked()).rules_digest) == ("allow", "sha256:aa")
    law.rules_changed = True
    for query in (asked(), asked("orders.unknown"), asked(args={})):
        refused = law.authorize(query)
        assert (refused.effect, violation(refused), refused.rules_digest) == ("deny", "rules_changed", "sha256:aa")


OWN = [platform_tool_version(name) for name in OUTPUT_TOOLS]
READ = {"execution_id": str(uuid.UUID(int=7))}


def verdict_of_read(*rules: Rule, version: int = 7, **more: Any) -> AuthorizationDecision:
    registry = ProjectToolRegistry([*TOOLS, *(tool for tool in OWN if tool)], matches, 3)
    authorizer = ProjectAuthorizer(Matrix(rules, compile_condition, version), registry, compile_grant)
    return authorizer.authorize(asked("output_read", **{"args": READ, **more}))


def test_what_a_run_was_given_it_may_read_again_without_a_rule() -> None:
    decision = verdict_of_read(ALLOW)
    assert (decision.effect, decision.rule, decision.policy_version) == ("allow", None, 7)
    everything = Rule(name="none", effect="deny", tool="*", digest="d")
    asking = Rule(name="strangers", effect="deny", tool="*", when='origin.worst == "untrusted"', digest="d")
    assert verdict_of_read(everything, asking).effect == "allow", "a rule for all tools does not speak of it"
    assert verdict_of_read(ALLOW, grant=({"tool": "orders.find"},)).effect == "allow"


def test_a_rule_that_names_the_reading_of_outputs_decides_about_it() -> None:
    assert verdict_of_read(Rule(name="no", effect="deny", tool="output_*", digest="d")).effect == "deny"
    ask = Rule(name="ask", effect="require_approval", tool="output_read", digest="d")
    assert verdict_of_read(ask).effect == "require_approval"
    other = Rule(name="other", effect="deny", tool="output_search", digest="d")
    assert verdict_of_read(other).effect == "allow"


def test_without_a_policy_and_with_wrong_arguments_outputs_are_not_read() -> None:
    assert verdict_of_read(version=0).effect == "deny"
    registry = ProjectToolRegistry([tool for tool in OWN if tool], matches, 3)
    changed = ProjectAuthorizer(Matrix((), compile_condition, 7), registry, compile_grant)
    changed.rules_changed = True
    assert violation(changed.authorize(asked("output_read", READ))) == "rules_changed"
    assert violation(verdict_of_read(ALLOW, args={"execution_id": 7})) == "invalid_arguments"
