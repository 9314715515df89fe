"""What became of every tool call of a run, told from its log: the proof that a cancelled run owes.

A call is listed as `did_not_happen` only where that is certain. What was cut off in the middle, or was still open
when the run ended, is `unknown`; a call that ran and said that it failed is `failed`, and may have left something. A
tool's own error code proves nothing. A voided pure call may have run: what did not happen is an effect, it has none.
"""

from collections.abc import Iterable
from uuid import UUID

from towpath_contracts.base import Value
from towpath_contracts.decisions.decision import CallTools, ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.runs.views import EffectOutcome, RunEffect

EFFECT_EVENTS = ("instruction_issued", "tool_call_finished", "tool_call_denied", "fence_stored", "run_finished")
"""The types of events that the list is made of; all others may be left out."""

TELLS_EFFECTS = (ev.FINAL_STATUSES - {"completed"}) | {"cancelling", "quarantined"}
"""Statuses of runs that owe the list."""

_NEVER_RAN = frozenset({"not_started", "did_not_happen"})
"""Failures that said so where no worker speaks, before `began` did: there the code is not a tool's."""


class NamedCall(Value):
    """A call of an instruction, without its arguments."""

    execution_id: UUID
    call_index: int
    tool: str


class EffectReport(Value):
    """What one event says of calls and nothing else of it: neither arguments nor results. None is what it does not say.

    A reader of many events may have it made where they are stored; `effect_report_of` makes the same of a whole event.
    """

    type: str
    step: int | None = None
    calls: tuple[NamedCall, ...] | None = None
    execution_id: UUID | None = None
    status: str | None = None
    code: str | None = None
    uncertain: bool | None = None
    began: bool | None = None
    probe: str | None = None
    settled_by: str | None = None
    worker: str | None = None
    voided: tuple[UUID, ...] | None = None


class EffectList:
    """Grows with the events of one run, in order, and keeps nothing of them but what became of the calls."""

    def __init__(self) -> None:
        self._listed: dict[UUID, RunEffect] = {}

    @property
    def effects(self) -> tuple[RunEffect, ...]:
        """The calls so far, in the order in which they were decided."""
        return tuple(self._listed.values())

    def add(self, word: EffectReport) -> None:
        """Take what the next event says."""
        match word:
            case EffectReport(type="instruction_issued"):
                for call in word.calls or ():
                    self._open(call, word.step or 0)
            case EffectReport(type="tool_call_finished", execution_id=UUID() as execution_id):
                self._say(execution_id, _outcome(word), _source(word))
            case EffectReport(type="tool_call_denied", execution_id=UUID() as execution_id):
                self._say(execution_id, "did_not_happen", "denied")
            case EffectReport(type="fence_stored"):
                for execution_id in word.voided or ():
                    self._say(execution_id, "did_not_happen", "void")
            case EffectReport(type="run_finished"):
                for effect in self.effects:
                    self._say(effect.execution_id, "unknown", "")
            case _:
                return

    def _open(self, call: NamedCall, step: int) -> None:
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
        word = effect_report_of(event)
        if word is not None:
            listed.add(word)
    return listed.effects


def effect_report_of(event: "ev.AnyEvent") -> EffectReport | None:
    """Return what *event* says of calls; None for nothing."""
    match event:
        case ev.InstructionIssued(instruction=CallTools(calls=calls)):
            return EffectReport(type=event.type, step=event.step, calls=tuple(map(_named, calls)))
        case ev.ToolCallFinished(failure=failure):
            return EffectReport(
                type=event.type,
                execution_id=event.execution_id,
                status=event.status,
                code=None if failure is None else failure.code,
                uncertain=None if failure is None else failure.uncertain,
                began=None if failure is None else failure.began,
                probe=event.probe,
                settled_by=event.settled_by,
                worker=event.worker,
            )
        case ev.ToolCallDenied():
            return EffectReport(type=event.type, execution_id=event.execution_id)
        case ev.FenceStored():
            return EffectReport(type=event.type, voided=event.voided)
        case ev.RunFinished():
            return EffectReport(type=event.type)
        case _:
            return None


def outcome_of(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> EffectOutcome:
    """Return what the end of a call proves."""
    word = effect_report_of(event)
    return "did_not_happen" if word is None or isinstance(event, ev.ToolCallDenied) else _outcome(word)


def _named(call: ToolCall) -> NamedCall:
    return NamedCall(execution_id=call.execution_id, call_index=call.call_index, tool=call.tool)


def _outcome(word: EffectReport) -> EffectOutcome:
    match word.status:
        case "succeeded":
            return "happened"
        case "void":
            return "did_not_happen"
        case "failed":
            return _of_failure(word)
        case _:
            return "unknown"


def _of_failure(word: EffectReport) -> EffectOutcome:
    if word.uncertain:
        return "unknown"
    never = word.code in _NEVER_RAN and not word.worker if word.began is None else not word.began
    return "did_not_happen" if never else "failed"


def _source(word: EffectReport) -> str:
    if word.settled_by:
        return word.settled_by
    return "probe" if word.probe in {"happened", "did_not_happen"} else word.worker or ""
