"""Acts on the loops that the detectors found: a note to the model, a new plan, a gate, or the end of the run.

One loop is handled at a time, in the fixed order of the detectors, and each has one gate. The counting itself is in
`reducers.loop_counters`.
"""

from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.text import truncate
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.stop_checks.loop_escalation import (
    LOOP_GATE,
    DetectedLoop,
    LoopAction,
    find_loop,
    loop_of_calls,
    next_action,
)
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loop_counters import would_loop
from towpath_engine.reducers.loop_signatures import REFUSED, call_signature
from towpath_engine.state.run import RunState, Status

CAUSE_CHARS = 1_000
"""Of the refusal that a loop is told with: enough for every mistake that a check names."""


def loop_of(state: RunState, calls: tuple[ToolCall, ...]) -> DetectedLoop | None:
    """Return the loop that running *calls* now would be."""
    if not would_loop(state.detectors, calls):
        return None
    return loop_of_calls(state.detectors, call_signature(calls), ", ".join(call.tool for call in calls))


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
        finish(run, Status.FAILED, LOOP_GATE, _why(run.state, loop))
    elif taken == "gate":
        told = {"detector": loop.detector, "signature": loop.signature, "count": loop.count, "told": loop.told}
        open_run_gate(run, LOOP_GATE, f"loop:{loop.key}", _why(run.state, loop), told)
    return taken in ("stop", "gate")


def _why(state: RunState, loop: DetectedLoop) -> str:
    """Say what the loop is; of decisions that were refused, the last refusal too, since that is its cause."""
    if not loop.signature.startswith(REFUSED) or not state.feedback:
        return loop.why
    code = loop.signature.removeprefix(REFUSED).partition(":")[0]
    return f"the same refusal again and again; the last one was {code}: {truncate(state.feedback[-1], CAUSE_CHARS)}"
