"""The calls of a run in its log: which ran, with the arguments that held in the end, and which were refused."""

from towpath import Agent, Network, Policy, PolicyRule, ToolError, tool
from towpath.testing import RunResult, execute_tools, harness, respond, script
from towpath_readings.tool_calls import recorded_calls, recorded_denials


@tool
def pay(amount: int) -> int:
    """Pay it."""
    if amount > 500:
        raise ToolError("too_much", f"{amount} is too much")
    return amount


@tool
def destroy(what: str) -> str:
    """Destroy it."""
    return what


async def ended() -> RunResult:
    desk = Network("desk", [Agent("clerk", prompt="Pay.", tools=[pay, destroy], default=True, can_respond=True)])
    policy = Policy(
        [
            PolicyRule("small", tool="pay", effect="allow", when="args.amount != 100"),
            PolicyRule("asked", tool="pay", effect="require_approval", when="args.amount == 100"),
            PolicyRule("never", tool="destroy", effect="deny"),
        ]
    )
    moves = [
        execute_tools([("pay", {"amount": 100}), ("pay", {"amount": 600}), ("destroy", {"what": "all"})]),
        respond("done"),
    ]
    async with harness(desk, policy=policy, tools=[pay, destroy], model=script(moves)) as h:
        run = await h.run("Pay")
        await (await h.next_gate()).approve("less will do", edit={"amount": 90})
        return await run.result()


async def test_calls_are_listed_by_what_became_of_them() -> None:
    events = (await ended()).events
    calls = {call.args["amount"]: call for call in recorded_calls(events)}
    assert sorted(calls) == [90, 600], "a person has changed the first"
    assert (calls[90].status, calls[90].result, calls[90].agent, calls[90].tool) == ("succeeded", 90, "clerk", "pay")
    assert (calls[600].status, calls[600].error) == ("failed", "too_much")
    (denied,) = recorded_denials(events)
    assert (denied.tool, denied.args, denied.status, denied.rule) == ("destroy", {"what": "all"}, "denied", "never")


async def test_calls_of_one_tool_alone_are_listed() -> None:
    result = await ended()
    assert len(recorded_calls(result.events, "pay")) == 2 and recorded_calls(result.events, "destroy") == []
    assert recorded_denials(result.events, "pay") == [] and len(recorded_denials(result.events, "destroy")) == 1
    assert result.tool_calls() == recorded_calls(result.events)
    assert result.denied_calls() == recorded_denials(result.events)
