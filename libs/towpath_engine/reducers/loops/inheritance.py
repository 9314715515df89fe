"""What a child run takes over of its parent's loop counters.

A loop does not end because a child run goes on with it. The counts of the parent's own steps and handoffs stay with the
parent.
"""

from functools import cache

from pydantic import TypeAdapter

from towpath_contracts.base import JsonObject
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.replace import replace

_NONE = LoopCounters()


@cache
def _adapter() -> TypeAdapter[LoopCounters]:
    return TypeAdapter(LoopCounters)  # built at the first use: few processes see a child


def counters_for_child(detectors: LoopCounters) -> JsonObject | None:
    """Return what a child begins with, for its first event; None where nothing was counted yet."""
    given = replace(
        detectors,
        error_step=0,
        error_before=_NONE.error_before,
        denied_again=False,
        cycle=(),
        handoffs=(),
        handoff_count=0,
        handoff_told=0,
        polls=0,
        replan=False,
    )
    counted: JsonObject = _adapter().dump_python(given, mode="json", exclude_defaults=True)
    return counted or None


def inherited_detectors(given: JsonObject | None) -> LoopCounters:
    """Return the counters of a run whose first event holds *given*. Raises pydantic's ValidationError."""
    return _NONE if given is None else _adapter().validate_python(given)
