"""Finds loops: a finder for each detector, asked at the begin of each step; `loop_of` looks at calls before they run.

A finder only reads the counters. `reducers.loops.counters` counts, and remembers what was done about a loop
(`after_loop`): a finder is silent until the loop has gone on since then. What is done is decided in `loop_escalation`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from towpath_contracts.decisions.decision import ToolCall
from towpath_engine.reducers.loops.counters import LOOP_THRESHOLD, MAX_HANDOFFS, would_loop
from towpath_engine.reducers.loops.signatures import call_signature
from towpath_engine.state.loop_counters import LoopCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedLoop:
    """A loop that a detector found. `told` is for the model, `why` for people."""

    detector: str
    signature: str
    count: int
    told: str
    why: str

    @property
    def key(self) -> str:
        """Identify the loop: each has one gate and one escalation."""
        return f"{self.detector}:{self.signature}"


def find_loop(detectors: LoopCounters) -> DetectedLoop | None:
    """Return the first loop that was found and not acted upon yet, in the fixed order of the detectors."""
    return next((loop for find in FINDERS if (loop := find(detectors)) is not None), None)


def loop_of(detectors: LoopCounters, calls: tuple[ToolCall, ...]) -> DetectedLoop | None:
    """Return the loop that running *calls* now would be, the detector `calls`; these calls are not run."""
    if not would_loop(detectors, calls):
        return None
    names = ", ".join(call.tool for call in calls)
    return DetectedLoop(
        detector="calls",
        signature=call_signature(calls),
        count=detectors.call_count + 1,
        told=f"{names} was just called {LOOP_THRESHOLD - 1} times with the same arguments. Do something else.",
        why=f"{names} was asked for again and again with the same arguments",
    )


def _find_errors(detectors: LoopCounters) -> DetectedLoop | None:
    count, signature = detectors.error_count, detectors.error_signature
    loop = DetectedLoop(
        detector="errors",
        signature=signature,
        count=count,
        told=f"The last {count} steps failed in the same way ({signature}). Do something else.",
        why=f"the same error again and again: {signature}",
    )
    if not signature or count < LOOP_THRESHOLD or count <= detectors.error_told:
        return None
    if loop.key not in detectors.nudged:
        return loop
    # Whoever makes a model try several forbidden things must not end its run: only asking for the same again does.
    other_denials = detectors.denied_calls and not detectors.denied_again
    return None if count == LOOP_THRESHOLD or other_denials else loop


def _find_cycle(detectors: LoopCounters) -> DetectedLoop | None:
    cycle = detectors.cycle
    if not cycle:
        return None
    length = len(cycle)
    first = cycle.index(min(cycle))  # the same circle has the same name, wherever it is entered
    return DetectedLoop(
        detector="cycle",
        signature="|".join((*cycle[first:], *cycle[:first])),
        count=length,
        told=f"The last steps went round in a circle of {length}, with the same results each time. Break out of it.",
        why=f"the same {length} steps again and again, with the same results",
    )


def _find_results(detectors: LoopCounters) -> DetectedLoop | None:
    count = detectors.result_count
    if count < LOOP_THRESHOLD:
        return None
    return DetectedLoop(
        detector="results",
        signature=detectors.result_signature,
        count=count,
        told=f"The last {count} results were the same although you asked for something else. Use what you have.",
        why="other arguments, and the same result again and again",
    )


def _find_handoffs(detectors: LoopCounters) -> DetectedLoop | None:
    handoffs, count = detectors.handoffs, detectors.handoff_count
    same = handoffs.count(handoffs[-1]) if handoffs else 0
    if count <= detectors.handoff_told or (same < LOOP_THRESHOLD and count <= MAX_HANDOFFS):
        return None
    return DetectedLoop(
        detector="handoffs",
        signature="ping-pong",
        count=count,
        told=f"The run was handed over {count} times and nobody did anything. Do it yourself, or answer.",
        why="handed from agent to agent, and nothing was done",
    )


FINDERS: tuple[Callable[[LoopCounters], DetectedLoop | None], ...] = (
    _find_errors,
    _find_cycle,
    _find_results,
    _find_handoffs,
)
"""In the order in which they are asked; the first loop is acted upon."""
