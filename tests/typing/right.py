"""A user's program in which a type checker finds nothing wrong."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import assert_type
from uuid import UUID

from pydantic import BaseModel

from towpath import (
    Agent,
    Budget,
    Client,
    Goal,
    LogEntry,
    Network,
    Policy,
    PolicyRule,
    RefusedError,
    RunAccepted,
    RunFinished,
    RunStreamAnswer,
    RunStreamDelta,
    RunStreamStatus,
    RunStreamToolCall,
    RunView,
    StreamEvent,
    SubmittedRun,
    Swarm,
    SyncClient,
    SyncSubmittedRun,
    SyncWaitingGate,
    Tool,
    ToolCallRecord,
    ToolContext,
    WaitingGate,
    hook,
    run,
    run_sync,
    submit,
    submit_sync,
    tool,
)
from towpath.hooks import HookEvent
from towpath.tasks.outputs import TypedRun
from towpath_contracts.runs.views import ActionDone, GateView, RunPage
from towpath_contracts.tools.access import AuditPage


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
teller = Agent("teller", prompt="Pay.", budget=Budget(usd=0.5, on_soft="gate"), can_respond=True)
large = PolicyRule(
    "refunds-over-100", agent="billing", tool="refund", effect="require_approval", when="args.amount > 100"
)
policy = Policy([large], profile="strict")
assert_type(policy.to_yaml(), str)
pair = Swarm("pair", [clerk], mode="team", max_parallel=2, max_steps=40)


@hook("run_finished")
def release(event: HookEvent) -> None:
    """Give back what was kept for a run."""
    assert_type(event.run_id, UUID | None)


def without_asyncio() -> None:
    """Do the same, and wait for each."""
    with SyncClient("http://127.0.0.1:8787", api_key="key") as client:
        submitted = client.submit("shop", "hello", labels={"team": "shop"})
        assert_type(submitted, SyncSubmittedRun)
        assert_type(submitted.result(timeout="5m", as_=Stock), Stock)
        assert_type(submitted.result(), RunView)
        for entry in submitted.events():
            assert_type(entry, LogEntry)
        for event in client.stream(submitted.run_id):
            if isinstance(event, SyncWaitingGate):
                assert_type(event.approve(reason="checked"), ActionDone)
        assert_type(client.run("shop", "hello", output_type=Refund).output, Refund | None)
        assert_type(client.get(submitted.run_id), RunView)
        assert_type(client.tool_calls(submitted.run_id), list[ToolCallRecord])
        assert_type(submitted.denied_calls(), list[ToolCallRecord])
        assert_type(client.gates.list(limit=3), tuple[GateView, ...])
        assert_type(client.audit.search(tool="stock.count"), AuditPage)
        assert_type(client.cancel(submitted.run_id, "enough"), ActionDone)
        for line in client.audit.export(every_project=True):
            assert_type(line, str)


async def show(event: StreamEvent) -> str:
    """Show what a run does."""
    match event:
        case RunStreamDelta(part="text", text=text) | RunStreamAnswer(text=text):
            assert_type(text, str)
            return text
        case RunStreamToolCall(tool=name, arguments=arguments):
            return f"{name} {arguments}"
        case WaitingGate():
            assert_type(await event.approve(reason="checked", edit={"amount": "50"}), ActionDone)
        case RunStreamStatus():
            return event.status
    return ""


def answer_in(entry: LogEntry) -> dict[str, object]:
    """Return the answer, where this entry is the end of a run."""
    match entry.event:
        case RunFinished(status="completed", final=answer):
            return answer
    return {}


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
        submitted = await client.submit("shop", "hello", priority=3, budget=Budget(tokens=5_000))
        assert_type(submitted, SubmittedRun)
        assert_type(await submitted.result(timeout="5m", as_=Stock), Stock)
        assert_type(await submitted.tool_calls("refund"), list[ToolCallRecord])
        assert_type(await submitted.cancel("enough"), ActionDone)
        async for one in submitted.events(after=3):
            assert_type(one, LogEntry)
        assert_type(await client.result(view.run_id, timeout="5m", as_=Stock), Stock)
        assert_type(await client.result(view.run_id), RunView)
        assert_type(view.text, str)
        assert_type(await client.runs(status="failed", limit=10), RunPage)
        await client.policy.apply(policy, note="refunds", dry_run=True)
        await client.policy.put_rule(large)
        await client.audit.search(tool="stock.count", limit=5)
        await client.budgets.set("caller", "ann", tokens=1_000)
        async for entry in client.events(view.run_id):
            assert_type(entry.seq, int)
    assert_type(await run(shop, "hello", timeout="5m", model="scripted:task"), RunView)
    assert_type(await run("shop", "hello", output_type=Stock), TypedRun[Stock])
    assert_type(run_sync("shop", "hello", output_type=Refund).output, Refund | None)
    assert_type(run_sync("shop", "hello", timeout=3), RunView)
    assert_type(await submit(shop, "hello", priority=3, caller="ann"), RunAccepted)
    assert_type(submit_sync("shop", "hello").run_id, UUID)
    try:
        run.sync(pair, "hello", server="http://127.0.0.1:8787", priority=3)
    except RefusedError as error:
        assert_type(error.remedy, str)
