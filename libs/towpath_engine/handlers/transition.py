"""Builds one transition: appends events and folds them as they come, and collects the effects to send.

The only way to change the state of a transition is to emit an event. So the state that handlers read while they decided
is exactly what folding the log gives later.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from towpath_contracts.events.log import AnyEvent, LogEntry
from towpath_engine.evolve import evolve
from towpath_engine.state.run import RunState, StepCall


class EndedCallFields(TypedDict):
    """What each event that ends a call says of the call."""

    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str


@dataclass(slots=True)
class TransitionBuilder:
    """The state while a fact is being folded, the events so far, and the effects to send now (by effect id)."""

    state: RunState
    now: datetime
    entries: list[LogEntry] = field(default_factory=list)
    effect_ids: dict[UUID, None] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def emit(self, event: AnyEvent) -> None:
        """Append *event* and fold it."""
        entry = LogEntry.model_construct(seq=self.state.seq + 1, at=self.now, event=event)
        self.entries.append(entry)
        self.state = evolve(self.state, entry)

    def store_text(self, digest: str, text: str) -> None:
        """Have a text stored that an event of this transition names, before it is committed."""
        self.stored[digest] = text

    def send_effect(self, effect_id: UUID) -> None:
        """Send this pending effect when the transition is committed."""
        self.effect_ids[effect_id] = None

    def fields_of(self, call: StepCall) -> EndedCallFields:
        """Return what an event that ends *call* says of it."""
        return EndedCallFields(
            execution_id=call.call.execution_id,
            step=self.state.step,
            epoch=self.state.epoch,
            agent_key=self.state.agent_key,
            call_index=call.call.call_index,
            tool=call.call.tool,
        )
