"""What a child run takes over of its parent's loop counters, field by field."""

from dataclasses import fields
from typing import Any

from towpath_engine.reducers.loops.inheritance import counters_for_child, inherited_detectors
from towpath_engine.state.loop_counters import LoopCounters

INHERITED: dict[str, Any] = {
    "call_signature": "c",
    "call_count": 2,
    "error_signature": "e",
    "error_count": 2,
    "error_told": 1,
    "denied_calls": ("d",),
    "nudged": ("errors:e",),
    "window": ("c:a", "c:b"),
    "result_signature": "r",
    "result_count": 2,
}
"""What a loop would otherwise begin anew with; the child may go on with it."""

DROPPED: dict[str, Any] = {
    "error_step": 4,
    "error_before": ("e", 1),
    "denied_again": True,
    "cycle": ("c:a", "c:b"),
    "handoffs": ("r:a",),
    "handoff_count": 1,
    "handoff_told": 1,
    "polls": 3,
    "replan": True,
}
"""What belongs to the parent's own steps, handoffs and waiting."""


def test_every_counter_is_listed_as_taken_over_by_a_child_or_as_dropped() -> None:
    names = [field.name for field in fields(LoopCounters)]
    assert sorted([*INHERITED, *DROPPED]) == sorted(names), "list a new counter in one of the two"


def test_a_child_takes_over_what_is_listed_and_nothing_else() -> None:
    none = LoopCounters()
    counted = LoopCounters(**INHERITED, **DROPPED)
    assert all(getattr(counted, field.name) != getattr(none, field.name) for field in fields(LoopCounters))
    given = counters_for_child(counted)
    assert inherited_detectors(given) == LoopCounters(**INHERITED)
    assert set(given or {}) == set(INHERITED), "what is dropped is not written"
