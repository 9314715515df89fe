"""Ends calls from outside: a raised fence, and a person's decision about an unknown call.

A fence ends calls that never started and stops those that run; it never claims of a started call that it did not
happen. A person's decision about an unknown call is final; only `retry` opens the call again, and not in a run that was
stopped. What runs again may be a second effect, so it has to be permitted like the first: by the rules in force, and
where people had to approve it, not on the word of whoever submitted the run.
"""

from datetime import datetime, timedelta
from typing import Literal

from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core import run_facts
from towpath_tas.core.approvals.approval_votes import is_same_person
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.call import FINAL, Approval, CallAuditEntry, LedgerCall, LedgerChange, SendFact, StopCall
from towpath_tas.core.calls.ledger import dispatch_next, fail, lease_over, unknown, void
from towpath_tas.core.calls.outcomes import is_covered

RETRY_GRACE = timedelta(minutes=5)
"""Time to start for a call that a person lets run again, on top of its timeout."""


def on_fence(call: LedgerCall, reason: str, *, now: datetime) -> LedgerChange:
    """Return the change that a raised fence makes to a call of its run. A running call is only asked to stop."""
    if call.status in FINAL:
        return LedgerChange()
    stop = StopCall(
        project=call.project, toolset=call.toolset, execution_id=call.execution_id, reason=reason or "cancelled"
    )
    if call.current_claim is not None and not lease_over(call, now):
        return LedgerChange(effects=(stop,))
    change = (
        unknown(call, "the run was stopped while it ran, and it never reported") if call.ever_claimed else void(call)
    )
    # The answer to raise_fence informs the run; the run would ignore a fact for each call.
    may_run = call.effect_class is EffectClass.PURE and call.status is CallStatus.PERMITTED
    return LedgerChange(call=change.call, notes=change.notes, effects=(stop,) if may_run else ())


def is_live(call: LedgerCall, now: datetime) -> bool:
    """Return whether a worker holds a claim to this call now."""
    return call.status not in FINAL and call.current_claim is not None and not lease_over(call, now)


def on_settle(
    call: LedgerCall,
    verdict: Literal["happened", "did_not_happen", "retry"],
    actor: str,
    reason: str,
    *,
    now: datetime,
    fence: int = 0,
) -> LedgerChange | Problem:
    """Return the change that a person's decision about an unknown call makes, or why it does not count."""
    if call.status is not CallStatus.UNKNOWN:
        return problem("gate_settled", f"the call is {call.status}")
    match verdict:
        case "happened":
            return _happened(call, actor, reason)
        case "did_not_happen":
            message = reason or "a person found that it did not happen"
            return fail(call, "did_not_happen", message, actor=actor, settled_by=actor)
        case "retry" if fence > call.fence:
            return problem("fence_raised", f"run {call.run_id} was stopped; the call can't run again")
        case "retry":
            deadline = now + timedelta(milliseconds=call.timeout_ms) + RETRY_GRACE
            change = dispatch_next(
                call, f"{actor} decided retry: {reason}", deadline=deadline, fact=None, settled_by=actor
            )
            notes = tuple(
                CallAuditEntry(phase="settled", verdict="retry", call=note.call, actor=actor, detail=note.detail)
                for note in change.notes
            )
            return LedgerChange(call=change.call, notes=notes, effects=change.effects)


def retry_problem(
    call: LedgerCall, approval: Approval | None, decision: AuthorizationDecision, actor: str, *, single_person: bool
) -> Problem | None:
    """Return why *call* may not run again on the word of *actor*, by the *decision* about it as it is now."""
    if decision.effect == "deny":
        return problem("retry_refused", decision.denial.reason if decision.denial else "the rules in force deny it")
    if decision.effect == "allow":
        return None
    if not is_covered(call, approval, decision):
        return problem("retry_refused", "by the rules in force people have to approve it, and nobody has")
    if is_same_person(actor, call.caller) and not single_person:
        return problem("requester_may_not_approve", f"{call.caller} submitted the run that asks")
    return None


def _happened(call: LedgerCall, actor: str, reason: str) -> LedgerChange:
    result = {"note": "A person found that the call happened; its own result was lost.", "reason": reason}
    ended = call.next_revision(
        status=CallStatus.SUCCEEDED,
        fact=run_facts.finished(call, "succeeded", result=result, settled_by=actor),
        settled_by=actor,
    )
    note = CallAuditEntry(phase="settled", verdict="happened", call=ended, actor=actor, detail={"reason": reason})
    return LedgerChange(call=ended, notes=(note,), effects=(SendFact(run_id=ended.run_id, fact=ended.fact or ""),))
