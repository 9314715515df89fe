"""What else a harness promises: refusals as on a platform, budgets, waits that are told, and nothing left behind."""

import asyncio
import gc
import time
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from towpath import (
    Agent,
    AgentRequest,
    Network,
    RefusedError,
    RunTimeoutError,
    SystemParameter,
    ToolContext,
    ToolError,
    hook,
    tool,
)
from towpath.agents.operations import AnyMove
from towpath.hooks import HookEvent
from towpath.networks.spec_files import load_policy
from towpath.testing import execute_tool, harness, respond, script
from towpath_contracts.events.log import LogEntry
from towpath_fabric import clock as fabric_clock
from towpath_fabric.garbage_collector import RARELY
from towpath_orchestrator.adapters.run_store import read_entry
from towpath_testing import platform as testing_platform
from towpath_testing.platform import MemoryPlatform

ALLOWED = [{"name": "all", "tool": "*", "effect": "allow"}]


@tool
def price(item: str) -> int:
    """Say what an item costs."""
    if item == "gold":
        raise ToolError("not_sold", "nobody sells gold here")
    return len(item)


class Costs(BaseModel):
    """An answer."""

    item: str
    costs: int


LONE = Network("lone", [Agent("clerk", prompt="{tools}", tools=[price], can_respond=True, default=True)], max_steps=4)


async def test_without_a_rule_nothing_is_allowed() -> None:
    said = script([execute_tool("price", item="tea"), respond("done")])
    async with harness(LONE, tools=[price], model=said) as h:
        result = await (await h.run("What is tea?")).result()
    assert result.tool_calls() == []
    assert [call.tool for call in result.denied_calls()] == ["price"]


async def test_arguments_are_checked_and_errors_of_tools_are_told() -> None:
    said = script([execute_tool("price", weight=3), execute_tool("price", item="gold"), respond("done")])
    async with harness(LONE, policy=ALLOWED, tools=[price], model=said) as h:
        result = await (await h.run("What is gold?")).result()
    assert result.status == "completed"
    assert [(call.status, call.error) for call in result.tool_calls()] == [("failed", "not_sold")]


async def test_the_answer_of_a_run_is_had_in_its_type() -> None:
    said = script([respond({"item": "tea", "costs": 4}), respond("it costs 4")])
    async with harness(LONE, policy=ALLOWED, tools=[price], model=said) as h:
        costs = await (await h.run("What is tea?")).result(as_=Costs)
        assert (costs.item, costs.costs) == ("tea", 4)


def test_the_answer_of_a_run_is_had_in_its_type_without_asyncio() -> None:
    with harness(LONE, policy=ALLOWED, tools=[price], model=script([respond("it costs 4")])) as h:
        run = h.run("What is tea?")
        assert run.result().text == "it costs 4"
        with pytest.raises(RefusedError, match="output_invalid"):
            run.result(as_=Costs)


async def test_a_slip_in_a_network_is_told_at_its_line_before_it_is_opened() -> None:
    with pytest.raises(RefusedError, match=r"test_harness\.py:\d+: .*did you mean \{tools\}\?"):
        harness(Network("slip", [Agent("a", prompt="{toolz}", default=True, can_respond=True)]), model=script([]))


async def test_a_network_that_a_platform_would_refuse_is_refused() -> None:
    async def opened(network: Network, policy: str) -> None:
        async with harness(network, policy=policy, model=script([])):
            raise AssertionError("it was opened")

    with pytest.raises(RefusedError) as refused:
        await opened(LONE, "kind: Policy\nrules: []\n")  # nobody offers its tool
    assert refused.value.code == "network_invalid"
    with pytest.raises(RefusedError) as refused:
        await opened(LONE, "kind: Policy\nrules:\n  - {name: a, tool: b, effect: perhaps}\n")
    assert refused.value.code == "policy_invalid"
    assert refused.value.problem.errors


def test_what_is_wrong_in_a_file_is_told_at_its_line_by_the_error_itself(tmp_path: Path) -> None:
    policy, network = tmp_path / "policy.yaml", tmp_path / "network.yaml"
    rules = "kind: Policy\nrules:\n" + "".join(f"  - {{name: r{n}, tool: price, effect: alow}}\n" for n in range(5))
    policy.write_text(rules)
    for given in (policy, str(policy), load_policy(policy)):
        with pytest.raises(RefusedError) as refused:
            harness(LONE, policy=given, tools=[price])
        said = str(refused.value)
        assert said.startswith(f"policy_invalid: {policy}:3: effect: 'alow' is not one of allow,")
        assert f"{policy}:5: " in said and f"{policy}:6: " not in said and "; and 2 more. Correct" in said
        assert "did you mean 'allow'?" in said and "(/rules" not in said
    with pytest.raises(RefusedError, match=r"5 problems: line 3: 'alow' is"):
        harness(LONE, policy=rules, tools=[price])
    network.write_text("""kind: Network
name: pair
agents:
  - {key: a, prompt_template: hi, is_default: true, allow_respond: true, allowed_routes: [bb]}
  - {key: b, prompt_template: hi, equipped_tools: [prize]}
""")
    with pytest.raises(RefusedError) as refused, harness(network, policy=ALLOWED, tools=[price]):
        raise AssertionError("it was opened")
    assert f"{network}:4: a routes to bb" in str(refused.value)
    assert f"{network}:5: b is equipped with prize" in str(refused.value)


async def test_a_tool_is_told_whose_call_it_is_in_the_words_of_the_task() -> None:
    told: list[ToolContext] = []

    @tool(effect_class="pure")
    def balance(account: Annotated[str, SystemParameter()], ctx: ToolContext) -> int:
        told.append(ctx)
        return len(account)

    desk = Network("desk", [Agent("clerk", prompt="{tools}", tools=[balance], can_respond=True, default=True)])
    said = script([execute_tool("balance"), respond("done")])
    async with harness(desk, policy=ALLOWED, tools=[balance], model=said) as h:
        run = await h.run("What have I?", labels={"team": "blue"}, system_params={"account": "ada", "other": "x"})
        assert (await run.result()).status == "completed"
    (ctx,) = told
    assert (ctx.network, ctx.agent, ctx.caller, ctx.labels) == ("desk", "clerk", "tester", {"team": "blue"})
    assert (ctx.run_id, ctx.root_run_id, ctx.system_params) == (run.run_id, run.run_id, {"account": "ada"})


async def test_what_a_tool_keeps_for_a_run_is_given_back_when_the_run_has_ended() -> None:
    asked: dict[UUID, int] = {}

    @tool(effect_class="pure")
    def again(ctx: ToolContext) -> int:
        asked[ctx.root_run_id] = asked.get(ctx.root_run_id, 0) + 1
        return asked[ctx.root_run_id]

    @hook("run_finished")
    def forget(event: HookEvent) -> None:
        ended.append(asked.pop(event.run_id))  # type: ignore[arg-type]

    ended: list[int] = []
    module = ModuleType("counting")
    module.__dict__.update(again=again, forget=forget)
    desk = Network("desk", [Agent("clerk", prompt="{tools}", tools=[again], can_respond=True, default=True)])
    said = script([execute_tool("again"), execute_tool("again"), respond("done")])
    async with harness(desk, policy=ALLOWED, tools=[module], model=said) as h:
        await (await h.run("Count.")).result()
        assert (asked, ended) == ({}, [2])


async def test_a_budget_ends_a_run_as_on_a_platform() -> None:
    def ask(_request: AgentRequest) -> AnyMove:
        return execute_tool("price", item="tea")

    async with harness(LONE, policy=ALLOWED, tools=[price], model=ask) as h:
        run = await h.run("What is tea?", budget={"tool_calls": 1})
        result = await run.result()
    assert len(result.tool_calls()) == 1
    assert (result.status, result.reason) == ("failed", "budget_exceeded")


async def test_whoever_waits_in_vain_is_told_for_what() -> None:
    policy = [{"name": "ask-first", "tool": "price", "effect": "require_approval"}]
    said = script([execute_tool("price", item="tea")])
    async with harness(LONE, policy=policy, tools=[price], model=said) as h:
        run = await h.run("What is tea?")
        await h.next_gate()
        with pytest.raises(RunTimeoutError, match="waiting and waits for"):
            await run.result(timeout=0.05)
        await run.cancel("enough")
        assert (await run.result()).status == "cancelled"


async def test_the_model_may_be_an_async_function_and_see_what_came_before() -> None:
    async def decide(request: AgentRequest) -> AnyMove:
        await asyncio.sleep(0)
        if not request.outputs:
            return execute_tool("price", item="salt")
        return respond(f"it costs {request.results('price')[0]}")

    async with harness(LONE, policy=ALLOWED, tools=[price], model=decide) as h:
        result = await (await h.run("What is salt?")).result()
    assert result.text == "it costs 4"


async def test_a_clock_jumps_forward_only_and_nothing_goes_on_after_the_end() -> None:
    before = asyncio.all_tasks()
    async with harness(LONE, policy=ALLOWED, tools=[price], model=script([respond("done")])) as h:
        began = h.clock.elapsed_s()
        await h.clock.advance("2h")
        assert h.clock.elapsed_s() - began >= 7200
        with pytest.raises(ValueError, match="never goes back"):
            await h.clock.advance(-1)
    assert asyncio.all_tasks() == before


async def test_many_runs_cost_little() -> None:
    said = script([execute_tool("price", item="tea"), execute_tool("price", item="salt"), respond("done")])
    async with harness(LONE, policy=ALLOWED, tools=[price], model=said) as h:
        await (await h.run("warm up")).result()
        began = time.process_time()
        for _ in range(20):
            assert (await (await h.run("again")).result()).status == "completed"
        assert time.process_time() - began < 20  # a run that reads its own log anew with every step takes far more


async def test_the_log_of_a_result_is_read_once_and_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def count(row: Any) -> LogEntry:
        read.append(row["seq"])
        return read_entry(row)

    monkeypatch.setattr(testing_platform, "read_entry", count)
    async with harness(LONE, policy=ALLOWED, tools=[price], model=script([respond("done")])) as h:
        result = await (await h.run("hello")).result()
    assert (result.status, result.text, read) == ("completed", "done", [])
    assert result.events[-1].type == "run_finished"
    assert result.agents == ("clerk",)
    assert [entry.seq for entry in result.entries] == read == list(range(1, len(read) + 1))


@pytest.mark.parametrize("error", [ValueError("no price list"), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_what_can_not_be_opened_leaves_no_clock_and_no_task_behind(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(self: MemoryPlatform) -> None:
        self.bus.spawn(asyncio.sleep(60), "a loop")
        raise error

    monkeypatch.setattr(MemoryPlatform, "start", start)
    before, clock = asyncio.all_tasks(), fabric_clock._source.monotonic
    with pytest.raises(type(error)):
        await harness(LONE, tools=[price], model=script([])).__aenter__()
    assert asyncio.all_tasks() == before
    assert fabric_clock._source.monotonic is clock


async def test_the_clock_is_given_back_though_the_platform_can_not_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, close = fabric_clock._source.monotonic, MemoryPlatform.close

    async def fails(self: MemoryPlatform) -> None:
        await close(self)
        raise RuntimeError("a part can't be closed")

    monkeypatch.setattr(MemoryPlatform, "close", fails)
    with pytest.raises(RuntimeError, match="a part"):
        async with harness(LONE, tools=[price], model=script([])):
            assert fabric_clock._source.monotonic is not clock
    assert fabric_clock._source.monotonic is clock


async def test_of_two_harnesses_that_are_open_each_has_time_pass_for_both() -> None:
    policy = [{"name": "ask-first", "tool": "price", "effect": "require_approval", "expires_s": 3600}]
    options: dict[str, Any] = {"policy": policy, "tools": [price]}
    clock = fabric_clock._source.monotonic
    first = harness(LONE, **options, model=script([execute_tool("price", item="tea"), respond("too late")]))
    await first.__aenter__()
    run = await first.run("What is tea?")
    await first.next_gate()
    async with harness(LONE, **options, model=script([respond("done")])) as second:
        await first.clock.advance("2h")
        assert (await run.result()).text == "too late"
        assert second.clock.elapsed_s() >= 7200
        await first.__aexit__(None, None, None)
        assert fabric_clock.monotonic() >= 7200  # it is still open
        assert (await (await second.run("Hello")).result()).status == "completed"
    assert fabric_clock._source.monotonic is clock


async def test_garbage_is_collected_as_before_once_no_harness_is_open() -> None:
    before = gc.get_threshold()
    async with harness(LONE, tools=[price], model=script([])), harness(LONE, tools=[price], model=script([])):
        assert gc.get_threshold() == RARELY
    assert gc.get_threshold() == before
    with pytest.raises(RefusedError):
        await harness(LONE, model=script([])).__aenter__()  # nobody offers its tool
    assert gc.get_threshold() == before
