"""Decides what follows when nobody settles a gate in time.

This covers the gates of calls and those of the run. The gate is closed as `expired`; what follows depends on it:

    gate of the run      the run ends, as escalated
    unknown outcome      the call stays unknown, and the model is told so
    approval             the call is requested again: the tool-access service denies it, or asks the policy admins
    held by a switch     the call is requested again; while it is still held no gate opens, and the run's time goes on

An expiry time is set where a gate is opened: in `handlers.run_gates`, `handlers.gates` (an approval's comes with the
fact, from the tool-access service) and `calls.switches`. The timer looks for gates whose time is over.
"""

from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolFailure
from towpath_engine.handlers.calls.call_order import after_call
from towpath_engine.handlers.gates import UNKNOWN_EFFECT, resend_call_of_gate
from towpath_engine.handlers.run_gates import expire_run_gate, is_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import OpenGate


def expire_gates(run: TransitionBuilder) -> None:
    """Close the gates that nobody settled in time."""
    for gate in run.state.gates:
        if gate.expires_at > run.now or gate not in run.state.gates:
            continue  # the first gate of a run that nobody settles ends it, and closes the others
        if is_run_gate(gate):
            expire_run_gate(run, gate)
        else:
            run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="expired", reason="nobody decided in time"))
            after_expiry(run, gate)


def after_expiry(run: TransitionBuilder, gate: OpenGate) -> None:
    """Do what follows for the call of an expired gate; the tool-access service may be first to say that it expired."""
    open_call = run.state.open_call(gate.execution_id) if gate.execution_id else None
    if open_call is None or gate.gate_type != UNKNOWN_EFFECT:
        resend_call_of_gate(run, gate)
        return
    tool = open_call.call.tool
    run.emit(
        ev.ToolCallFinished(
            **run.fields_of(open_call),
            status="unknown",
            failure=ToolFailure(
                code="outcome_unknown",
                message=f"nobody knows whether {tool} happened, and no person said so in time",
                hint="Do not call it again without checking.",
            ),
        )
    )
    after_call(run, open_call)
