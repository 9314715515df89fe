"""Loops: what is done about one that the detectors found.

One loop at a time, in the fixed order of the detectors, and one gate for each. What the detectors count is in
`detectors`; here the ladder is climbed.
"""

from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.text import truncate
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.stop_checks.loop_escalation import LOOP_GATE, Loop, Rung, found, loop_of_calls, rung
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loop_counters import would_loop
from towpath_engine.reducers.loop_signatures import REFUSED, call_signature
from towpath_engine.state.run import RunState, Status

CAUSE_CHARS = 1_000
"""Of the refusal that a loop is told with: enough for every mistake that a check names."""


def loop_of(state: RunState, calls: tuple[ToolCall, ...]) -> Loop | None:
    """Return the loop that running *calls* now would be."""
    if not would_loop(state.detectors, calls):
        return None
    return loop_of_calls(state.detectors, call_signature(calls), ", ".join(call.tool for call in calls))


def stop_on_loop(t: TransitionBuilder) -> bool:
    """Do what the ladder says about a loop that was found; says whether the run ended, or waits for a person."""
    loop = found(t.state.detectors)
    if loop is None:
        return False
    taken = climb(t, loop)
    if taken in ("nudge", "replan"):
        t.emit(ev.NoteAdded(step=t.state.step, text=loop.told))
        return False
    return enforced(t, loop, taken)


def climb(t: TransitionBuilder, loop: Loop) -> Rung:
    """Report *loop* in the log, and return what is to be done about it."""
    task, snapshot = t.state.created, t.state.snapshot
    gated = snapshot.on_loop == "gate"
    taken = rung(loop, t.state.detectors, task.kind, task.goal_settings.autonomy, gated=gated)
    t.emit(ev.LoopDetected(detector=loop.detector, signature=loop.signature, count=loop.count, action=taken))
    return taken


def enforced(t: TransitionBuilder, loop: Loop, taken: Rung) -> bool:
    """End the run, or ask a person how it goes on; says whether either was to be done."""
    if taken == "stop":
        finish(t, Status.FAILED, LOOP_GATE, _why(t.state, loop))
    elif taken == "gate":
        told = {"detector": loop.detector, "signature": loop.signature, "count": loop.count, "told": loop.told}
        open_run_gate(t, LOOP_GATE, f"loop:{loop.key}", _why(t.state, loop), told)
    return taken in ("stop", "gate")


def _why(state: RunState, loop: Loop) -> str:
    """Say what the loop is; of decisions that were refused, the last refusal too, since that is its cause."""
    if not loop.signature.startswith(REFUSED) or not state.feedback:
        return loop.why
    code = loop.signature.removeprefix(REFUSED).partition(":")[0]
    return f"the same refusal again and again; the last one was {code}: {truncate(state.feedback[-1], CAUSE_CHARS)}"
