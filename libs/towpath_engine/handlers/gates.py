"""Opens and closes the gates of tool calls: a call waits for a person there.

A gate that was opened is always closed in the log: by its resolution, its expiry (`calls.gate_expiry`), the outcome of
its call, or the end of the run. A gate id is used once, so a fact about a closed gate never affects a later one.
"""

from datetime import timedelta
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import json_safe
from towpath_contracts.events import log as ev
from towpath_contracts.ids import gate_id
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import OpenGate, RunState, Status, StepCall

UNKNOWN_GATE_HOURS = 24
"""Expiry of a gate about an unknown effect."""

UNKNOWN_EFFECT = "unknown_effect"

ACTS_LATE = (
    "The worker that was given the call may only be frozen, or cut off from the broker: it may still act. Retry only "
    "when you know that it can't."
)
"""Shown beside `retry`."""

HAPPENED_BEFORE_RESTORE = (
    "What this platform did after the backup was made is not in its database. Retry only when the target shows that "
    "the call did not happen then."
)
"""Shown beside `retry` where the database was restored from a backup."""


def gate_of(state: RunState, execution_id: UUID) -> OpenGate | None:
    """Return the open gate of a call."""
    return next((gate for gate in state.gates if gate.execution_id == execution_id), None)


def close_gate(run: TransitionBuilder, execution_id: UUID, verdict: str, reason: str, by: str = "") -> None:
    """Close the open gate of a call, where it has one."""
    gate = gate_of(run.state, execution_id)
    if gate is not None:
        run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict=verdict, reason=reason, by=by))


def close_gate_of_settled_call(run: TransitionBuilder, fact: facts.ToolFinishedFact) -> None:
    """Close the gate of a call that has its outcome. A person's outcome may come before its resolution."""
    if not fact.settled_by:
        close_gate(run, fact.execution_id, "settled", "the call has an outcome")
        return
    happened = fact.status == "succeeded"
    stated = fact.result.get("reason", "") if isinstance(fact.result, dict) else ""
    reason = str(stated) if happened else (fact.failure.message if fact.failure else "")
    close_gate(run, fact.execution_id, "happened" if happened else "did_not_happen", reason, fact.settled_by)


def close_all_gates(run: TransitionBuilder, reason: str) -> None:
    """Close every open gate: no decision is needed any more."""
    for gate in run.state.gates:
        run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="void", reason=reason))


def record_edit(run: TransitionBuilder, fact: facts.ToolFinishedFact | facts.InternalToolPermittedFact) -> None:
    """Record in the log which arguments were executed, where a person has changed them; once."""
    call = run.state.open_call(fact.execution_id)
    if call is None or fact.executed_args is None or call.executed_args is not None:
        return
    run.emit(
        ev.ToolCallEdited(
            execution_id=fact.execution_id,
            step=run.state.step,
            agent_key=run.state.agent_key,
            call_index=call.call.call_index,
            tool=call.call.tool,
            args=json_safe(fact.executed_args),
            by=fact.edited_by,
        )
    )


def open_unknown_gate(run: TransitionBuilder, fact: facts.ToolFinishedFact) -> None:
    """Ask a person what became of a call whose outcome can't be known; once per doubt, however often it is reported."""
    call = run.state.open_call(fact.execution_id)
    gate = gate_of(run.state, fact.execution_id)
    if call is None or (gate is not None and gate.gate_type == UNKNOWN_EFFECT):
        return
    wanted = _doubt_gate(run.state, call, fact)
    if wanted in call.closed_gates:
        return  # reported again, after a person has let the call run once more
    close_gate(run, fact.execution_id, "settled", "the call ran, and its outcome is unknown")
    tool = call.call.tool
    message = fact.failure.message if fact.failure else "the worker was lost while the call ran"
    run.emit(
        ev.GateOpened(
            gate_id=wanted,
            gate_type=UNKNOWN_EFFECT,
            execution_id=fact.execution_id,
            reason=f"nobody knows whether {tool} happened: {message}",
            detail={
                "tool": tool,
                "args": json_safe(call.shown_args()),
                "agent": run.state.agent_key,
                "worker": fact.worker,
                "verdicts": ["happened", "did_not_happen", "retry"],
                **_known(fact),
            },
            expires_at=run.now + timedelta(hours=UNKNOWN_GATE_HOURS),
        )
    )


def _doubt_gate(state: RunState, call: StepCall, fact: facts.ToolFinishedFact) -> UUID:
    """Name the gate by the ledger's attempt that is in doubt; facts of older ledgers don't have it."""
    doubt = f"attempt {fact.attempt}" if fact.attempt else str(len(call.closed_gates))
    return gate_id(state.run_id, f"unknown:{fact.execution_id}:{doubt}")


def _known(fact: facts.ToolFinishedFact) -> JsonObject:
    """Return what the ledger knows, and what a person must think of before a retry."""
    if fact.doubt is None:
        return {}
    why = fact.failure.message if fact.failure else ""
    known = {"attempt": fact.attempt, "why": why}
    if fact.doubt.lost_since is not None:
        return {**fact.doubt.model_dump(mode="json"), **known, "retry_warning": HAPPENED_BEFORE_RESTORE}
    return {**fact.doubt.model_dump(mode="json", exclude={"lost_since"}), **known, "retry_warning": ACTS_LATE}


def on_approval_required(run: TransitionBuilder, fact: facts.ApprovalRequiredFact) -> None:
    """Open the gate of an approval; a new approval of the same call replaces the one before."""
    call = run.state.open_call(fact.execution_id)
    wanted = gate_id(run.state.run_id, f"approval:{fact.approval_id}")
    if call is None or run.state.status is Status.CANCELLING or wanted in call.closed_gates:
        return
    gate = gate_of(run.state, fact.execution_id)
    if gate is not None and gate.gate_id == wanted:
        return
    changed = f"{fact.edited_by} changed the arguments" if fact.edited_by else "the call or its rules changed"
    close_gate(run, fact.execution_id, "void", changed, fact.edited_by)
    run.emit(
        ev.GateOpened(
            gate_id=wanted,
            gate_type=fact.gate_type,
            execution_id=fact.execution_id,
            approval_id=fact.approval_id,
            reason=fact.reason or f"rule {fact.rule} wants a person's approval",
            detail={
                "tool": fact.tool,
                "args": json_safe(fact.args),
                "args_digest": fact.args_digest,
                "digest": fact.digest,
                "rule": fact.rule,
                "agent": run.state.agent_key,
                "changes": list(fact.changes),
                **_terms(fact),
            },
            expires_at=fact.expires_at,
        )
    )


def _terms(fact: facts.ApprovalRequiredFact) -> JsonObject:
    """Return what differs from an ordinary approval, which any one approver gives in time; empty for such a one."""
    terms = {
        "diff": [change.model_dump(mode="json") for change in fact.diff],
        "role": fact.role if fact.role != "approver" else "",
        "quorum": fact.quorum if fact.quorum > 1 else 0,
        "on_expiry": fact.on_expiry if fact.on_expiry != "deny" else "",
        "revision": fact.revision,
        "edited_by": fact.edited_by,
        "origins": list(fact.origins),
        "summary": fact.summary,
    }
    return {name: value for name, value in terms.items() if value}


def find_gate(state: RunState, fact: facts.GateResolvedFact) -> OpenGate | None:
    """Return the open gate that *fact* is about; an approval's gate may be named by either id."""
    for gate in state.gates:
        if fact.gate_id == gate.gate_id or (fact.approval_id is not None and fact.approval_id == gate.approval_id):
            return gate
    return None


def resend_call_of_gate(run: TransitionBuilder, gate: OpenGate) -> None:
    """Ask the tool-access service what it makes of the call whose gate was closed: at once, unless the run is held."""
    if run.state.held:
        return
    pending = run.state.pending_effect(gate.execution_id) if gate.execution_id else None
    if pending is not None:
        resend(run, pending)
