"""Recorded calls are weighed by another matrix as far as the record goes; what it can't tell is left out, by name."""

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.oracles.policy_diff import recorded_call
from tests.oracles.policy_texts import Question

from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.call import LedgerCall
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.policy_comparison import PolicyDiffBuilder, RecordedAuthorization, without_limits

SPECS = {
    name: ToolSpec.model_validate({"name": name, "toolset": "mail", "effect_class": effect, **more})
    for name, effect, more in (
        ("mail.send", "irreversible", {"sinks": ("to",)}),
        ("web.fetch", "pure", {"discovered": True}),
    )
}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def call(tool: str = "mail.send", then: str = "allow", violation: str = "", **context: Any) -> LedgerCall:
    asked = Question(
        project="shop",
        network="support",
        agent="billing",
        agent_type="",
        caller="ann",
        tool=tool,
        operation="call",
        step=1,
        args={"to": "a"},
        labels={},
    )
    made = replace(recorded_call(asked, uuid.uuid4(), 0, then, violation), operation="call")
    return replace(made, context=json.dumps(context)) if context else made


def weighed(rules: str, made: LedgerCall | None, then: str = "allow") -> PolicyDiffBuilder:
    found = read_policy(f"kind: Policy\nrules: [{rules}]", compile_condition)
    assert found.problems == ()
    weighing = PolicyDiffBuilder(without_limits(found.rules, compile_condition), SPECS)
    weighing.add(RecordedAuthorization(call=made, at=NOW, verdict=then, rule="r", policy_version=1))
    return weighing


def changes(weighing: PolicyDiffBuilder) -> list[tuple[str, str, int]]:
    return [(group.change, group.was, group.calls) for group in weighing.groups()]


ALLOW = "{name: all, effect: allow}"
ORIGIN = "{name: all, effect: allow}, {name: held, effect: require_approval, when: \"origin.worst == 'untrusted'\"}"


def test_each_kind_of_difference_has_its_name() -> None:
    assert changes(weighed(ALLOW, call())) == []
    assert changes(weighed("", call())) == [("newly_denied", "allow", 1)]
    assert changes(weighed("{name: a, effect: require_approval}", call())) == [("newly_gated", "allow", 1)]
    denied = call(then="deny", violation="permission_denied")
    assert changes(weighed(ALLOW, denied, "deny")) == [("newly_allowed", "deny", 1)]
    assert changes(weighed("", denied, "deny")) == []
    assert changes(weighed(ALLOW, call(then="require_approval"), "require_approval")) == [
        ("newly_allowed", "require_approval", 1)
    ]


def test_what_the_record_can_not_tell_is_left_out_by_name() -> None:
    for made, then, why in (
        (None, "allow", "forgotten"),
        (replace(call(then="require_approval"), edited_by="ben"), "require_approval", "edited"),
        (call(then="deny", violation="limit_exceeded"), "deny", "limit_exceeded"),
        (call(then="deny", violation="not_granted"), "deny", "not_granted"),
        (call(then="deny", violation="tool_drifted"), "deny", "tool_drifted"),
    ):
        weighing = weighed("", made, then)
        assert (weighing.calls, dict(weighing.left_out), weighing.groups()) == (0, {why: 1}, ())


def test_limits_are_looked_through() -> None:
    limited = "{name: a, effect: allow, max_calls_per_run: 1, max_cost_per_run_usd: 1, rate: {calls: 1, per_s: 1}}"
    assert changes(weighed(limited, call())) == []


def test_a_rule_about_origin_is_weighed_where_the_origin_was_looked_up() -> None:
    known = call(origin={"worst": "untrusted"})
    assert changes(weighed(ORIGIN, known)) == [("newly_gated", "allow", 1)]
    assert changes(weighed(ORIGIN, call(origin={"worst": "task"}))) == []
    told = "{name: all, effect: allow}, {name: held, effect: deny, when: size(origin.leaks) > 0}"
    asked = weighed(told, call(origin={"worst": "task"}))
    assert dict(asked.left_out) == {"origin_unread": 1}, "nobody asked who may know it then"
    assert changes(weighed(told, call(origin={"worst": "task", "leaks": []}))) == []
    assert changes(weighed(told, call(origin={"worst": "task", "leaks": ["to"]}))) == [("newly_denied", "allow", 1)]
    unread = weighed(ORIGIN, call())
    assert (unread.calls, dict(unread.left_out)) == (0, {"origin_unread": 1})
    elsewhere = ORIGIN.replace("name: held", "name: held, tool: mail.*")
    assert changes(weighed(elsewhere, call("orders.find"))) == []


@pytest.mark.parametrize(
    "when",
    [
        '"eve@evil.example" in origin.leaks',
        "origin.leaks.exists(x, x == args.to)",
        "size(origin.leaks) > 1",
        "size(origin.leaks) > 0 && !(args.to in origin . leaks)",
        "has(origin.leaks)",
    ],
)
def test_destinations_of_leaks_are_not_kept_so_rules_that_name_them_are_left_out(when: str) -> None:
    rules = f"{{name: all, effect: allow}}, {{name: held, effect: deny, when: '{when}'}}"
    found = weighed(rules, call(origin={"worst": "task", "leaks": ["to"]}))
    assert (changes(found), dict(found.left_out)) == ([], {"origin_unread": 1})


def test_a_discovered_tool_is_opened_only_by_name() -> None:
    assert changes(weighed(ALLOW, call("web.fetch"))) == [("newly_denied", "allow", 1)]
    assert changes(weighed("{name: a, tool: web.fetch, effect: allow}", call("web.fetch"))) == []
