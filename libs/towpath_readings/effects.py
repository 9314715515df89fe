"""The outcome of every tool call of a run, read from its log: a cancelled run has to prove it.

A call is listed as `did_not_happen` only where that is certain. What was cut off in the middle, or was still open
when the run ended, is `unknown`; a call that ran and reported a failure is `failed`, and may have left something. A
tool's own error code proves nothing. A voided pure call may have run: what did not happen is an effect, it has none.
"""

from collections.abc import Iterable
from uuid import UUID

from towpath_contracts.base import MessagePart
from towpath_contracts.decisions.decision import CallToolsInstruction, ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import EffectOutcome, ToolCallOutcome

EFFECT_EVENTS = ("instruction_issued", "tool_call_finished", "tool_call_denied", "fence_stored", "run_finished")
"""The types of events that the list is made of; all others may be left out."""

TELLS_EFFECTS = (FINAL_STATUSES - {"completed"}) | {"cancelling", "quarantined"}
"""Statuses of runs that show the list."""

_NEVER_RAN = frozenset({"not_started", "did_not_happen"})
"""Codes of calls that never ran, in logs older than `began`; without a worker the code is not a tool's."""


class ToolCallIdentity(MessagePart):
    """A call of an instruction, without its arguments."""

    execution_id: UUID
    call_index: int
    tool: str


class EventOutcomeFields(MessagePart):
    """What one event reports of the outcome of calls, and nothing else of it: neither arguments nor results.

    A reader of many events may have it made where they are stored; `outcome_fields_of` makes the same of a whole event.
    """

    type: str
    step: int | None = None
    calls: tuple[ToolCallIdentity, ...] | None = None
    execution_id: UUID | None = None
    status: str | None = None
    code: str | None = None
    uncertain: bool | None = None
    began: bool | None = None
    probe: str | None = None
    settled_by: str | None = None
    worker: str | None = None
    voided: tuple[UUID, ...] | None = None


class CallOutcomeCollector:
    """Collects what became of each call from the events of one run, in order, and keeps nothing else of them."""

    def __init__(self) -> None:
        self._listed: dict[UUID, ToolCallOutcome] = {}

    @property
    def effects(self) -> tuple[ToolCallOutcome, ...]:
        """The calls so far, in the order in which they were decided."""
        return tuple(self._listed.values())

    def add(self, excerpt: EventOutcomeFields) -> None:
        """Apply the excerpt of the next event."""
        match excerpt:
            case EventOutcomeFields(type="instruction_issued"):
                for call in excerpt.calls or ():
                    self._open(call, excerpt.step or 0)
            case EventOutcomeFields(type="tool_call_finished", execution_id=UUID() as execution_id):
                self._set_outcome(execution_id, _outcome(excerpt), _source(excerpt))
            case EventOutcomeFields(type="tool_call_denied", execution_id=UUID() as execution_id):
                self._set_outcome(execution_id, "did_not_happen", "denied")
            case EventOutcomeFields(type="fence_stored"):
                for execution_id in excerpt.voided or ():
                    self._set_outcome(execution_id, "did_not_happen", "void")
            case EventOutcomeFields(type="run_finished"):
                for effect in self.effects:
                    self._set_outcome(effect.execution_id, "unknown", "")
            case _:
                return

    def _open(self, call: ToolCallIdentity, step: int) -> None:
        self._listed[call.execution_id] = ToolCallOutcome(
            execution_id=call.execution_id, tool=call.tool, step=step, call_index=call.call_index, outcome="open"
        )

    def _set_outcome(self, execution_id: UUID, outcome: EffectOutcome, source: str) -> None:
        """Record an outcome: the first one stands, except the `unknown` of a run that ended before the outcome came."""
        effect = self._listed.get(execution_id)
        if effect is not None and (effect.outcome == "open" or (effect.outcome == "unknown" and not effect.source)):
            self._listed[execution_id] = effect.model_copy(update={"outcome": outcome, "source": source})


def effects_of(events: Iterable["ev.AnyEvent"]) -> tuple[ToolCallOutcome, ...]:
    """Return the outcomes of the calls, from the events of one run in order."""
    listed = CallOutcomeCollector()
    for event in events:
        excerpt = outcome_fields_of(event)
        if excerpt is not None:
            listed.add(excerpt)
    return listed.effects


def outcome_fields_of(event: "ev.AnyEvent") -> EventOutcomeFields | None:
    """Return what *event* reports of calls; None for nothing."""
    match event:
        case ev.InstructionIssued(instruction=CallToolsInstruction(calls=calls)):
            return EventOutcomeFields(type=event.type, step=event.step, calls=tuple(map(_named, calls)))
        case ev.ToolCallFinished(failure=failure):
            return EventOutcomeFields(
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
            return EventOutcomeFields(type=event.type, execution_id=event.execution_id)
        case ev.FenceStored():
            return EventOutcomeFields(type=event.type, voided=event.voided)
        case ev.RunFinished():
            return EventOutcomeFields(type=event.type)
        case _:
            return None


def outcome_of(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> EffectOutcome:
    """Return what the end of a call proves."""
    excerpt = outcome_fields_of(event)
    return "did_not_happen" if excerpt is None or isinstance(event, ev.ToolCallDenied) else _outcome(excerpt)


def _named(call: ToolCall) -> ToolCallIdentity:
    return ToolCallIdentity(execution_id=call.execution_id, call_index=call.call_index, tool=call.tool)


def _outcome(excerpt: EventOutcomeFields) -> EffectOutcome:
    match excerpt.status:
        case "succeeded":
            return "happened"
        case "void":
            return "did_not_happen"
        case "failed":
            return _of_failure(excerpt)
        case _:
            return "unknown"


def _of_failure(excerpt: EventOutcomeFields) -> EffectOutcome:
    if excerpt.uncertain:
        return "unknown"
    never = excerpt.code in _NEVER_RAN and not excerpt.worker if excerpt.began is None else not excerpt.began
    return "did_not_happen" if never else "failed"


def _source(excerpt: EventOutcomeFields) -> str:
    if excerpt.settled_by:
        return excerpt.settled_by
    return "probe" if excerpt.probe in {"happened", "did_not_happen"} else excerpt.worker or ""
