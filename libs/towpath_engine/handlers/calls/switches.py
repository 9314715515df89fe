"""Takes the report that a switch holds a call back: the run waits behind a gate that only the switch opens.

Each call has one gate per pause, however often the pause is reported. While only such gates are open, active time
stands still, and the call's deadline begins again when its gate closes: waiting for a switch costs a run nothing.
"""

from datetime import timedelta

from towpath_contracts import facts
from towpath_contracts.canonical import json_safe
from towpath_contracts.events import log as ev
from towpath_contracts.switches import PAUSED, paused_gate
from towpath_engine.handlers.gates import close_gate, gate_of
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import Status

LONGEST_PAUSE = timedelta(days=365)
"""A gate has an end; a run that waits for a switch longer than this goes on burning its own time."""


def on_call_paused(run: TransitionBuilder, fact: facts.CallPausedFact) -> None:
    """Open the gate of a call that is held back; another gate of the same call is over."""
    call = run.state.open_call(fact.execution_id)
    switch = fact.switch
    wanted = paused_gate(run.state.run_id, fact.execution_id, switch.switch_id)
    if call is None or run.state.status is Status.CANCELLING or wanted in call.closed_gates:
        return
    gate = gate_of(run.state, fact.execution_id)
    if gate is not None and gate.gate_id == wanted:
        return
    close_gate(run, fact.execution_id, "settled", "a switch holds the call now")
    run.emit(
        ev.GateOpened(
            gate_id=wanted,
            gate_type=PAUSED,
            execution_id=fact.execution_id,
            reason=switch.describe(),
            detail={
                "tool": call.call.tool,
                "args": json_safe(call.call.shown_args()),
                "agent": run.state.agent_key,
                "switch": switch.model_dump(mode="json"),
            },
            expires_at=run.now + LONGEST_PAUSE,
        )
    )
