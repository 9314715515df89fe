"""The life of a call, from the first request to its end.

    (no row) ──────────── request ──────────────────────────► denied | awaiting_approval | permitted | void
    awaiting_approval ─── request, once a person decided ──► permitted | denied | awaiting_approval (it has changed)
    permitted ─────────── claim ────────────────────────────► started
    permitted, started ── outcome ──────────────────────────► succeeded | failed
    permitted, started ── request, deadline or lease over ──► failed | unknown | permitted (next attempt)
    all that may not run ─ fence ───────────────────────────► void | unknown
    unknown ───────────── late outcome, or a person ────────► succeeded | failed | permitted (next attempt)

Nothing is dispatched without a row; an ended call is answered from its row; an outcome that nobody knows is `unknown`.
The functions are total: any message in any state gives a `LedgerChange`, which changes a row by exactly one revision.
"""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from towpath_contracts.tools.calls import CallStatus, EffectClass, ProbeWord, ToolFailure, ToolRequest
from towpath_tas.core import run_facts
from towpath_tas.core.approvals import approvals
from towpath_tas.core.authorization import AuthorizationDecision, Authorize
from towpath_tas.core.authorization_query import AuthorizationQuery, with_edited_args
from towpath_tas.core.call import (
    FINAL,
    Approval,
    CallAuditEntry,
    DispatchCall,
    LedgerCall,
    LedgerChange,
    SendFact,
    send_fact,
)
from towpath_tas.core.tools.registry import effective_class

MAX_ATTEMPTS = 20
"""Dispatches of one call. After more, no worker will ever finish it (wrong clocks, leases that keep expiring)."""


def on_request(
    call: LedgerCall | None,
    request: ToolRequest,
    query: AuthorizationQuery,
    args_digest: str,
    authorize: Authorize,
    *,
    now: datetime,
    fence: int = 0,
    approval: Approval | None = None,
) -> LedgerChange:
    """Return the change that a request makes; *fence* is the stored one, *approval* the call's current one."""
    if call is None:
        return _open(request, query, args_digest, authorize, now=now, fence=fence)
    differing = _conflict(call, request, args_digest)
    if differing:
        return _refuse_conflict(call, differing)
    if call.status in FINAL:
        return with_gate_resolution(approval, repeat_fact(call))
    stopped = fence > min(call.fence, request.fence)
    if stopped and not call.ever_claimed:
        return void(call)
    if call.status is CallStatus.AWAITING_APPROVAL:
        deadline = max(call.deadline, request.deadline)
        query = query if not call.edited_by else with_edited_args(query, call)
        return approvals.on_repeat(call, query, approval, authorize, now=now, deadline=deadline)
    return with_gate_resolution(
        approval, _recover_open_call(call, max(call.deadline, request.deadline), now=now, stopped=stopped)
    )


def with_gate_resolution(approval: Approval | None, change: LedgerChange) -> LedgerChange:
    """Send the resolution of the call's approval before anything else: a crash may have kept it from the run."""
    told = approvals.repeat_resolution(approval)
    return replace(change, effects=(*told, *change.effects)) if told else change


def repeat_fact(call: LedgerCall) -> LedgerChange:
    """Send the stored fact to the run again."""
    return LedgerChange(effects=send_fact(call))


def void(call: LedgerCall) -> LedgerChange:
    """End a call that never started and must not start any more: its run was cancelled or has ended."""
    ended = call.next_revision(status=CallStatus.VOID, fact=run_facts.finished(call, "void"))
    return LedgerChange(
        call=ended,
        notes=(CallAuditEntry(phase="outcome", verdict="void", call=ended, detail={"reason": "the fence was raised"}),),
        effects=send_fact(ended),
    )


def unknown(
    call: LedgerCall, reason: str, *, probe: ProbeWord = "", lost_since: datetime | None = None
) -> LedgerChange:
    """End a call that may have started and has no clear outcome: nobody can tell whether it happened.

    *lost_since* is when the backup was made whose database can't tell it.
    """
    failure = ToolFailure(code="outcome_unknown", message=reason, hint="A person has to find out whether it happened.")
    fact = run_facts.finished(call, "unknown", failure=failure, probe=probe, lost_since=lost_since)
    ended = call.next_revision(status=CallStatus.UNKNOWN, fact=fact, settled_by="")
    detail = {"reason": reason, "probe": probe} if probe else {"reason": reason}
    return LedgerChange(
        call=ended,
        notes=(CallAuditEntry(phase="outcome", verdict="unknown", call=ended, detail=detail),),
        effects=send_fact(ended),
    )


def fail(
    call: LedgerCall,
    code: str,
    message: str,
    *,
    hint: str = "",
    actor: str = "",
    settled_by: str = "",
    began: bool | None = False,
) -> LedgerChange:
    """End a call that certainly had no effect that matters; *began* is None if it may have run."""
    failure = ToolFailure(code=code, message=message, retryable=True, hint=hint, external=True, began=began)
    ended = call.next_revision(
        status=CallStatus.FAILED,
        fact=run_facts.finished(call, "failed", failure=failure, settled_by=settled_by),
        settled_by=settled_by,
    )
    note = CallAuditEntry(
        phase="outcome", verdict="failed", call=ended, actor=actor, detail={"code": code, "reason": message}
    )
    return LedgerChange(call=ended, notes=(note,), effects=send_fact(ended))


def dispatch_next(call: LedgerCall, why: str, **values: Any) -> LedgerChange:
    """Send the call again as the next attempt, which the broker does not drop as a duplicate."""
    again = call.next_revision(status=CallStatus.PERMITTED, attempt=call.attempt + 1, **values)
    note = CallAuditEntry(
        phase="dispatch", verdict="again", call=again, detail={"attempt": again.attempt, "reason": why}
    )
    return LedgerChange(call=again, notes=(note,), effects=(DispatchCall(call=again),))


def lease_over(call: LedgerCall, now: datetime) -> bool:
    """Return whether the lease of the current claim, if any, has expired."""
    holder = call.current_claim
    return holder is not None and holder.until is not None and now >= holder.until


def _open(
    request: ToolRequest,
    query: AuthorizationQuery,
    args_digest: str,
    authorize: Authorize,
    *,
    now: datetime,
    fence: int,
) -> LedgerChange:
    decision = authorize(query)
    call = _new_row(request, query, args_digest, decision)
    if fence > request.fence:
        return void(call)
    if decision.effect == "deny":
        return approvals.deny(call, decision)
    if decision.effect == "require_approval":
        return approvals.ask_for_approval(call, decision, now=now)
    permitted = call.next_revision(status=CallStatus.PERMITTED)
    return LedgerChange(
        call=permitted,
        notes=(
            CallAuditEntry(phase="decision", verdict="allow", call=permitted, detail=approvals.grounds_of(decision)),
        ),
        effects=(DispatchCall(call=permitted),),
        counted=decision.counted,
        rated=decision.rated,
        policy_bound=True,
    )


def _new_row(
    request: ToolRequest, query: AuthorizationQuery, args_digest: str, decision: AuthorizationDecision
) -> LedgerCall:
    """Return the row before its first decision: revision 0 means "not stored yet"."""
    spec = decision.tool.spec if decision.tool else None
    context: dict[str, Any] = {"root_run_id": str(request.root_run_id or request.run_id)}
    if request.labels:
        context["labels"] = request.labels
    if request.spent_usd is not None:
        context["spent_usd"] = request.spent_usd
    if request.grant is not None:
        context["grant"] = request.grant
    if request.grants:
        context["grants"] = query.grants
    if request.workspace:
        context["workspace"] = request.workspace
    if request.trace_id is not None:
        context["trace_id"] = str(request.trace_id)
    if request.system_params:
        context["system_params"] = request.system_params
    if decision.origin is not None:
        context["origin"] = decision.origin.context()
    return LedgerCall(
        run_id=request.run_id,
        execution_id=request.execution_id,
        project=request.project,
        network=request.network,
        snapshot_digest=request.snapshot_digest,
        agent_key=request.agent_key,
        agent_type=request.agent_type,
        caller=request.caller,
        step=request.step,
        call_index=request.call_index,
        tool=request.tool,
        operation=spec.operation if spec else request.operation,
        toolset=spec.toolset if spec else request.toolset,
        tool_version=decision.tool.version if decision.tool else 0,
        effect_class=effective_class(spec) if spec else EffectClass.IRREVERSIBLE,
        timeout_ms=spec.timeout_ms if spec else 0,
        args=query.args_text,
        args_digest=args_digest,
        context=json.dumps(context, separators=(",", ":")),
        status=CallStatus.REQUESTED,
        fence=request.fence,
        attempt=1,
        deadline=request.deadline,
        policy_version=decision.policy_version,
        rule=decision.rule,
        revision=0,
    )


def _conflict(call: LedgerCall, request: ToolRequest, args_digest: str) -> list[str]:
    pairs = (
        ("arguments", call.asked_digest if call.edited_by else call.args_digest, args_digest),
        ("tool", call.tool, request.tool),
        ("agent", call.agent_key, request.agent_key),
        ("project", call.project, request.project),
        ("snapshot", call.snapshot_digest, request.snapshot_digest),
    )
    return [name for name, stored, sent in pairs if stored != sent]


def _refuse_conflict(call: LedgerCall, differing: list[str]) -> LedgerChange:
    message = f"execution {call.execution_id} was requested again with another {' and '.join(differing)}"
    return LedgerChange(
        notes=(
            CallAuditEntry(phase="conflict", verdict="refused", call=call, detail={"differs": differing}, always=True),
        ),
        effects=(SendFact(run_id=call.run_id, fact=run_facts.conflict(call.run_id, call.execution_id, message)),),
        dead_letter_reason=message,
    )


def _recover_open_call(call: LedgerCall, deadline: datetime, *, now: datetime, stopped: bool) -> LedgerChange:
    """Decide about a call without an outcome that is requested again, perhaps because its worker has died.

    Nobody reports the death of a worker. The run requests the call again after a while, and the lease of the last claim
    says whether a worker may still be at it. Until then nothing changes. After it an `irreversible` call is unknown,
    and any other is dispatched as the next attempt; `claims` has a `reconcilable` one probed before it runs. A call
    that nobody has claimed, or that is pure, is dispatched again as it is. Where time or attempts are over, or the run
    has ended, a call that may have begun is unknown, unless it is pure.
    """
    late = now >= deadline or call.attempt >= MAX_ATTEMPTS or stopped
    if call.effect_class is EffectClass.PURE:
        if late:
            hint = "Try again later, or without it."
            return fail(call, "timeout", "no result came before the deadline", hint=hint, began=None)
        return _dispatch_same(call, deadline)
    if call.current_claim is None:
        if not late:
            return _dispatch_same(call, deadline)
        if call.ever_claimed:
            return unknown(call, "an earlier attempt was started and never reported")
        return fail(call, "not_started", "no worker started it before its deadline; it did not happen")
    if not lease_over(call, now):
        return LedgerChange()  # it is running, as far as is known
    if call.effect_class is EffectClass.IRREVERSIBLE or late:
        return unknown(call, "it was started, and nothing was heard of it until its lease was over")
    return dispatch_next(call, "the lease of the last attempt is over")


def _dispatch_same(call: LedgerCall, deadline: datetime) -> LedgerChange:
    """Send the same attempt again; the broker drops duplicates. A later deadline is stored for claims.

    The audit tells of it: whatever sends a call has an entry, and a row that somebody put into the ledger has no other.
    """
    renewed = call.next_revision(deadline=max(deadline, call.deadline))
    note = CallAuditEntry(phase="dispatch", verdict="repeated", call=renewed, detail={"attempt": call.attempt})
    return LedgerChange(call=renewed, notes=(note,), effects=(DispatchCall(call=renewed),))
