"""A user's program in which a type checker finds each marked line wrong, and no other; `ty` those marked `any`."""

from dataclasses import dataclass

from towpath import (
    Agent,
    Budget,
    Client,
    Network,
    PolicyRule,
    RunStreamToolCall,
    StreamEvent,
    Swarm,
    SyncClient,
    Tool,
    ToolContext,
    WaitingGate,
    run,
    run_sync,
    submit_sync,
    tool,
)


@dataclass
class Shelf:
    """What a run answers."""

    lamps: int


@tool(risk="write")  # wrong for any
def first() -> None:
    """Do nothing."""


@tool(workspace="everything")  # wrong for any
def second() -> None:
    """Do nothing."""


@tool
def count(item: str) -> int:
    """Count what is in stock."""
    return len(item)


count(3)  # wrong for any
Tool.from_schema("n", "N.", "object", count)  # wrong for any
Tool.from_schema("n", "N.", {}, count, effect="pure")  # wrong
Agent("a", prompt="", tool=["count"])  # wrong for any
Agent("a", budget=3)  # wrong for any
Budget(steps=3)  # wrong for any
Budget(usd="much")  # wrong
PolicyRule("r", effect="ask")  # wrong for any
PolicyRule("r", effect="deny", agents="b")  # wrong for any
Network("n", [], max_stepz=3)  # wrong
Network("n", [], max_steps="many")  # wrong for any
Swarm("s", [], mode="anarchy")  # wrong for any
Swarm("s", [], max_handoff=3)  # wrong


async def main() -> None:
    """Submit and read, with slips."""
    async with Client() as client:
        await client.submit("n", "hello", modle="x")  # wrong
        assert (await client.submit("n", "hello")).runid  # wrong for any
        await client.submit("n", "hello", max_steps="three")  # wrong for any
        await client.run("n", "hello", labels=["team"])  # wrong for any
        view = await client.run("n", "hello")
        assert view.statuss  # wrong for any
        assert (await client.result(view.run_id, as_=Shelf)).lamp  # wrong for any
        await client.result(view.run_id, as_type=Shelf)  # wrong for any
        assert view.txt  # wrong for any
        await client.runs(state="failed")  # wrong
        await client.audit.search(tools="x")  # wrong
        await client.budgets.set("person", "ann", tokens=1)  # wrong for any
        async for entry in client.events(view.run_id):
            assert entry.sequence  # wrong for any
    await run("n", "hello", timout=3)  # wrong
    run.sync("n", "hello", max_step=3)  # wrong
    run_sync("n", "hello", max_step=3)  # wrong
    assert run_sync("n", "hello").statuss  # wrong for any
    assert submit_sync("n", "hello").result  # wrong for any
    submit_sync("n", "hello", max_step=3)  # wrong


def without_asyncio() -> None:
    """Do the same without asyncio, with slips."""
    with SyncClient() as client:
        assert client.submit("n", "hello").result(as_=Shelf).lamp  # wrong for any
        client.gates.approve("id", because="x")  # wrong for any
        assert client.get("id").statuss  # wrong for any
        for event in client.events("id"):
            assert event.sequence  # wrong for any


async def show(event: StreamEvent) -> None:
    """Show what a run does, with slips."""
    match event:
        case RunStreamToolCall():
            assert event.args  # wrong for any
        case WaitingGate():
            await event.approve(edit="50")  # wrong for any
    assert event.tool_name  # wrong for any


async def start(context: ToolContext) -> None:
    """Start a program, with a slip."""
    await context.run("true", timeout=3)  # wrong
