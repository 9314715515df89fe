"""Decides which worker may start a call.

An `irreversible` call gets one claim, until a person asks for a retry. `idempotent` and `reconcilable` calls get one
claim at a time, the next when the lease of the last has expired; a `reconcilable` call is probed before it runs again.
A claim that is not clearly granted means: do not run. A refusal changes nothing, so asking again with the same claim id
is always safe.

Nobody reports that a worker has died. The broker delivers its call once more, and the worker that gets it claims the
same attempt: it is refused while the lease lasts (an `irreversible` call for good), else granted. A refused worker
drops the delivery; then the run's next request for the call decides (`ledger`: next attempt, or `unknown`). One that
got no answer before the refusal may hold the claim without knowing it: it reports that it never began.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from towpath_contracts.tools.calls import CallStatus, ClaimAnswer, ClaimStart, EffectClass
from towpath_tas.core.call import CallAuditEntry, LedgerCall, LedgerChange, StartClaim
from towpath_tas.core.calls.ledger import lease_over

ProbeDemand = Literal["", "required", "preferred"]

START_BY_MS = 5_000
"""Maximum time between the answer and the start; a worker that was suspended longer must not start."""

LEASE_SLACK_MS = 10_000
"""Lease on top of the tool's timeout: for starting, stopping, and the outcome to arrive."""


def on_claim(
    call: LedgerCall | None, request: ClaimStart, fault: str, *, now: datetime, fence: int = 0
) -> tuple[LedgerChange, ClaimAnswer]:
    """Return the change that a claim makes, and its answer.

    *fault* says what is wrong with the ticket (`TicketFault`), empty for a valid one; *fence* is the stored one.
    """
    reason = _refusal(call, request, fault, now=now, fence=fence)
    if call is None or reason:
        return _refused(call, request, reason or "unknown_call")
    if call.effect_class is EffectClass.PURE:
        return LedgerChange(), _granted(call, request, "")
    until = now + timedelta(milliseconds=call.timeout_ms + LEASE_SLACK_MS)
    holder = call.current_claim
    if holder is not None and holder.claim_id == request.claim_id:
        kept = tuple(replace(claim, until=until) if claim is holder else claim for claim in call.claims)
        return LedgerChange(call=call.next_revision(claims=kept)), _granted(call, request, holder.probe)
    claim = StartClaim(
        claim_id=request.claim_id,
        attempt=call.attempt,
        worker=request.worker,
        granted=True,
        until=until,
        at=now,
        probe=_probe(call),
    )
    started = call.next_revision(status=CallStatus.STARTED, claims=(*call.claims, claim), settled_by="")
    detail = {**_detail(request), "probe": claim.probe} if claim.probe else _detail(request)
    note = CallAuditEntry(phase="claim", verdict="granted", call=started, actor=request.worker, detail=detail)
    return LedgerChange(call=started, notes=(note,)), _granted(call, request, claim.probe)


def _probe(call: LedgerCall) -> ProbeDemand:
    """Return whether the worker must ask the tool's probe first. A person's `retry` waives that for one start."""
    if call.effect_class is not EffectClass.RECONCILABLE or not call.ever_claimed:
        return ""
    return "preferred" if call.settled_by else "required"


def _refusal(call: LedgerCall | None, request: ClaimStart, fault: str, *, now: datetime, fence: int) -> str:
    """Return why the claim is refused, or an empty string. The reasons are part of the contract."""
    if call is None:
        return "unknown_call"
    if call.status not in {CallStatus.PERMITTED, CallStatus.STARTED}:
        return str(call.status)
    if request.attempt != call.attempt:
        return "outdated"
    if fence > call.fence:
        return "fence_raised"
    if fault:
        return f"ticket_{fault}"
    if now >= call.deadline:
        return "deadline"
    holder = call.current_claim
    if holder is None or holder.claim_id == request.claim_id:
        return ""
    if call.effect_class is EffectClass.IRREVERSIBLE or not lease_over(call, now):
        return "claimed"
    return ""


def _refused(call: LedgerCall | None, request: ClaimStart, reason: str) -> tuple[LedgerChange, ClaimAnswer]:
    answer = ClaimAnswer(granted=False, claim_id=request.claim_id, reason=reason)
    if call is None:
        return LedgerChange(), answer
    detail = {**_detail(request), "reason": reason}
    note = CallAuditEntry(phase="claim", verdict="refused", call=call, actor=request.worker, detail=detail, always=True)
    return LedgerChange(notes=(note,)), answer


def _granted(call: LedgerCall, request: ClaimStart, probe: ProbeDemand) -> ClaimAnswer:
    lease_ms = call.timeout_ms + LEASE_SLACK_MS
    return ClaimAnswer(granted=True, claim_id=request.claim_id, start_by_ms=START_BY_MS, lease_ms=lease_ms, probe=probe)


def _detail(request: ClaimStart) -> dict[str, object]:
    return {"claim_id": str(request.claim_id), "attempt": request.attempt}
