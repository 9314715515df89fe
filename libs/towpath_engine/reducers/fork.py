"""What a fork takes over from its parent: what was known, and nothing of what was asked or spent.

The fields are those of the state, written as JSON into the fork's own log. So the fork does not need its parent's log:
it folds and replays from its own record.
"""

from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import json_safe
from towpath_contracts.decisions.request import FullToolOutput, OlderOutput
from towpath_contracts.events import log as ev
from towpath_engine.state.epoch_turns import KeptEpochTurns
from towpath_engine.state.goal import GoalState
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.operator_notes import OperatorNotes
from towpath_engine.state.plan import HandoffState, PlanRunState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState, StepChild
from towpath_engine.state.workspace import RunWorkspace


@dataclass(frozen=True, kw_only=True)
class ForkInheritedState:
    """The part of a run's state that a fork of it takes over; the fields are those of RunState."""

    agent_key: str
    epoch: int
    step: int
    requests: int
    outputs: tuple[FullToolOutput, ...] = ()
    output_bytes: int = 0
    older: tuple[OlderOutput, ...] = ()
    older_count: int = 0
    log_tail: tuple[JsonObject, ...] = ()
    input_preview: str = ""
    feedback: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    handoff: str | None = None
    handoff_from: str | None = None
    tool_errors: int = 0
    cursors: dict[str, int] = field(default_factory=dict)
    detectors: LoopCounters = field(default_factory=LoopCounters)
    last_output: Any = None
    desk: RunWorkspace | None = None
    goal: GoalState | None = None
    swarm: HandoffState | None = None
    operator_notes: OperatorNotes | None = None
    composition: PlanRunState | None = None
    children: tuple[StepChild, ...] | None = None
    earlier_summary: str | None = None
    epoch_turns: KeptEpochTurns | None = None


_LATER = ("desk", "goal", "swarm", "operator_notes", "composition", "children", "earlier_summary", "epoch_turns")
"""Left out where a run has none: its forks are written as they always were."""

_NAMES = tuple(f.name for f in fields(ForkInheritedState))


@cache
def _adapter() -> TypeAdapter[ForkInheritedState]:
    return TypeAdapter(ForkInheritedState)  # built at the first use: few processes see a fork


def inherited_of(state: RunState, *, new_script: bool) -> JsonObject:
    """Return what a fork takes over from *state*; a *new_script* is played from its beginning."""
    taken = ForkInheritedState(**{name: getattr(state, name) for name in _NAMES})
    unread = OperatorNotes(notes=state.operator_notes.notes) if state.operator_notes.notes else None
    # Of children only those of the plan step before, which have ended: a stage is asked what they answered.
    taken = replace(taken, operator_notes=unread, children=state.children if state.composition is not None else None)
    if new_script:
        taken = replace(taken, cursors={})
    dumped: JsonObject = json_safe(_adapter().dump_python(taken, mode="json"))
    return {name: value for name, value in dumped.items() if name not in _LATER or value is not None}


def apply_run_forked(state: RunState, event: ev.RunForked, _at: datetime) -> RunState:
    """Return *state* with what the fork inherits. Raises pydantic's ValidationError for what is no state."""
    taken = _adapter().validate_python(event.inherited)
    known = {name: getattr(taken, name) for name in _NAMES}
    return replace(state, **{name: value for name, value in known.items() if name not in _LATER or value is not None})
