"""A user's program in which a type checker finds nothing wrong."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import assert_type
from uuid import UUID

from pydantic import BaseModel

from towpath import Agent, Client, Goal, Network, RefusedError, Swarm, Tool, ToolContext, run, run_sync, tool
from towpath.tasks.outputs import TypedRun
from towpath_contracts.runs.views import RunPage, RunView


class Refund(BaseModel):
    refund_id: str


@dataclass
class Stock:
    """A dataclass that a run answers."""

    lamps: int


@tool(effect_class="irreversible", timeout="30s", summary="Refund {order_id}")
async def refund(order_id: str, amount: Decimal, context: ToolContext) -> Refund:
    """Refund an order."""
    context.log("refunded", order_id=order_id, amount=amount)
    await context.run("true", timeout_s=3, check=True)
    assert_type(context.root_run_id, UUID)
    context.log(context.labels.get("team", context.caller))
    return Refund(refund_id=f"{order_id}-{context.idempotency_key}")


@tool
def count(item: str) -> int:
    """Count what is in stock."""
    return len(item)


assert_type(count("lamps"), int)


class Shop:
    """Has a method that is a tool."""

    def find(self, order_id: str) -> str:
        """Find an order."""
        return order_id


def call_api(**arguments: str) -> dict[str, str]:
    """Call what a JSON Schema describes."""
    return arguments


find = tool(name="orders.find", effect_class="pure")(Shop().find)
assert_type(find("A-1"), str)
search = Tool.from_schema("orders.search", "Search.", {"type": "object"}, call_api, effect_class="pure", timeout=3)
TOOLS = [find, search, tool(partial(count, "lamp"))]

clerk = Agent("clerk", prompt="You are {agent_key}.", tools=[refund, "stock.count"], default=True, can_respond=True)
shop = Network("shop", [clerk], model="gemini:gemini-2.5-flash", max_steps=20, force_respond=True)
pair = Swarm("pair", [clerk], mode="team", max_parallel=2, max_steps=40)


async def main() -> None:
    """Submit and read."""
    async with Client() as client:
        view = await client.run(
            "shop", "hello", max_steps=3, labels={"team": "shop"}, deadline="30m", goal=Goal("g"), timeout=5
        )
        assert_type(view, RunView)
        typed = await client.run("shop", "hello", output_type=Refund)
        assert_type(typed.output, Refund | None)
        plain = await client.run("shop", "hello", output_type=Stock)
        assert_type(plain.output, Stock | None)
        assert_type(await client.result(view.run_id, timeout="5m", as_=Stock), Stock)
        assert_type(await client.result(view.run_id), RunView)
        assert_type(view.text, str)
        assert_type(await client.runs(status="failed", limit=10), RunPage)
        await client.audit.search(tool="stock.count", limit=5)
        await client.budgets.set("caller", "ann", tokens=1_000)
        async for entry in client.events(view.run_id):
            assert_type(entry.seq, int)
    assert_type(await run(shop, "hello", timeout="5m", model="scripted:task"), RunView)
    assert_type(await run("shop", "hello", output_type=Stock), TypedRun[Stock])
    assert_type(run_sync("shop", "hello", output_type=Refund).output, Refund | None)
    assert_type(run_sync("shop", "hello", timeout=3), RunView)
    try:
        run.sync(pair, "hello", server="http://127.0.0.1:8787", priority=3)
    except RefusedError as error:
        assert_type(error.remedy, str)
