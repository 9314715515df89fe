"""Applies what people said to a run from outside, and remembers which of their acts were taken."""

from datetime import datetime
from uuid import UUID

from towpath_contracts.events import log as ev
from towpath_contracts.text import truncate
from towpath_engine.state.replace import replace
from towpath_engine.state.run import LOG_TAIL, RunState
from towpath_readings.execution_log import REASONING_CHARS, note_text


def with_act(state: RunState, act_id: object) -> RunState:
    """Return the state that remembers the act of *act_id*; an event of the machine's own has none."""
    if not isinstance(act_id, str | UUID):
        return state
    return replace(state, operator_notes=state.operator_notes.with_act(UUID(str(act_id))))


def apply_note_given(state: RunState, event: ev.NoteGiven, _at: datetime) -> RunState:
    """Keep the note for the next request; one that is on its way was made without it."""
    entry = {"type": "system", "step": event.step, "text": truncate(note_text(event), REASONING_CHARS)}
    noted = state.operator_notes.with_note(note_text(event), state.requests)
    tail = (*state.log_tail, entry)[-LOG_TAIL:]
    return with_act(replace(state, operator_notes=noted, log_tail=tail), event.act_id)


def apply_confidence_requested(state: RunState, event: ev.ConfidenceRequested, _at: datetime) -> RunState:
    """Remember the act; `update_goal` does the rest."""
    return with_act(state, event.act_id)
