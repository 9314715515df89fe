"""What became of every tool call of a run, told from its log: the proof that a cancelled run owes (design §7, cancel).

Law: a call is listed as `did_not_happen` only where that is certain. What was cut off in the middle, or was still open
when the run ended, is `unknown`; a call that ran and said that it failed is `failed`, and may have left something.
"""

from collections.abc import Iterable
from typing import Literal
from uuid import UUID

from towpath_contracts import events as ev
from towpath_contracts.base import Value
from towpath_contracts.decisions import CallTools, ToolCall
from towpath_contracts.tools import ToolFailure

EffectOutcome = Literal["happened", "did_not_happen", "failed", "unknown", "open"]
"""`open` is a call of a run that has not ended: asked for, and without an outcome yet."""

EFFECT_EVENTS = ("instruction_issued", "tool_call_finished", "tool_call_denied", "fence_stored", "run_finished")
"""The types of events that the list is made of; all others may be left out."""

_NEVER_RAN = frozenset({"not_started", "did_not_happen", "cancelled", "invalid_arguments"})
"""Failures that say that nothing was done, unless they are marked uncertain."""


class RunEffect(Value):
    """One call, in the order in which calls were decided. `source` says whose word it is: worker, probe or a person."""

    execution_id: UUID
    tool: str
    step: int
    call_index: int
    outcome: EffectOutcome
    source: str = ""


class EffectList:
    """Grows with the events of one run, in order, and keeps nothing of them but what became of the calls."""

    def __init__(self) -> None:
        self._listed: dict[UUID, RunEffect] = {}

    @property
    def effects(self) -> tuple[RunEffect, ...]:
        """The calls so far, in the order in which they were decided."""
        return tuple(self._listed.values())

    def add(self, event: "ev.AnyEvent") -> None:
        """Take the next event."""
        match event:
            case ev.InstructionIssued(instruction=CallTools(calls=calls)):
                for call in calls:
                    self._open(call, event.step)
            case ev.ToolCallFinished():
                self._say(event.execution_id, _outcome(event), _source(event))
            case ev.ToolCallDenied():
                self._say(event.execution_id, "did_not_happen", "denied")
            case ev.FenceStored():
                for execution_id in event.voided:
                    self._say(execution_id, "did_not_happen", "void")
            case ev.RunFinished():
                for effect in self.effects:
                    self._say(effect.execution_id, "unknown", "")
            case _:
                return

    def _open(self, call: ToolCall, step: int) -> None:
        self._listed[call.execution_id] = RunEffect(
            execution_id=call.execution_id, tool=call.tool, step=step, call_index=call.call_index, outcome="open"
        )

    def _say(self, execution_id: UUID, outcome: EffectOutcome, source: str) -> None:
        """Note an outcome: the first one stands, but for the `unknown` of a run that ended before it was heard."""
        effect = self._listed.get(execution_id)
        if effect is not None and (effect.outcome == "open" or (effect.outcome == "unknown" and not effect.source)):
            self._listed[execution_id] = effect.model_copy(update={"outcome": outcome, "source": source})


def effects_of(events: Iterable["ev.AnyEvent"]) -> tuple[RunEffect, ...]:
    """Return what became of the calls, from the events of one run in order."""
    listed = EffectList()
    for event in events:
        listed.add(event)
    return listed.effects


def _outcome(event: "ev.ToolCallFinished") -> EffectOutcome:
    match event.status:
        case "succeeded":
            return "happened"
        case "void":
            return "did_not_happen"
        case "unknown":
            return "unknown"
        case "failed":
            return _of_failure(event.failure)


def _of_failure(failure: ToolFailure | None) -> EffectOutcome:
    if failure is None:
        return "failed"
    if failure.uncertain:
        return "unknown"
    return "did_not_happen" if failure.code in _NEVER_RAN else "failed"


def _source(event: "ev.ToolCallFinished") -> str:
    if event.settled_by:
        return event.settled_by
    return "probe" if event.probe in {"happened", "did_not_happen"} else event.worker
