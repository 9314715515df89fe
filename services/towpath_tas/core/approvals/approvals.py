"""Approvals of single calls: asking for one, using it up, and what happens when it expires or the call has changed.

An approval covers this tool with these arguments, this definition, these rules, this agent and this snapshot, once,
until it expires. It is used up in the same ledger change that permits the call. Any change in between voids it, and a
new approval is asked for that lists the changes: at most `MAX_REVISIONS` times, then by a manual gate, which allows no
further change. `approval_votes` counts the votes.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import uuid5

from towpath_contracts.facts import ChangedApprovalField
from towpath_contracts.files.policy_document import DEFAULT_EXPIRES_S
from towpath_contracts.tools.calls import CallStatus, Denial
from towpath_tas.core import run_facts
from towpath_tas.core.approval_binding import binding, binding_digest, changes
from towpath_tas.core.authorization import AuthorizationDecision, Authorize
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import Approval, CallAuditEntry, DispatchCall, LedgerCall, LedgerChange, SendFact, send_fact
from towpath_tas.core.denial_alternatives import escalation, with_alternatives
from towpath_tas.core.denial_explanations import without_others
from towpath_tas.core.denials import denied_by_person, denied_changing, denied_lost
from towpath_tas.core.tools.registry import effective_class

ASKED_FIRST = "approver"
"""The role that is asked; a row that names another one than these two is not believed."""

ESCALATED_TO = "policy_admin"
"""The role that is asked if a rule escalates an approval that nobody answered in time."""

APPROVED_GRACE = timedelta(minutes=10)
"""A late approval stays usable this long: the run needs time to repeat its request."""

MAX_REVISIONS = 3
"""Changes and edits of one call, each with a new approval; the next change opens a manual gate."""


def deny(call: LedgerCall, decision: AuthorizationDecision) -> LedgerChange:
    """Deny a call."""
    denial = decision.denial or denied_lost(call.tool)
    of_run = denial if decision.explains_in_run else without_others(denial)
    judged = replace(call, policy_version=decision.policy_version, rule=decision.rule)
    refused = judged.next_revision(status=CallStatus.DENIED, fact=run_facts.denied(judged, of_run))
    note = CallAuditEntry(
        phase="decision",
        verdict="deny",
        call=refused,
        detail={
            "violation_type": denial.violation_type,
            "reason": decision.reason or denial.reason,
            **_explained(denial),
            **grounds_of(decision),
        },
        tool_version=_judged_version(decision),
    )
    return LedgerChange(call=refused, notes=(note,), effects=send_fact(refused), policy_bound=True)


def _explained(denial: Denial) -> dict[str, Any]:
    """Return what people are told of *denial*: who searches the audit finds the rule and its place."""
    told = denial.explanation
    return {} if told is None else {"explanation": told.model_dump(mode="json", exclude_defaults=True)}


def ask_for_approval(
    call: LedgerCall, decision: AuthorizationDecision, *, now: datetime, before: Approval | None = None
) -> LedgerChange:
    """Let the call wait for a person; *before* is the outdated approval, if that is the reason."""
    if before is not None and before.gate_type == "manual":
        return _give_up(call, before, decision)
    approval = new_approval(call, decision, now=now, before=before)
    return wait_for_approval(
        call, approval, decision, before=before, why=() if before is None else changes_between(before, approval)
    )


def grounds_of(decision: AuthorizationDecision) -> dict[str, Any]:
    """Return what the audit records of a decision.

    By which rules and which definition of the tool it was made, how often a call of that may be made, and whence the
    values came if that was looked up.
    """
    grounds: dict[str, Any] = {"rules_digest": decision.rules_digest} if decision.rules_digest else {}
    if decision.tool is not None:
        grounds["tool_digest"] = decision.tool.digest
        grounds["effect_class"] = str(effective_class(decision.tool.spec))
    return grounds if decision.origin is None else {**grounds, "origin": decision.origin.audited()}


def new_approval(
    call: LedgerCall, decision: AuthorizationDecision, *, now: datetime, before: Approval | None = None
) -> Approval:
    """Return a new approval of *call* as it is now; it revises the one *before*, if there is one."""
    bound = binding(call, decision)
    revisions = 0 if before is None else before.revisions + 1
    return Approval(
        approval_id=uuid5(call.execution_id, f"approval:{call.approvals + 1}"),
        run_id=call.run_id,
        execution_id=call.execution_id,
        project=call.project,
        status="pending",
        digest=binding_digest(bound),
        bound=json.dumps(bound, separators=(",", ":")),
        rule=decision.rule or "",
        reason=decision.reason,
        requested_by=call.caller,
        expires_at=now + timedelta(seconds=decision.expires_s or DEFAULT_EXPIRES_S),
        args=call.args,
        gate_type="manual" if revisions > MAX_REVISIONS else "approval",
        role=ESCALATED_TO if before is not None and before.role == ESCALATED_TO else ASKED_FIRST,
        quorum=decision.quorum,
        on_expiry=decision.on_expiry if before is None or before.role != ESCALATED_TO else "deny",
        revisions=revisions,
        edited_by=call.edited_by,
    )


def changes_between(before: Approval, after: Approval) -> tuple[ChangedApprovalField, ...]:
    """Return what changed between two approvals of a call."""
    return changes(json.loads(before.bound), json.loads(after.bound), (before.args, after.args))


def wait_for_approval(
    call: LedgerCall,
    approval: Approval,
    decision: AuthorizationDecision,
    *,
    before: Approval | None = None,
    why: tuple[ChangedApprovalField, ...] = (),
    ends: Literal["void", "expired"] = "void",
) -> LedgerChange:
    """Let *call* wait for *approval*, which replaces the one *before* because of the changes *why*."""
    judged = replace(call, policy_version=decision.policy_version, rule=decision.rule, approvals=call.approvals + 1)
    waiting = judged.next_revision(
        status=CallStatus.AWAITING_APPROVAL,
        approval_id=approval.approval_id,
        fact=run_facts.approval_required(
            judged,
            approval,
            why,
            origins=decision.origin.shown() if decision.origin else (),
            summary=decision.tool.spec.summary if decision.tool else "",
        ),
    )
    over = () if before is None else (replace(before, status=ends),)
    new = call.revision == 0  # a call counts towards its limits once, when its row is created
    detail = {
        "approval_id": str(approval.approval_id),
        "digest": approval.digest,
        "role": approval.role,
        "quorum": approval.quorum,
        "revision": approval.revisions,
        "edited_by": approval.edited_by,
        "changes": [change.model_dump(mode="json") for change in why],
        **grounds_of(decision),
    }
    note = CallAuditEntry(
        phase="decision",
        verdict="require_approval",
        call=waiting,
        detail=detail,
        tool_version=_judged_version(decision),
    )
    return LedgerChange(
        call=waiting,
        notes=(note,),
        effects=send_fact(waiting),
        approvals=(*over, approval),
        counted=decision.counted if new else (),
        rated=decision.rated if new else (),
        policy_bound=True,
    )


def on_repeat(
    call: LedgerCall,
    query: AuthorizationQuery,
    approval: Approval | None,
    authorize: Authorize,
    *,
    now: datetime,
    deadline: datetime,
) -> LedgerChange:
    """Handle a repeated request for a call that waits: has a person decided, and is the call still what was shown?

    An approval that nobody gives in time expires here: the call is denied, or policy admins are asked (`on_expiry`).
    *deadline* is the new deadline of the call: the run's clock is stopped while it waits for a person.
    """
    if approval is None:
        return _refuse_lost(call, authorize(query))
    match approval.status:
        case "approved" if now < _usable_until(approval):
            return _consume(call, query, approval, authorize, now=now, deadline=deadline)
        case "denied" if approval.is_denied_by_vote:
            return _refuse(call, approval, expired=False)
        case "denied":  # nothing here stores such a row: people are asked anew
            return _ask_anew(call, approval, authorize(query), now=now)
        case "pending" if now < approval.expires_at:
            return LedgerChange(effects=send_fact(call))
        case "pending" if approval.on_expiry == "escalate":
            return _escalate(call, approval, authorize(query), now=now)
        case _:
            return _refuse(call, approval, expired=True)


def _consume(
    call: LedgerCall,
    query: AuthorizationQuery,
    approval: Approval,
    authorize: Authorize,
    *,
    now: datetime,
    deadline: datetime,
) -> LedgerChange:
    decision = authorize(query)
    if decision.effect == "deny" or not approval.has_its_votes:  # nothing here stores a row without its votes
        return _ask_anew(call, approval, decision, now=now)
    if decision.effect == "require_approval" and binding_digest(binding(call, decision)) != approval.digest:
        return ask_for_approval(call, decision, now=now, before=approval)
    allowed = permitted(call, decision, deadline)
    detail = {"approval_id": str(approval.approval_id), "digest": approval.digest, "approved_by": approval.decided_by}
    detail |= grounds_of(replace(decision, origin=None))  # the question has the origin
    return LedgerChange(
        call=allowed,
        notes=(CallAuditEntry(phase="approval.consumed", verdict="allow", call=allowed, detail=detail),),
        effects=(resolution_fact(approval), DispatchCall(call=allowed)),
        approvals=(replace(approval, status="consumed"),),
        policy_bound=True,
    )


def _ask_anew(call: LedgerCall, approval: Approval, decision: AuthorizationDecision, *, now: datetime) -> LedgerChange:
    """Ask people again, under whatever rule, unless the matrix denies the call by now."""
    if decision.effect == "deny":
        refused = deny(call, decision)
        return replace(refused, approvals=(replace(approval, status="void"),))
    return ask_for_approval(call, decision, now=now, before=approval)


def permitted(call: LedgerCall, decision: AuthorizationDecision, deadline: datetime) -> LedgerCall:
    """Return *call* as permitted by *decision*, with the definition of its tool as it is now."""
    spec = decision.tool.spec if decision.tool else None
    return call.next_revision(
        status=CallStatus.PERMITTED,
        policy_version=decision.policy_version,
        rule=decision.rule,
        fact=None,
        deadline=deadline,
        tool_version=decision.tool.version if decision.tool else call.tool_version,
        effect_class=effective_class(spec) if spec else call.effect_class,
        timeout_ms=spec.timeout_ms if spec else call.timeout_ms,
        toolset=spec.toolset if spec else call.toolset,
    )


def _judged_version(decision: AuthorizationDecision) -> int:
    """Return the version of the tool that *decision* was made by; 0 where there is no such tool."""
    return decision.tool.version if decision.tool else 0


def _escalate(call: LedgerCall, approval: Approval, decision: AuthorizationDecision, *, now: datetime) -> LedgerChange:
    """Nobody answered in time: ask the policy admins once; after that the call is denied."""
    if decision.effect == "deny":
        refused = deny(call, decision)
        return replace(refused, approvals=(replace(approval, status="expired"),))
    higher = replace(
        new_approval(call, decision, now=now, before=approval),
        revisions=approval.revisions,  # nothing of the call has changed
        gate_type=approval.gate_type,
        role=ESCALATED_TO,
        quorum=max(approval.quorum, decision.quorum),
        on_expiry="deny",
        reason=f"nobody decided by {approval.expires_at:%Y-%m-%d %H:%M} UTC: {decision.reason or approval.reason}",
    )
    change = wait_for_approval(
        call, higher, decision, before=approval, why=changes_between(approval, higher), ends="expired"
    )
    note = replace(change.notes[0], phase="approval.escalated")
    expiry = resolution_fact(replace(approval, status="expired"))
    return replace(change, notes=(*change.notes, note), effects=(expiry, *change.effects))


def _refuse(call: LedgerCall, approval: Approval, *, expired: bool) -> LedgerChange:
    settled = replace(approval, status="expired" if expired else "denied")
    denial = denied_by_person(call.tool, approval.decided_reason, approval.rule, expired=expired)
    denial = with_alternatives(denial, (), (), escalation(denial.violation_type, None))
    refused = call.next_revision(status=CallStatus.DENIED, fact=run_facts.denied(call, denial))
    note = CallAuditEntry(
        phase="approval.expired" if expired else "decision",
        verdict="deny",
        call=refused,
        actor=approval.decided_by,
        detail={"approval_id": str(approval.approval_id), "violation_type": denial.violation_type},
        tool_version=0,  # a person decided; what was shown is the version of the entry that asked
    )
    return LedgerChange(
        call=refused, notes=(note,), effects=(resolution_fact(settled), *send_fact(refused)), approvals=(settled,)
    )


def _give_up(call: LedgerCall, before: Approval, decision: AuthorizationDecision) -> LedgerChange:
    """Deny a call that changed even after a manual gate: it can not be approved while it keeps changing."""
    denial = denied_changing(call.tool, before.revisions, before.rule)
    change = deny(call, replace(decision, effect="deny", denial=denial))
    return replace(change, approvals=(replace(before, status="void"),))


def _refuse_lost(call: LedgerCall, decision: AuthorizationDecision) -> LedgerChange:
    """Deny a call that waits for an approval which does not exist: nobody could approve it."""
    denial = decision.denial or denied_lost(call.tool)
    return deny(call, replace(decision, effect="deny", rule=None, reason="", origin=None, denial=denial))


def _usable_until(approval: Approval) -> datetime:
    decided = approval.decided_at or approval.expires_at
    return max(approval.expires_at, decided + APPROVED_GRACE)


def repeat_resolution(approval: Approval | None) -> tuple[SendFact, ...]:
    """Return the resolution of a finished approval, for a run that may have missed it."""
    if approval is None or approval.status not in {"consumed", "denied", "expired"}:
        return ()
    return (resolution_fact(approval),)


def verdict_of(approval: Approval) -> Literal["approved", "denied", "expired"]:
    """Return what people decided about *approval*; undecided counts as expired."""
    match approval.status:
        case "approved" | "consumed":
            return "approved"
        case "denied":
            return "denied"
        case _:
            return "expired"


def resolution_fact(approval: Approval) -> SendFact:
    """Return the fact about what came of a gate."""
    return SendFact(run_id=approval.run_id, fact=run_facts.gate_resolved(approval, verdict_of(approval)))
