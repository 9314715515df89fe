"""Builds the facts that a run receives about its calls, as the JSON that is both stored and sent.

A fact is built once and stored with the change that it reports, so that a repeat sends exactly the same.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from towpath_contracts.facts import (
    ApprovalRequiredFact,
    ChangedApprovalField,
    ExecutionConflictFact,
    GateResolvedFact,
    ToolDeniedFact,
    ToolFinishedFact,
)
from towpath_contracts.runs.held_calls import CallPostponedFact
from towpath_contracts.tools.calls import Denial, ProbeWord, ToolFailure, ToolOutcome, UnknownCallEvidence
from towpath_tas.core.approval_binding import format_change
from towpath_tas.core.call import Approval, LedgerCall, StartClaim


def finished(
    call: LedgerCall,
    status: Literal["succeeded", "failed", "unknown", "void"],
    *,
    failure: ToolFailure | None = None,
    result: Any = None,
    settled_by: str = "",
    probe: ProbeWord = "",
    lost_since: datetime | None = None,
) -> str:
    """Return the fact that a call ended without an accepted outcome; *probe* is what an uncertain one reported."""
    unknown = status == "unknown"
    last = call.last_granted if unknown else None
    return ToolFinishedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:{status}:{call.attempt}",
        execution_id=call.execution_id,
        status=status,
        result=result,
        failure=failure,
        worker=last.worker if last is not None else "",
        policy_version=call.policy_version,
        attempt=call.attempt,
        settled_by=settled_by,
        probe=probe,
        doubt=_doubt_of(call, last, probe, lost_since) if unknown else None,
        executed_args=executed_args(call),
        edited_by=call.edited_by,
    ).model_dump_json()


def postponed(call: LedgerCall, attempt: int, until: datetime) -> str:
    """Return the fact that the quota of the project has no room for *call*; *attempt* numbers the run's requests."""
    return CallPostponedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:postponed:{attempt}",
        execution_id=call.execution_id,
        attempt=attempt,
        until=until,
        code="quota_exceeded",
        message=f"project {call.project} has used its tool calls of this minute",
    ).model_dump_json()


def _doubt_of(
    call: LedgerCall, last: StartClaim | None, probe: ProbeWord, lost_since: datetime | None
) -> UnknownCallEvidence:
    starts = sum(claim.granted and not claim.is_possible for claim in call.claims)
    if last is None or last.is_possible:
        return UnknownCallEvidence(starts=starts, probe=probe, lost_since=lost_since)
    return UnknownCallEvidence(
        worker=last.worker,
        claimed_at=last.at,
        lease_until=last.until,
        starts=starts,
        probe=probe,
        lost_since=lost_since,
    )


def executed_args(call: LedgerCall) -> dict[str, Any] | None:
    """Return the arguments as a person edited them; None if they are the requested ones."""
    return json.loads(call.args) if call.edited_by else None


def reported(call: LedgerCall, outcome: ToolOutcome, result_digest: str | None) -> str:
    """Return the fact that a worker's outcome was accepted (`ticket_expired` is none)."""
    return ToolFinishedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:outcome:{outcome.attempt}",
        execution_id=call.execution_id,
        status="succeeded" if outcome.status == "succeeded" else "failed",
        result=outcome.result,
        result_digest=result_digest,
        result_bytes=outcome.result_bytes,
        blob=outcome.blob,
        preview=outcome.preview if outcome.preview is not None and outcome.preview.is_carried else None,
        failure=outcome.failure,
        duration_ms=outcome.duration_ms,
        worker=outcome.worker,
        policy_version=call.policy_version,
        attempt=outcome.attempt,
        probe=outcome.probe,
        executed_args=executed_args(call),
        edited_by=call.edited_by,
        changes=outcome.changes,
        changes_lost=outcome.changes_lost,
    ).model_dump_json()


def denied(call: LedgerCall, denial: Denial) -> str:
    """Return the fact of a denial. It names the tool: a run counts denials of different tools apart."""
    return ToolDeniedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:denied",
        execution_id=call.execution_id,
        denial=denial.model_copy(update={"tool": call.tool}),
        policy_version=call.policy_version,
    ).model_dump_json()


def approval_required(
    call: LedgerCall,
    approval: Approval,
    changes: Sequence[ChangedApprovalField],
    origins: Sequence[dict[str, Any]] = (),
    summary: str = "",
) -> str:
    """Return the fact that the call waits for a person; *origins* says where its values come from.

    *summary* is the tool's template for telling the call.
    """
    return ApprovalRequiredFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:approval:{call.approvals}",
        execution_id=call.execution_id,
        approval_id=approval.approval_id,
        rule=approval.rule,
        reason=approval.reason,
        tool=call.tool,
        args=json.loads(call.args),
        args_digest=call.args_digest,
        digest=approval.digest,
        expires_at=approval.expires_at,
        policy_version=call.policy_version,
        changes=tuple(map(format_change, changes)),
        diff=tuple(changes),
        gate_type=approval.gate_type,
        role=approval.role,
        quorum=approval.quorum,
        on_expiry=approval.on_expiry,
        revision=approval.revisions,
        edited_by=approval.edited_by,
        origins=tuple(origins),
        summary=summary,
    ).model_dump_json()


def gate_resolved(approval: Approval, verdict: Literal["approved", "denied", "expired"]) -> str:
    """Return the fact that people, or the clock, have settled an approval."""
    return GateResolvedFact(
        run_id=approval.run_id,
        fact_id=f"{approval.approval_id}:{verdict}",
        approval_id=approval.approval_id,
        verdict=verdict,
        reason=approval.decided_reason,
        by=approval.decided_by,
    ).model_dump_json()


def conflict(run_id: UUID, execution_id: UUID, message: str) -> str:
    """Return the fact that a repeated execution id had other contents."""
    return ExecutionConflictFact(
        run_id=run_id, fact_id=f"{execution_id}:conflict", execution_id=execution_id, message=message
    ).model_dump_json()
