"""The `history` context policy: what the agents of a handoff swarm wrote and did, in order.

A turn is added when it is over, so a call never appears without its result. The size is bounded by the run's
`context_limit`: the oldest turns are dropped first, and counted.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, truncate
from towpath_engine.reducers.routes import handoff_of
from towpath_engine.state.limits import json_bytes
from towpath_engine.state.output_shares import LEAST_SHOWN, cut_output, shown_values
from towpath_engine.state.plan import HandoffState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState, StepCall
from towpath_readings.execution_log import RESPONSE_CHARS

THOUGHT_CHARS = 1_000
"""Of the reasoning of one decision."""

CUT = "cut"
"""Marks a result of which a part is shown."""

RESULT_SHARE = 4
"""A result has at most this part of the room of the whole conversation."""


def update_conversation(before: RunState, after: RunState, held: HandoffState, event: ev.AnyEvent) -> HandoffState:
    """Return what the run remembers of its conversation after *event*."""
    if handoff_of(after) is None:
        return held
    match event:
        case ev.DecisionReceived():
            reasoning = event.decision.get("action_reasoning")
            return replace(held, thought=truncate(reasoning, THOUGHT_CHARS) if isinstance(reasoning, str) else "")
        case ev.SwarmHandoffRequested():
            turn = {**_turn_of(after, held), "said": event.said, "handed_over_to": event.target}
            return _remembered(after, replace(held, thought=""), turn)
        case ev.ToolCallFinished() | ev.ToolCallDenied():
            if all(call.status for call in before.calls) or not all(call.status for call in after.calls):
                return held
            return _remembered(after, replace(held, thought=""), {**_turn_of(after, held), "calls": _calls(after)})
        case _:
            return held


def _turn_of(state: RunState, held: HandoffState) -> JsonObject:
    turn: JsonObject = {"agent": state.agent_key, "step": state.step, "epoch": state.epoch}
    return {**turn, "reasoning": held.thought} if held.thought else turn


def _calls(state: RunState) -> list[JsonObject]:
    most = max(LEAST_SHOWN, state.created.context_limit // RESULT_SHARE)
    return [
        {
            "tool": call.call.tool,
            "arguments": call.shown_args(),
            "status": call.status,
            **_result(state, call, most),
        }
        for call in state.calls
    ]


def _result(state: RunState, call: StepCall, most: int) -> JsonObject:
    """Return what is shown of a result. What its step could show of it is the most that there is."""
    output = next((one for one in state.outputs if one.execution_id == call.call.execution_id), None)
    if output is not None:
        output = cut_output(output, most)
        return {"result": output.text} if output.cut is None else {"result": output.text, CUT: True}
    text = as_text(call.result)
    shown = as_text(shown_values([(call.call.execution_id, text)], most)[0])
    return {"result": shown} if shown == text else {"result": shown, CUT: True}


def _remembered(state: RunState, held: HandoffState, turn: JsonObject) -> HandoffState:
    limit = state.created.context_limit
    size = json_bytes(turn)
    if size > limit:
        turn = _shortened(turn)
        size = json_bytes(turn)
    turns, sizes = [*held.turns, turn], [*held.sizes, size]
    # Where prompts are only added to, half of the room is emptied at once.
    left = limit if state.epoch_turns is None or sum(sizes) <= limit else limit // 2
    gone = 0
    while turns[gone:] and sum(sizes[gone:]) > (left if turns[gone + 1 :] else limit):
        gone += 1
    return replace(held, turns=tuple(turns[gone:]), sizes=tuple(sizes[gone:]), left_out=held.left_out + gone)


def _shortened(turn: JsonObject) -> JsonObject:
    """Return *turn* with what is long in it cut."""
    cut: JsonObject = {name: truncate(turn[name], RESPONSE_CHARS) for name in ("said", "reasoning") if name in turn}
    if "calls" not in turn:
        return {**turn, **cut}
    calls = [
        {
            **call,
            "arguments": truncate(as_text(call["arguments"]), RESPONSE_CHARS),
            "result": truncate(call["result"], RESPONSE_CHARS),
        }
        for call in turn["calls"]
    ]
    return {**turn, **cut, "calls": calls}


def conversation_section(state: RunState) -> JsonObject | None:
    """Return what the prompts of the acting agent show of the turns before its own; None where there are none."""
    held = state.swarm
    if held is None or (not held.turns and not held.left_out):
        return None
    turns = [{name: value for name, value in turn.items() if name != "epoch"} for turn in _before(state, held)]
    return {"conversation": {"turns": turns, "left_out": held.left_out}} if turns or held.left_out else None


def _before(state: RunState, held: HandoffState) -> list[JsonObject]:
    """What the acting agent did since it took over stands among its own outputs."""
    return [turn for turn in held.turns if turn["epoch"] < state.epoch]
