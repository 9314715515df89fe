"""A grant from past runs names what enough of them have used, and only what the network still has."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine.machine import snapshot

from towpath_contracts.grant_proposals.proposals import GetGrantFromRuns, GrantProposal, UsedTool, UsedTools
from towpath_contracts.networks.spec import CompiledAgent
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS
from towpath_orchestrator.core.run_grants import CompletedRuns, destinations, grant_of_runs
from towpath_tas.adapters.cel import compile_grant
from towpath_tas.core.policy.conditions import ConditionContext
from towpath_tas.core.policy.grants import granted

ASKED = GetGrantFromRuns(project="p", network="desk", since=datetime(2026, 11, 1, tzinfo=UTC))


def spec(name: str, operation: str = "read", **more: Any) -> ToolSpec:
    return ToolSpec(name=name, toolset="shop", operation=operation, **more)


TOOLS = (
    *(spec("orders.find"), spec("orders.refund", "write"), spec("mail.send", "send", sinks=("to", "cc.name", "in"))),
    INTERNAL_TOOLS["plan_read"],
)
DESK = snapshot(
    CompiledAgent(key="all", model="m:x", equipped_tools=tuple(one.name for one in TOOLS), allow_respond=True),
    tools=TOOLS,
)


def proposed(*tools: UsedTool, runs: int = 40, complete: bool = True, **asked: Any) -> GrantProposal:
    roots = tuple(UUID(int=number) for number in range(runs))
    read = CompletedRuns(roots=roots, pairs=tuple((root, root) for root in roots), complete=complete)
    return grant_of_runs(ASKED.model_copy(update=asked), DESK, 4, read, UsedTools(tools=tools))


def used(tool: str, operation: str, runs: int, calls: int | None = None, **constants: str) -> UsedTool:
    return UsedTool(tool=tool, operation=operation, runs=runs, calls=calls or runs, constants=constants)


def test_what_enough_runs_used_is_granted_with_how_many_did() -> None:
    found = proposed(used("orders.find", "read", 39, 60), used("orders.refund", "write", 2), complete=False)
    assert [(rule.tool, rule.operation, rule.when) for rule in found.grant] == [
        *(("orders.find", "read", None), ("orders.refund", "write", None), ("plan_read", "read", None)),
    ]
    first = found.entries[0]
    assert (first.reason, first.runs, first.calls) == ("39 of 40 runs used it, in 60 calls", 39, 60)
    assert (found.runs, found.complete, found.version, found.source) == (40, False, 4, "runs")
    assert [(one.tool, one.reason) for one in found.left_out] == [("mail.send", "none of 40 runs used it")]


def test_what_is_rare_gone_or_changed_is_left_out_and_said_why() -> None:
    found = proposed(
        used("orders.find", "read", 40),
        used("mail.send", "send", 1),
        used("orders.refund", "read", 20),
        used("orders.drop", "write", 30),
        used("output_read", "read", 30),
    )
    assert [rule.tool for rule in found.grant] == ["orders.find", "plan_read"]
    assert {one.tool: one.reason for one in found.left_out} == {
        "mail.send": "1 of 40 runs used it, a smaller share than 5%",
        "orders.refund": "its operation is write now, and was read",
        "orders.drop": "the network has it no more",
    }
    assert "mail.send" in [rule.tool for rule in proposed(used("mail.send", "send", 1), min_share=0.0).grant]
    assert "mail.send" in [rule.tool for rule in proposed(used("mail.send", "send", 2)).grant], "5 % is enough"
    for share in range(1, 101):
        found = proposed(used("mail.send", "send", share), runs=100, min_share=share / 100)
        assert "mail.send" in [rule.tool for rule in found.grant], f"{share} of 100 are {share} %"


def test_no_run_proposes_nothing_and_says_so() -> None:
    with pytest.raises(ProblemError) as caught:
        proposed(runs=0, label="team=shop")
    assert caught.value.problem.code == "grant_not_proposed"
    assert "team=shop" in caught.value.problem.detail


def test_only_declared_sinks_that_a_condition_can_name_are_looked_at() -> None:
    assert destinations(DESK) == (("mail.send", "to"),)


@pytest.mark.parametrize("value", ["mia@example.org", 'a"b\\c', "ü😀\n\x01", "'; true || '", "x" * 100])
def test_a_tight_entry_lets_only_the_destination_of_all_calls_through(value: str) -> None:
    import json

    found = proposed(used("mail.send", "send", 5, to=json.dumps(value, ensure_ascii=False)), tight=True)
    (entry,) = (one for one in found.entries if one.tool == "mail.send")
    assert entry.when is not None
    assert entry.reason == "5 of 40 runs used it, in 5 calls, always with this destination"
    grants = (tuple(rule.model_dump(mode="json") for rule in found.grant),)
    for to, open_ in ((value, True), (value + "x", False), ("eve@example.org", False)):
        context = ConditionContext({"args": {"to": to}})
        assert granted(grants, "mail.send", "send", context, compile_grant) is open_


def test_few_calls_and_values_that_are_no_scalars_make_no_condition() -> None:
    few = proposed(used("mail.send", "send", 2, to='"mia@example.org"'), tight=True)
    assert few.entries[0].when is None
    lists = proposed(used("mail.send", "send", 9, to='["mia@example.org"]'), tight=True)
    assert lists.entries[0].when is None
    long = proposed(used("mail.send", "send", 9, to='"' + "m" * 1_100 + '"'), tight=True)
    assert long.entries[0].when is None
    loose = proposed(used("mail.send", "send", 9, to='"mia@example.org"'))
    assert loose.entries[0].when is None
