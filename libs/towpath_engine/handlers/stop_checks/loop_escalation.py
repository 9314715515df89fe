"""Decides what is done about a loop, the first time and each time it goes on.

A pure table. Every escalation ends: with a person, with the end of the run, or with a note to the model where a
detector is not certain enough to end anything.
"""

from dataclasses import dataclass
from typing import Literal

from towpath_contracts.decisions.decision import PLAIN_KINDS
from towpath_contracts.networks.goal import Autonomy
from towpath_engine.reducers.loop_counters import LOOP_THRESHOLD, MAX_HANDOFFS
from towpath_engine.state.run import LoopCounters

LoopAction = Literal["nudge", "replan", "gate", "stop"]
"""A note to the model; a note and the request for another plan; a person decides; the run ends."""

LOOP_GATE = "loop_detected"
"""The type of the gate, and the reason of the end."""

GOAL = "goal"


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


def next_action(
    loop: DetectedLoop, detectors: LoopCounters, kind: str, autonomy: Autonomy, *, gated: bool = False
) -> LoopAction:
    """Return what is to be done about *loop* now; `detectors` know how often something was done about it before.

    *gated* is a network whose author wants a person asked where a run would be stopped.
    """
    steps = _ladder(loop.detector, kind, autonomy, gated=gated)
    return steps[min(detectors.nudged.count(loop.key), len(steps) - 1)]


def _ladder(detector: str, kind: str, autonomy: Autonomy, *, gated: bool) -> tuple[LoopAction, ...]:
    """Say who is asked: a low autonomy asks a person at once, a high one nobody."""
    if kind in PLAIN_KINDS:
        if gated:
            return ("nudge", "gate")
        return ("nudge",) if detector == "results" else ("nudge", "stop")
    if autonomy == "low":
        return ("gate",)
    if autonomy == "high":
        return ("nudge", "replan", "stop")
    # A failed step of a goal run was planned anew already, at each of its attempts: now a person is asked.
    return ("gate",) if kind == GOAL and detector == "errors" else ("nudge", "replan", "gate")


def find_loop(detectors: LoopCounters) -> DetectedLoop | None:
    """Return the first loop that was found and not acted upon yet, in the fixed order of the detectors."""
    return _errors(detectors) or _cycle(detectors) or _results(detectors) or _handoffs(detectors)


def loop_of_calls(detectors: LoopCounters, signature: str, names: str) -> DetectedLoop:
    """Return the loop of calls that were just asked for once more; these calls are not run."""
    return DetectedLoop(
        detector="calls",
        signature=signature,
        count=detectors.call_count + 1,
        told=f"{names} was just called {LOOP_THRESHOLD - 1} times with the same arguments. Do something else.",
        why=f"{names} was asked for again and again with the same arguments",
    )


def _errors(detectors: LoopCounters) -> DetectedLoop | None:
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
    return None if count == LOOP_THRESHOLD and loop.key in detectors.nudged else loop


def _cycle(detectors: LoopCounters) -> DetectedLoop | None:
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


def _results(detectors: LoopCounters) -> DetectedLoop | None:
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


def _handoffs(detectors: LoopCounters) -> DetectedLoop | None:
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
