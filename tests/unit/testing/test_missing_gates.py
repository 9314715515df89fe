"""Whoever waits for a gate that does not open is told why: at once where the run has ended, else at the deadline."""

import inspect
import json
import time

import pytest

from towpath import Agent, AgentRequest, Network, PolicyRule, tool
from towpath.agents.operations import AnyMove, execute_tool, respond
from towpath.testing import NoGateError, harness, script
from towpath_testing.harness import Harness
from towpath_testing.sync import SyncHarness

ASKS = [{"name": "ask-first", "tool": "pay", "effect": "require_approval"}]


@tool(effect_class="pure")
def pay(item: str, cents: int) -> int:
    """Pay for an item."""
    return len(item) + cents


@tool(effect_class="pure")
def lend(item: str) -> int:
    """Lend an item."""
    return len(item)


LONE = Network("lone", [Agent("clerk", prompt="{tools}", tools=[pay, lend], can_respond=True, default=True)])


async def test_a_run_that_has_ended_opens_no_gate_and_the_refused_call_is_told_at_once() -> None:
    said = script([execute_tool("pay", item="tea", amount=3), respond("done")])
    began = time.monotonic()
    async with harness(LONE, policy=ASKS, tools=[pay, lend], model=said) as h:
        await h.run("Pay for tea.")
        with pytest.raises(NoGateError) as none:
            await h.next_gate("60s")
    assert time.monotonic() - began < 30
    start = "no gate: the run completed with 'done'; 1 call was refused: arguments_invalid: "
    assert str(none.value).startswith(start)
    assert "there is no parameter 'amount'; it takes" in str(none.value)


async def test_calls_that_the_policy_refuses_are_counted_and_a_failure_is_told_with_its_reason() -> None:
    said = script([execute_tool("lend", item="tea"), execute_tool("lend", item="salt")])
    async with harness(LONE, policy=ASKS, tools=[pay, lend], model=said) as h:
        run = await h.run("Lend me tea.")
        result = await run.result()
        with pytest.raises(TimeoutError, match=r"2 calls were refused, first: lend: ") as none:
            await h.next_gate()
    assert result.status == "failed"
    assert "; 2 calls were refused, first: lend: " in repr(result)
    assert f"no gate: the run failed ({result.reason})" in str(none.value)


async def test_without_a_policy_the_rule_that_opens_the_gate_is_told_and_none_that_allows_every_call() -> None:
    said = script([execute_tool("lend", item="tea"), respond("done")])
    async with harness(LONE, tools=[pay, lend], model=said) as h:
        await h.run("Lend me tea.")
        with pytest.raises(NoGateError) as none:
            await h.next_gate()
    rule = '{"name": "ask-first", "tool": "lend", "effect": "require_approval"}'
    assert str(none.value).endswith(
        'lend: no rule allows it, since the harness was given no policy: harness(…, policy="policies.yaml") gives it '
        f"those of that file, and policy=[{rule}] one that opens a gate"
    )
    async with harness(LONE, policy=[json.loads(rule)], tools=[pay, lend], model=said) as h:
        await h.run("Lend me tea.")
        assert (await h.next_gate()).rule == "ask-first"


async def test_a_list_of_declared_rules_is_a_policy() -> None:
    said = script([execute_tool("lend", item="tea"), respond("done")])
    rules = [PolicyRule("ask-first", tool="lend", effect="require_approval")]
    async with harness(LONE, policy=rules, tools=[pay, lend], model=said) as h:
        await h.run("Lend me tea.")
        assert (await h.next_gate()).rule == "ask-first"


async def test_a_gate_that_was_returned_does_not_count_as_one_to_come() -> None:
    said = script([execute_tool("pay", item="tea", cents=3), respond("x" * 500)])
    async with harness(LONE, policy=ASKS, tools=[pay, lend], model=said) as h:
        run = await h.run("Pay for tea.")
        await (await h.next_gate()).approve()
        with pytest.raises(NoGateError, match=f"completed with '{'x' * 119}…'$"):
            await h.next_gate()
        assert (await run.result()).status == "completed"
        await h.run("Pay for salt.")
        await (await h.next_gate()).deny("no")
        with pytest.raises(NoGateError, match=r"^no gate: the last of 2 runs "):
            await h.next_gate()


async def test_at_the_deadline_it_is_said_how_long_was_waited_and_what_the_run_does() -> None:
    async with harness(
        LONE, policy=ASKS, tools=[pay, lend], model=script([execute_tool("pay", item="a", cents=1)])
    ) as h:
        with pytest.raises(NoGateError, match=r"^no gate opened within 0.05 s: no run was begun$"):
            await h.next_gate(0.05)
        await h.run("Pay.")
        gate = await h.next_gate()
        with pytest.raises(NoGateError, match=r"^no gate opened within 0.05 s: the run is waiting at step \d") as none:
            await h.next_gate("0.05s")
        assert "with agent 'clerk', and waits for: " in str(none.value)
        await gate.deny("no")


def test_without_asyncio_the_same_is_told() -> None:
    def decide(_request: AgentRequest) -> AnyMove:
        return respond("done")

    with harness(LONE, policy=ASKS, tools=[pay, lend], model=decide) as h:
        h.run("Pay.")
        with pytest.raises(NoGateError, match=r"^no gate: the run completed with 'done'$"):
            h.next_gate()


def test_a_gate_is_waited_for_as_long_as_the_guide_says() -> None:
    for one in (Harness, SyncHarness):
        assert inspect.signature(one.next_gate).parameters["timeout"].default == "10s"
