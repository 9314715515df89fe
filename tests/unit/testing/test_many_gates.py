"""However many gates wait and however many tests wait for one, each gate is returned once, and asked for once."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from towpath import Agent, Network, tool
from towpath.agents.operations import execute_tool, respond
from towpath.testing import harness, script
from towpath_contracts import rpc
from towpath_contracts.runs.views import ListGates

ASKS = [{"name": "ask-first", "tool": "pay", "effect": "require_approval"}]
MORE_THAN_A_PAGE = ListGates(project="default").limit + 5


@tool(effect_class="pure")
def pay(item: str) -> int:
    """Pay for an item."""
    return len(item)


SHOP = Network("shop", [Agent("clerk", prompt="{tools}", tools=[pay], can_respond=True, default=True)])
BUYS = script([execute_tool("pay", item="tea"), respond("done")])


async def test_gates_beyond_the_first_page_are_returned_and_listed() -> None:
    async with harness(SHOP, policy=ASKS, tools=[pay], model=BUYS) as h:
        for _ in range(MORE_THAN_A_PAGE):
            await h.run("Buy tea.")
        gates = [await h.next_gate() for _ in range(MORE_THAN_A_PAGE)]
        assert len({gate.run_id for gate in gates}) == MORE_THAN_A_PAGE
        assert {gate.run_id for gate in await h.open_gates()} == {gate.run_id for gate in gates}


async def test_of_many_that_wait_each_asks_for_its_own_gate_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 12
    async with harness(SHOP, policy=ASKS, tools=[pay], model=BUYS) as h:
        bus, asked = h._open.bus, Counter[str]()
        plain = bus.request_subject

        async def counted(subject: str, *rest: Any, **more: Any) -> Any:
            asked[subject] += 1
            return await plain(subject, *rest, **more)

        monkeypatch.setattr(bus, "request_subject", counted)

        async def buy() -> str:
            run = await h.run("Buy tea.")
            await (await h.next_gate()).approve()
            return (await run.result()).status

        assert await asyncio.gather(*(buy() for _ in range(count))) == ["completed"] * count
        assert asked[rpc.LIST_GATES.subject] == count


async def test_a_gate_that_a_cancelled_wait_had_asked_for_is_returned_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with harness(SHOP, policy=ASKS, tools=[pay], model=BUYS) as h:
        bus, asks = h._open.bus, asyncio.Event()
        plain = bus.request_subject

        async def stuck(subject: str, *rest: Any, **more: Any) -> Any:
            if subject == rpc.LIST_GATES.subject and not asks.is_set():
                asks.set()
                await asyncio.Event().wait()
            return await plain(subject, *rest, **more)

        monkeypatch.setattr(bus, "request_subject", stuck)
        await h.run("Buy tea.")
        first = asyncio.ensure_future(h.next_gate())
        await asyncio.wait_for(asks.wait(), 10)
        second = asyncio.ensure_future(h.next_gate())
        first.cancel()
        assert (await second).rule == "ask-first"
