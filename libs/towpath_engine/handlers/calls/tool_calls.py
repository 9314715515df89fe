"""Takes outcomes of tool calls: results, denials, unknown outcomes, and the resolutions of their gates.

An outcome counts only for a call of the current step that has none yet. Whatever comes later, twice, or for another
call changes nothing. A gate that nobody settles in time is closed by `gate_expiry`.
"""

from towpath_contracts import facts
from towpath_contracts.canonical import json_safe
from towpath_contracts.events import log as ev
from towpath_engine.handlers.calls.call_order import after_call
from towpath_engine.handlers.calls.gate_expiry import after_expiry
from towpath_engine.handlers.gates import (
    close_gate,
    close_gate_of_settled_call,
    find_gate,
    open_unknown_gate,
    record_edit,
    resend_call_of_gate,
)
from towpath_engine.handlers.operator.acts import release
from towpath_engine.handlers.phases import after_act
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.run_gates import is_run_gate, settle_run_gate
from towpath_engine.handlers.steps import begin_step
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.tool_result import InternalToolError
from towpath_engine.rules.workspace_tools import checked_changes, why_lost
from towpath_engine.state.run import EffectKind, Status, StepCall
from towpath_engine.state.workspace import EMPTY_WORKSPACE


def on_tool_finished(run: TransitionBuilder, fact: facts.ToolFinishedFact) -> None:
    """Take the outcome of a call; an unknown one opens a gate instead, unless the run is being cancelled."""
    open_call = run.state.open_call(fact.execution_id)
    if open_call is None:
        return
    record_edit(run, fact)
    if fact.status == "unknown" and run.state.status is not Status.CANCELLING:
        open_unknown_gate(run, fact)
        return
    close_gate_of_settled_call(run, fact)
    _take_changes(run, open_call, fact)
    run.emit(
        ev.ToolCallFinished(
            **run.fields_of(open_call),
            status=fact.status,
            result=json_safe(fact.result),
            result_digest=fact.result_digest,
            result_bytes=fact.result_bytes,
            blob=fact.blob,
            preview=fact.preview,
            failure=fact.failure,
            duration_ms=fact.duration_ms,
            worker=fact.worker,
            policy_version=fact.policy_version,
            probe=fact.probe,
            settled_by=fact.settled_by,
        )
    )
    after_call(run, open_call)


def _take_changes(run: TransitionBuilder, call: StepCall, fact: facts.ToolFinishedFact) -> None:
    """Take what a tool changed in its scratch copy of the workspace, all or nothing, after checking it."""
    if fact.status != "succeeded" or not (fact.changes or fact.changes_lost):
        return
    scratch = run.state.snapshot.all_tools[call.call.tool].workspace == "scratch"
    try:
        if fact.changes_lost is not None:
            raise why_lost(fact.changes_lost)
        changes = checked_changes((run.state.desk or EMPTY_WORKSPACE).files, fact.changes, scratch=scratch)
    except InternalToolError as error:
        told = f"The files that {call.call.tool} changed were not taken: {error}."
        run.emit(ev.NoteAdded(step=run.state.step, text=told))
    else:
        run.emit(ev.WorkspaceChanged(step=run.state.step, execution_id=fact.execution_id, changes=changes))


def on_tool_denied(run: TransitionBuilder, fact: facts.ToolDeniedFact) -> None:
    """Take a denial: a typed result for the model; it ends nothing and changes no agent."""
    open_call = run.state.open_call(fact.execution_id)
    if open_call is None:
        return
    close_gate(run, fact.execution_id, "settled", "the call was denied")
    run.emit(
        ev.ToolCallDenied(
            **run.fields_of(open_call),
            denial=fact.denial,
            policy_version=fact.policy_version,
        )
    )
    after_call(run, open_call)


def on_call_postponed(run: TransitionBuilder, fact: facts.CallPostponedFact) -> None:
    """Request a call again once its project has room; only the newest request of a call that has no outcome counts.

    A run that is being cancelled asks on at once: what it asks for then is refused, and not postponed.
    """
    open_call = run.state.open_call(fact.execution_id)
    pending = run.state.pending_effect(fact.execution_id)
    if open_call is None or pending is None or pending.attempt != fact.attempt or pending.postponed:
        return
    if run.state.status is Status.CANCELLING:
        return
    run.emit(
        ev.ToolCallPostponed(
            **run.fields_of(open_call),
            attempt=fact.attempt,
            until=fact.until,
            code=fact.code,
            message=fact.message,
        )
    )


def on_quota_changed(run: TransitionBuilder, _fact: facts.QuotaChangedFact) -> None:
    """Request at once what the quota has postponed; a run that is held asks at the time it was told, or later."""
    if run.state.status is Status.CANCELLING:
        return
    unasked = run.state.unasked
    for pending in run.state.pending:
        if pending.postponed and pending.kind is EffectKind.TOOL and pending.effect_id not in unasked:
            resend(run, pending)


def on_gate_resolved(run: TransitionBuilder, fact: facts.GateResolvedFact) -> None:
    """Close the gate that a person settled, and ask what becomes of its call."""
    gate = find_gate(run.state, fact)
    if gate is None:
        return
    if is_run_gate(gate):
        if settle_run_gate(run, gate, fact) and run.state.status is not Status.QUEUED:
            release(run)
            go_on = begin_step if gate.inherited else after_act  # a fork has no action whose phases are to be walked
            go_on(run)
        return
    run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict=fact.verdict, reason=fact.reason, by=fact.by))
    if fact.verdict == "expired":
        after_expiry(run, gate)
    else:
        resend_call_of_gate(run, gate)
