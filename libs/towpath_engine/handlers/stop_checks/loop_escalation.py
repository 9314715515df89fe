"""Acts on the loops that `loop_finders` finds: a note to the model, a new plan, a gate, or the end of the run.

One loop is acted upon at a time, and each has one gate. What is done, the first time and each time the loop goes on, is
a table. Every escalation ends: with a person, with the end of the run, or with a note to the model where a detector is
not certain enough to end anything.
"""

from typing import Literal

from towpath_contracts.decisions.decision import PLAIN_KINDS
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import Autonomy
from towpath_contracts.text import truncate
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.stop_checks.loop_finders import DetectedLoop, find_loop
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loops.counters import LOOP_DETECTED
from towpath_engine.reducers.loops.signatures import REFUSED
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.run import RunState, Status

LoopAction = Literal["nudge", "replan", "gate", "stop"]
"""A note to the model; a note and the request for another plan; a person decides; the run ends."""

NUDGE_ONLY = frozenset({"results"})
"""Detectors whose evidence is uncertain: a network run gets their note and is never ended by them.

Equal results may be right (the licence text of several packages), so they are no reason to end a run. The runs that may
be planned anew or have a person to ask go through their whole ladder.
"""

GOAL = "goal"

CAUSE_CHARS = 1_000
"""Of the refusal that a loop is told with: enough for every mistake that a check names."""


def stop_on_loop(run: TransitionBuilder) -> bool:
    """Act on a loop that was found; return whether the run ended, or waits for a person."""
    loop = find_loop(run.state.detectors)
    if loop is None:
        return False
    taken = record_loop(run, loop)
    if taken in ("nudge", "replan"):
        run.emit(ev.NoteAdded(step=run.state.step, text=loop.told))
        return False
    return enforce(run, loop, taken)


def record_loop(run: TransitionBuilder, loop: DetectedLoop) -> LoopAction:
    """Record *loop* in the log, and return what to do about it."""
    task, snapshot = run.state.created, run.state.snapshot
    gated = snapshot.on_loop == "gate"
    taken = next_action(loop, run.state.detectors, task.kind, task.goal_settings.autonomy, gated=gated)
    run.emit(ev.LoopDetected(detector=loop.detector, signature=loop.signature, count=loop.count, action=taken))
    return taken


def enforce(run: TransitionBuilder, loop: DetectedLoop, taken: LoopAction) -> bool:
    """End the run or ask a person, where *taken* says so; return whether it does."""
    if taken == "stop":
        finish(run, Status.FAILED, LOOP_DETECTED, _why(run.state, loop))
    elif taken == "gate":
        told = {"detector": loop.detector, "signature": loop.signature, "count": loop.count, "told": loop.told}
        open_run_gate(run, LOOP_DETECTED, f"loop:{loop.key}", _why(run.state, loop), told)
    return taken in ("stop", "gate")


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
        return ("nudge",) if detector in NUDGE_ONLY else ("nudge", "stop")
    if autonomy == "low":
        return ("gate",)
    if autonomy == "high":
        return ("nudge", "replan", "stop")
    # A failed step of a goal run was planned anew already, at each of its attempts: now a person is asked.
    return ("gate",) if kind == GOAL and detector == "errors" else ("nudge", "replan", "gate")


def _why(state: RunState, loop: DetectedLoop) -> str:
    """Say what the loop is; of decisions that were refused, the last refusal too, since that is its cause."""
    if not loop.signature.startswith(REFUSED) or not state.feedback:
        return loop.why
    code = loop.signature.removeprefix(REFUSED).partition(":")[0]
    return f"the same refusal again and again; the last one was {code}: {truncate(state.feedback[-1], CAUSE_CHARS)}"
