"""Outcomes of tool calls: results, denials, doubts, and what closes the gates before them.

An outcome is accepted only for a call of the current step that has none yet; whatever comes later, or twice, or
for another call, changes nothing. When every call of a decision is finished the run goes on, whatever the order was.
"""

from towpath_contracts import facts
from towpath_contracts.canonical import json_safe
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolFailure
from towpath_engine.handlers.calls.call_order import next_turn
from towpath_engine.handlers.cancel import finish_if_quiet
from towpath_engine.handlers.gates import (
    UNKNOWN_EFFECT,
    ask_again,
    close_gate,
    close_settled,
    find_gate,
    note_edit,
    open_unknown_gate,
)
from towpath_engine.handlers.phases import after_act, join_calls
from towpath_engine.handlers.run_gates import expired, is_run_gate, settled
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.tool_result import ToolRefusedError
from towpath_engine.rules.workspace_tools import checked_changes, why_lost
from towpath_engine.state.run import OpenCall, OpenGate, Status
from towpath_engine.state.workspace import EMPTY


def on_tool_finished(t: TransitionBuilder, fact: facts.ToolFinished) -> None:
    """Take the outcome of a call; a doubt opens a gate instead, unless the run is being cancelled."""
    open_call = t.state.open_call(fact.execution_id)
    if open_call is None:
        return
    note_edit(t, fact)
    if fact.status == "unknown" and t.state.status is not Status.CANCELLING:
        open_unknown_gate(t, fact)
        return
    close_settled(t, fact)
    _take_changes(t, open_call, fact)
    t.emit(
        ev.ToolCallFinished(
            execution_id=fact.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=open_call.call.tool,
            status=fact.status,
            result=json_safe(fact.result),
            result_digest=fact.result_digest,
            result_bytes=fact.result_bytes,
            blob=fact.blob,
            failure=fact.failure,
            duration_ms=fact.duration_ms,
            worker=fact.worker,
            policy_version=fact.policy_version,
            probe=fact.probe,
            settled_by=fact.settled_by,
        )
    )
    after_call(t, open_call)


def _take_changes(t: TransitionBuilder, call: OpenCall, fact: facts.ToolFinished) -> None:
    """Take what a tool did to its scratch copy of the workspace, all of it or nothing; workers are not believed."""
    if fact.status != "succeeded" or not (fact.changes or fact.changes_lost):
        return
    scratch = t.state.snapshot.tools[call.call.tool].workspace == "scratch"
    try:
        if fact.changes_lost is not None:
            raise why_lost(fact.changes_lost)
        changes = checked_changes((t.state.desk or EMPTY).files, fact.changes, scratch=scratch)
    except ToolRefusedError as error:
        told = f"The files that {call.call.tool} changed were not taken: {error}."
        t.emit(ev.NoteAdded(step=t.state.step, text=told))
    else:
        t.emit(ev.WorkspaceChanged(step=t.state.step, execution_id=fact.execution_id, changes=changes))


def on_tool_denied(t: TransitionBuilder, fact: facts.ToolDenied) -> None:
    """Take a denial: a typed result for the model; it ends nothing and changes no agent."""
    open_call = t.state.open_call(fact.execution_id)
    if open_call is None:
        return
    close_gate(t, fact.execution_id, "settled", "the call was denied")
    t.emit(
        ev.ToolCallDenied(
            execution_id=fact.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=open_call.call.tool,
            denial=fact.denial,
            policy_version=fact.policy_version,
        )
    )
    after_call(t, open_call)


def on_gate_resolved(t: TransitionBuilder, fact: facts.GateResolved) -> None:
    """Close the gate that a person settled, and ask what becomes of its call."""
    gate = find_gate(t.state, fact)
    if gate is None:
        return
    if is_run_gate(gate):
        if settled(t, gate, fact):
            after_act(t)
        return
    t.emit(ev.GateClosed(gate_id=gate.gate_id, verdict=fact.verdict, reason=fact.reason, by=fact.by))
    _after_gate(t, gate, expired=fact.verdict == "expired")


def expire_gates(t: TransitionBuilder) -> None:
    """Close the gates that nobody settled in time."""
    for gate in t.state.gates:
        if gate.expires_at > t.now or gate not in t.state.gates:
            continue  # the first gate of a run that nobody settles ends it, and closes the others
        if is_run_gate(gate):
            expired(t, gate)
        else:
            t.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="expired", reason="nobody decided in time"))
            _after_gate(t, gate, expired=True)


def _after_gate(t: TransitionBuilder, gate: OpenGate, *, expired: bool) -> None:
    """An approval's fate is the tool-access service's to tell; a doubt that nobody settled stays one."""
    open_call = t.state.open_call(gate.execution_id) if gate.execution_id else None
    if open_call is None or not expired or gate.gate_type != UNKNOWN_EFFECT:
        ask_again(t, gate)
        return
    tool = open_call.call.tool
    t.emit(
        ev.ToolCallFinished(
            execution_id=open_call.call.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=open_call.call.call_index,
            tool=tool,
            status="unknown",
            failure=ToolFailure(
                code="outcome_unknown",
                message=f"nobody knows whether {tool} happened, and no person said so in time",
                hint="Do not call it again without checking.",
            ),
        )
    )
    after_call(t, open_call)


def after_call(t: TransitionBuilder, ended: OpenCall) -> None:
    """Go on where the last call of the step is finished; else ask for the call that has waited for *ended*."""
    if t.state.status is Status.CANCELLING:
        finish_if_quiet(t)
    elif all(call.status for call in t.state.calls):
        join_calls(t)
    else:
        next_turn(t, ended)
