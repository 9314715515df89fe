"""Takes what a person does to a run from outside: a pause, a gate, a note, a question how confident the model is.

Each act is taken once: its event names it. A pause and a gate hold the run: what is asked of a model is given up, and
asked anew once nobody holds the run any more; calls and child runs that are under way come to their end, and nothing
else begins.
"""

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import starts_child
from towpath_contracts.runs.run_control import MANUAL, MAX_HOLDS, RESUMED, RUN_PAUSED
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.run_gates import PAUSE_HOURS, RUN_GATE_HOURS, open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import PendingEffect, RunState, Status


def on_run_steered(run: TransitionBuilder, fact: facts.RunSteeredFact) -> None:
    """Take an act; one that was taken before changes nothing, nor does any once the run is stopping."""
    if run.state.status is Status.CANCELLING or run.state.operator_notes.has_taken(fact.act_id):
        return
    match fact.act:
        case "pause":
            told = {"pause": str(fact.pause_id or fact.act_id), "verdicts": [RESUMED]}
            _hold(run, fact, RUN_PAUSED, f"{fact.by} paused the run", told, PAUSE_HOURS)
        case "gate":
            _hold(run, fact, MANUAL, f"{fact.by} put a gate on the run", {}, RUN_GATE_HOURS)
        case "note":
            run.emit(ev.NoteGiven(step=run.state.step, text=fact.text, by=fact.by, act_id=fact.act_id))
        case "confidence" if run.state.goal is not None:
            told_by = {"by": fact.by, "reason": fact.text, "act_id": fact.act_id}
            run.emit(ev.ConfidenceRequested(step=run.state.step, **told_by))
        case _:
            return


def _hold(
    run: TransitionBuilder, fact: facts.RunSteeredFact, gate_type: str, what: str, told: JsonObject, hours: float
) -> None:
    """Open a gate that holds the run, unless so many of its kind do that one more changes nothing."""
    pauses = gate_type == RUN_PAUSED
    if sum(gate.holds and (gate.gate_type == RUN_PAUSED) == pauses for gate in run.state.gates) >= MAX_HOLDS:
        return
    reason = f"{what}: {fact.text}" if fact.text else what
    detail: JsonObject = {"by": fact.by, "act": str(fact.act_id), "holds": True, **told}
    if run.state.status is Status.QUEUED:
        detail["inherited"] = True  # as with a fork: there is no action yet whose phases are to be walked
    open_run_gate(run, gate_type, f"{gate_type}:{fact.act_id}", reason, detail, hours=hours)


def release(run: TransitionBuilder) -> None:
    """Ask for what was held back, once nobody holds the run any more."""
    if run.state.held or run.state.is_final:
        return
    gated = {gate.execution_id for gate in run.state.gates}
    for pending in run.state.pending:
        if pending.effect_id in gated or pending.effect_id in run.state.queued:
            continue
        if pending.withheld or _has_not_begun(run.state, pending):
            resend(run, pending)


def _has_not_begun(state: RunState, pending: PendingEffect) -> bool:
    """Return whether *pending* is a call that a child run is to answer, and none was started for it."""
    call = state.open_call(pending.effect_id)
    return call is not None and starts_child(call.call.tool) and pending.effect_id not in state.under_way
