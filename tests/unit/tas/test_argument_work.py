"""Checks of arguments that would take long end, with a code of their own."""

import json
import random
import time
from typing import Any

import pytest

from towpath_contracts.canonical import canonical_json
from towpath_contracts.schema_bounds.size import SchemaTooCostlyError
from towpath_contracts.schema_bounds.work import TooMuchWorkError
from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.core.authorization import AuthorizationDecision, ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, Rule
from towpath_tas.core.tools.arguments import ArgumentChecker
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion

LONG_CHOICE = {"type": "object", "properties": {"ids": {"items": {"anyOf": [{"const": n} for n in range(2_000)]}}}}
TWICE = {"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}] * 2}}}
BOMB = {"$defs": {"n": TWICE}, "$ref": "#/$defs/n"}
ALLOW = Rule(name="all", tool="*", effect="allow", digest="d")


def decided(
    parameters: dict[str, Any], args: dict[str, Any], times: int = 1, rules: tuple[Rule, ...] = (ALLOW,)
) -> AuthorizationDecision:
    tool = ToolVersion(spec=ToolSpec(name="long", toolset="t", parameters=parameters), version=1, digest="d")
    law = ProjectAuthorizer(Matrix(rules, compile_condition, 1), ProjectToolRegistry([tool], matches, 1), compile_grant)
    query = AuthorizationQuery(
        run_id=None,
        project="default",
        principal=CallPrincipal("n", "a", "t", "c", "default"),
        step=1,
        tool="long",
        operation="call",
        args=args,
        args_text=json.dumps(args),
        labels={},
    )
    return [law.authorize(query) for _ in range(times)][-1]


def test_arguments_that_take_long_to_check_are_denied_as_too_costly() -> None:
    decision = decided(LONG_CHOICE, {"ids": [1_999] * 20_000})
    assert decision.denial is not None
    assert (decision.effect, decision.denial.violation_type) == ("deny", "too_costly")
    assert "fewer or shorter arguments" in decision.denial.suggestion
    assert decided(LONG_CHOICE, {"ids": [1_999] * 20}).effect == "allow"


def test_a_tool_registered_with_such_a_schema_is_denied_without_being_tried() -> None:
    decision = decided(BOMB, {"x": {}}, times=3)
    assert decision.denial is not None
    assert (decision.effect, decision.denial.violation_type) == ("deny", "tool_schema_unusable")
    assert decision.denial.escalation is not None
    assert "owner" in decision.denial.escalation.why


def test_twenty_thousand_unequal_objects_pass_whichever_library_checks_them() -> None:
    items = [{"a": n} for n in range(20_000)]
    for schema in ({"uniqueItems": True}, {"uniqueItems": True, "pattern": "^x"}):
        checker = ArgumentChecker({"properties": {"ids": schema}}, matches)
        assert checker.problems({"ids": items}, json.dumps({"ids": items}, separators=(",", ":"))) == []
        doubled = [*items[:-1], {"a": 0}]
        found = checker.problems({"ids": doubled}, json.dumps({"ids": doubled}, separators=(",", ":")))
        assert found == ["ids: does not satisfy uniqueItems"]


def test_two_schemas_that_refer_to_each_other_end_by_the_work_they_ask_for() -> None:
    both = [{"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]}}} for _ in range(2)]
    checker = ArgumentChecker({"$defs": dict(zip("nm", both, strict=True)), "$ref": "#/$defs/n"}, matches)
    value: Any = 1
    for _ in range(60):
        value = {"x": value}
    with pytest.raises(TooMuchWorkError):
        checker.problems(value, json.dumps(value))


def test_patterns_of_a_schema_count_what_they_take() -> None:
    wide, searched = r"^\w{0,100}$", "(?:a[abc]{150}|b[abc]{150}a|c[abc]{150}b)+[x-z]"
    text = "".join(random.Random(1).choices("abc", k=100_000))
    for member, value in (
        ({"type": "array", "items": {"pattern": wide}}, ["ab"] * 300),
        ({"allOf": [{"pattern": searched}, {"pattern": f"{searched}y"}]}, text),
        ({"type": "object", "patternProperties": {wide: True}}, {f"k{place}": 1 for place in range(300)}),
    ):
        check = ArgumentChecker({"type": "object", "properties": {"p": member}}, matches)
        args = {"p": value}
        began = time.thread_time()
        with pytest.raises(TooMuchWorkError):
            check.problems(args, canonical_json(args))
        assert time.thread_time() - began < 2
    check = ArgumentChecker({"properties": {"to": {"pattern": r"^[\w.+-]{1,64}@[\w.-]+$"}}}, matches)
    assert check.problems({"to": "a@b.example"}, '{"to":"a@b.example"}') == []


def test_a_schema_with_patterns_that_take_too_long_to_be_compiled_is_refused() -> None:
    members = {f"m{place}": {"pattern": rf"^\w{{{100 + place}}}$"} for place in range(100)}
    began = time.thread_time()
    with pytest.raises(SchemaTooCostlyError, match="patterns"):
        ArgumentChecker({"properties": members}, matches)
    assert time.thread_time() - began < 1
