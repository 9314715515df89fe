"""Keeps the turns of the acting agent's epoch, from which its prompts are made.

A prompt is to begin with the whole of the one before, so turns are added and nothing that was shown is changed. Where
the room is used up, half of it is emptied at once: a prompt then begins anew, once for many steps instead of in each.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.epoch_turns import EpochTurn
from towpath_contracts.events import log as ev
from towpath_contracts.text import truncate
from towpath_engine.state.epoch_turns import KeptEpochTurns
from towpath_engine.state.limits import json_bytes
from towpath_engine.state.replace import replace
from towpath_engine.state.run import ACTION_KINDS, RunState

MAX_TURNS = 400
"""Turns that are kept: short decisions would fill a prompt with the words around them."""

MAX_BYTES = 64 * 1024
"""The most room that the turns have: they are part of every request, which has to fit into one message."""

SHARE = 4
"""A decision has at most this part of the room of all turns, and so has what was handed over."""

LONG_TEXT = 400
"""Characters of a text within a decision that is too large; a second cut, where that is not enough, leaves fewer."""

SHORT_TEXT = 40


def update_epoch_turns(before: RunState, after: RunState, kept: KeptEpochTurns, event: ev.AnyEvent) -> KeptEpochTurns:
    """Return the turns after *event*."""
    match event:
        case ev.DecisionReceived() if before.asked in ACTION_KINDS:
            return _with_turn(before, kept, event)
        case ev.InstructionIssued(instruction=CallToolsInstruction() as instruction) if kept.turns:
            calls = tuple(call.execution_id for call in instruction.calls)
            last = kept.turns[-1].model_copy(update={"calls": calls})
            return replace(kept, turns=(*kept.turns[:-1], last))
        case ev.AgentTransferred() if after.epoch != before.epoch:
            return KeptEpochTurns(log=after.log_tail)
        case _:
            return kept


def _with_turn(before: RunState, kept: KeptEpochTurns, event: ev.DecisionReceived) -> KeptEpochTurns:
    """Add what was asked and decided; the request's feedback, notes and handover end with its answer."""
    room = min(before.created.context_limit, MAX_BYTES)
    decision, size = fitted_decision(event.decision, room // SHARE)
    handoff = None if before.handoff is None else _cut(before.handoff, max(SHORT_TEXT, room // SHARE))
    notes = (*before.notes, *before.operator_notes.shown(before.requests))
    turn = EpochTurn.model_construct(
        step=event.step,
        steps_left=max(0, before.created.max_steps - before.step + 1),
        decision=decision,
        calls=(),
        handoff=handoff,
        handoff_from=before.handoff_from,
        feedback=before.feedback,
        notes=notes,
    )
    told = (handoff or "", *before.feedback, *notes)
    turns = (*kept.turns, turn)
    sizes = (*kept.sizes, size + sum(len(text.encode("utf-8", "surrogatepass")) for text in told))
    gone = _to_go(sizes, room)
    return replace(kept, turns=turns[gone:], sizes=sizes[gone:], left_out=kept.left_out + gone)


def _to_go(sizes: tuple[int, ...], limit: int) -> int:
    """Return how many of the oldest turns have to go: none while there is room, else half of it is emptied."""
    if len(sizes) <= MAX_TURNS and sum(sizes) <= limit:
        return 0
    gone = max(0, len(sizes) - MAX_TURNS // 2)
    left = sum(sizes[gone:])
    while gone < len(sizes) - 1 and left > limit // 2:
        left -= sizes[gone]
        gone += 1
    return gone


def fitted_decision(decision: JsonObject, most: int) -> tuple[JsonObject, int]:
    """Return *decision* and its bytes; one above *most* has its long texts cut, or nothing but its action."""
    size = json_bytes(decision)
    if size <= most:
        return decision, size
    for chars in (LONG_TEXT, SHORT_TEXT):
        cut = _shortened(decision, chars)
        if (size := json_bytes(cut)) <= most:
            return cut, size
    bare: JsonObject = {"action": truncate(str(decision.get("action", "")), SHORT_TEXT)}
    return bare, json_bytes(bare)


def _cut(text: str, chars: int) -> str:
    left = len(text) - chars
    return text if left <= 0 else f"{text[:chars]}… ({left} more characters)"


def _shortened(value: Any, chars: int) -> Any:
    if isinstance(value, str):
        return _cut(value, chars)
    if isinstance(value, dict):
        return {name: _shortened(one, chars) for name, one in value.items()}
    if isinstance(value, list):
        return [_shortened(one, chars) for one in value]
    return value
