"""What a worker reports: the outcome of a call, or that it could not read a delivery.

An outcome is accepted from a holder of a granted claim, or, for a pure call, from the first who reports one. Every
other outcome is evidence: kept in the audit, changing nothing. What the ledger says about the call (its class, its
arguments) is never taken from an outcome.

A delivery that a worker could not read is sent again, and in the end its call fails. The ledger decides that, not the
worker: a claimed call may be running and is left alone, and a delivery of an older attempt is ignored.
"""

from dataclasses import replace
from datetime import datetime

from towpath_contracts.canonical import digest, json_safe
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure, ToolOutcome
from towpath_tas.core import run_facts
from towpath_tas.core.approval_binding import binding, binding_digest
from towpath_tas.core.approvals import approvals
from towpath_tas.core.authorization import AuthorizationDecision, Authorize
from towpath_tas.core.authorization_query import query_of_call
from towpath_tas.core.call import Approval, CallAuditEntry, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.ledger import MAX_ATTEMPTS, dispatch_next, fail, repeat_fact, unknown, with_gate_resolution

MAX_DEAD_DELIVERIES = 3
"""Dead deliveries of a call that end it: the worker understands none of its attempts."""

_DID_NOT_HAPPEN = "Do it another way; the call did not happen."
_MAY_HAVE_RUN = "Do it another way; it is not known whether the call ran, and it changes nothing outside if it did."

NEVER_BEGAN = frozenset({"not_started", "cancelled", "invalid_arguments"})
"""Failures of workers that don't say whether the function was called; a `cancelled` in the middle is uncertain."""

_TICKET_ENDED = ToolFailure(
    code="not_started",
    message="the ticket ended before the worker heard that it may start; nothing was done",
    retryable=True,
    began=False,
)

MAX_COUNT = 2**31 - 1
"""Of milliseconds and bytes that a worker may claim: what its columns of the history hold."""

MAX_DIGEST_CHARS = 128

MAX_WORKER_CHARS = 256
"""As in a registration: entries of the audit have the name, which can't be withheld from a bundle."""

MAX_CODE_CHARS = 128
"""A bundle has it twice: as the entry has it, and as the ledger has it."""

MAX_PLACE_CHARS = 288
"""Of where a tool raised: the longest name of a file, and the number of a line."""

MAX_REASON_CHARS = 4_000
"""Of what a worker says of a call that was cut off, which a person reads; an honest one says half of that."""

_OPEN = frozenset({CallStatus.PERMITTED, CallStatus.STARTED, CallStatus.UNKNOWN, CallStatus.REQUESTED})
"""States in which an outcome decides; a call that a switch holds may have been out before."""


def on_outcome(
    call: LedgerCall | None,
    outcome: ToolOutcome,
    fault: str,
    authorize: Authorize,
    *,
    now: datetime,
    approval: Approval | None = None,
    fence: int = 0,
) -> LedgerChange:
    """Return the change that an outcome makes.

    *fault* says what is wrong with its ticket, if anything; *fence* is the stored one.
    """
    if call is None:
        return LedgerChange(dead_letter_reason="an outcome for a call that is not in the ledger")
    outcome = storable_outcome(outcome)
    if fault:
        return _evidence(
            call, outcome, f"ticket {fault}", dead_letter_reason=f"an outcome with a ticket that is {fault}"
        )
    if call.accepted == _key(outcome):
        return repeat_fact(call)  # a repeat: the confirmation was lost
    outcome = _of_unheard_grant(call, outcome)
    if outcome.status == "ticket_expired":
        return _authorize_again(call, outcome, authorize, now=now, approval=approval, stopped=fence > call.fence)
    if not _from_holder(call, outcome):
        return _evidence(call, outcome, "no claim was granted to it")
    if _is_uncertain(call, outcome):
        return with_gate_resolution(approval, _end_uncertain(call, outcome))
    if call.status not in _OPEN:
        return _evidence(call, outcome, f"the call is {call.status} already")  # a person's decision is final, too
    overtaken = _superseded_reason(call, outcome)
    if overtaken:
        return _evidence(call, outcome, overtaken)
    if _only_this_start_failed(call, outcome):
        return _ignore_failed_start(call, outcome, late=now >= call.deadline or fence > call.fence)
    return with_gate_resolution(approval, _accept(call, outcome))


def storable_outcome(outcome: ToolOutcome) -> ToolOutcome:
    """Return *outcome* with counts, names and a digest that every table and bundle can hold; a worker may claim any.

    The digest of a result in the blob store is looked for whenever the call is read: by the audit, and for where values
    come from, in one query with those of other calls. A text with U+0000 fails that query.
    """
    given = outcome.result_digest
    claimed: dict[str, object] = {
        "worker": outcome.worker[:MAX_WORKER_CHARS].replace("\0", "\ufffd"),
        "duration_ms": _limited_count(outcome.duration_ms),
        "result_bytes": _limited_count(outcome.result_bytes),
        "result_digest": None if given is None else given[:MAX_DIGEST_CHARS].replace("\0", "\ufffd"),
    }
    if outcome.failure is not None:
        claimed["failure"] = _limited_failure(outcome.failure)
    changed = {name: value for name, value in claimed.items() if value != getattr(outcome, name)}
    return outcome.model_copy(update=changed) if changed else outcome


def _limited_failure(claimed: ToolFailure) -> ToolFailure:
    code, place = claimed.code[:MAX_CODE_CHARS], claimed.place[-MAX_PLACE_CHARS:]
    return claimed.model_copy(update={"code": code, "place": place})


def _limited_count(claimed: int) -> int:
    return min(max(0, claimed), MAX_COUNT)


def on_dead_delivery(call: LedgerCall | None, attempt: int, toolset: str, reason: str, *, times: int) -> LedgerChange:
    """Return the change that a dead delivery of *attempt* makes to a call of *toolset*.

    *times* counts the dead deliveries of the call, including this one; attempts that timed out don't count.
    """
    if call is None or call.toolset != toolset or call.attempt != attempt:
        return LedgerChange()
    if call.status is not CallStatus.PERMITTED or call.ever_claimed:
        return LedgerChange()
    if times >= MAX_DEAD_DELIVERIES or attempt >= MAX_ATTEMPTS:
        message = f"no worker of {toolset} can read the call: {reason}"
        pure = call.effect_class is EffectClass.PURE  # such calls start without a claim
        return fail(
            call,
            "dead_lettered",
            message,
            hint=_MAY_HAVE_RUN if pure else _DID_NOT_HAPPEN,
            began=None if pure else False,
        )
    return dispatch_next(call, f"its delivery was a dead letter: {reason}")


def _superseded_reason(call: LedgerCall, outcome: ToolOutcome) -> str:
    """Return why an outcome of an earlier start no longer decides; empty if it does.

    A failed start does not mean that a later one fails; and a successful start says nothing about a second effect that
    a person allowed.
    """
    if call.effect_class is EffectClass.PURE:
        return ""
    last = call.last_granted
    if outcome.status == "failed":
        waits = call.status in {CallStatus.PERMITTED, CallStatus.REQUESTED}  # a held call will start again
        again = waits and outcome.attempt < call.attempt
        later = last is not None and last.claim_id != outcome.claim_id
        return "a later start of the call decides" if again or later else ""
    begun = call.status in {
        CallStatus.STARTED,
        CallStatus.UNKNOWN,
    }  # unknown as well: a person decides about that start
    second = begun and last is not None and last.claim_id != outcome.claim_id
    if second and call.effect_class is EffectClass.IRREVERSIBLE:
        return "a person let the call run again, and that start decides"
    return ""


def _is_uncertain(call: LedgerCall, outcome: ToolOutcome) -> bool:
    """Return whether the worker aborted the call and can't tell whether it happened: unknown, not failed."""
    may_not_repeat = call.effect_class in {EffectClass.IRREVERSIBLE, EffectClass.RECONCILABLE}
    return may_not_repeat and outcome.failure is not None and outcome.failure.uncertain


def _only_this_start_failed(call: LedgerCall, outcome: ToolOutcome) -> bool:
    """Return whether this start never began while an earlier one may have happened."""
    failure = outcome.failure
    if outcome.probe == "did_not_happen":
        return False
    return _never_began(failure) and any(claim.granted and claim.claim_id != outcome.claim_id for claim in call.claims)


def _never_began(failure: ToolFailure | None) -> bool:
    """The worker's own statement takes precedence over the code: a tool may use any code for its errors."""
    if failure is None or failure.uncertain:
        return False
    return failure.code in NEVER_BEGAN if failure.began is None else not failure.began


def _ignore_failed_start(call: LedgerCall, outcome: ToolOutcome, *, late: bool) -> LedgerChange:
    """Continue as if there was no outcome: `failed` would claim that the earlier start did not happen."""
    if call.status is CallStatus.UNKNOWN:
        return _evidence(call, outcome, "an earlier start was never reported")
    if call.effect_class is EffectClass.IRREVERSIBLE or late or call.attempt >= MAX_ATTEMPTS:
        return unknown(call, "an earlier attempt was started and never reported, and the last one never began")
    return dispatch_next(call, "the last attempt never began")


def _end_uncertain(call: LedgerCall, outcome: ToolOutcome) -> LedgerChange:
    if call.status not in {CallStatus.PERMITTED, CallStatus.STARTED} or outcome.failure is None:
        return _evidence(call, outcome, f"the call is {call.status} already")
    if _superseded_reason(call, outcome):
        return _evidence(call, outcome, _superseded_reason(call, outcome))
    said = truncate(f"{outcome.failure.code}: {outcome.failure.message}", MAX_REASON_CHARS)
    change = unknown(call, said, probe=outcome.probe)
    note = CallAuditEntry(
        phase="evidence", verdict=outcome.status, call=call, actor=outcome.worker, detail=_detail(outcome)
    )
    return LedgerChange(call=change.call, notes=(*change.notes, note), effects=change.effects)


def _accept(call: LedgerCall, outcome: ToolOutcome) -> LedgerChange:
    succeeded = outcome.status == "succeeded"
    result_digest = outcome.result_digest
    if outcome.blob:
        outcome = outcome.model_copy(update={"result": None})  # one of both counts, and the digest is the blob's
    else:
        result_digest, outcome = _with_digest(outcome)
    ended = call.next_revision(
        status=CallStatus.SUCCEEDED if succeeded else CallStatus.FAILED,
        fact=run_facts.reported(call, outcome, result_digest),
        accepted=_key(outcome),
        settled_by="",
    )
    note = CallAuditEntry(
        phase="outcome",
        verdict=str(ended.status),
        call=ended,
        actor=outcome.worker,
        detail={**_detail(outcome), "result_digest": result_digest},
    )
    return LedgerChange(call=ended, notes=(note,), effects=(SendFact(run_id=ended.run_id, fact=ended.fact or ""),))


def _with_digest(outcome: ToolOutcome) -> tuple[str, ToolOutcome]:
    """Compute the digest here, from what is passed on: the worker's own digest would prove nothing."""
    try:
        return digest(outcome.result), outcome
    except ValueError:  # NaN and infinities are not JSON, and must not be passed on
        safe = json_safe(outcome.result)
        return digest(safe), outcome.model_copy(update={"result": safe})


def _authorize_again(
    call: LedgerCall,
    outcome: ToolOutcome,
    authorize: Authorize,
    *,
    now: datetime,
    approval: Approval | None,
    stopped: bool,
) -> LedgerChange:
    """The ticket expired before the start: authorize again, and send the next attempt."""
    elsewhere = call.status is not CallStatus.PERMITTED or outcome.attempt != call.attempt
    if elsewhere or stopped or now >= call.deadline:
        return LedgerChange()  # another attempt is in progress, or the next request ends the call
    if call.attempt >= MAX_ATTEMPTS:
        message = f"{call.attempt} tickets ended before a worker could start; check its clock"
        if call.ever_claimed:
            return unknown(call, f"an earlier attempt was started and never reported, and {message}")
        return fail(call, "not_started", message, began=None if call.effect_class is EffectClass.PURE else False)
    decision = authorize(query_of_call(call))
    if decision.effect == "deny" or (
        decision.effect == "require_approval" and not is_covered(call, approval, decision)
    ):
        if call.ever_claimed:  # "denied" would say that it did not happen
            return unknown(call, "it may not run again, and an earlier attempt was started and never reported")
        if decision.effect == "deny":
            return approvals.deny(call, decision)
        return approvals.ask_for_approval(call, decision, now=now, before=approval)
    change = dispatch_next(call, "the ticket ended", policy_version=decision.policy_version, rule=decision.rule)
    grounds = approvals.grounds_of(replace(decision, origin=None))
    notes = tuple(replace(note, detail={**(note.detail or {}), **grounds}) for note in change.notes)
    return LedgerChange(call=change.call, notes=notes, effects=change.effects, policy_bound=True)


def is_covered(call: LedgerCall, approval: Approval | None, decision: AuthorizationDecision) -> bool:
    """Return whether the approval that this call has used up covers exactly what would run now."""
    if approval is None or approval.status != "consumed" or not approval.has_its_votes:
        return False
    return binding_digest(binding(call, decision)) == approval.digest


def _of_unheard_grant(call: LedgerCall, outcome: ToolOutcome) -> ToolOutcome:
    """Return *outcome*, or the failure of a worker that asked on until its ticket ended, while its claim was granted.

    The answer that granted it was lost, so nothing began.
    """
    if outcome.status != "ticket_expired" or not _was_granted(call, outcome):
        return outcome
    return outcome.model_copy(update={"status": "failed", "failure": _TICKET_ENDED})


def may_forget(call: LedgerCall, outcome: ToolOutcome) -> bool:
    """Return whether *outcome*, whose ticket is not good, may be confirmed to workers of *call*'s toolset.

    Where a start was granted it has to name one: whoever made it holds the real outcome, and would forget that. Else
    nothing is lost, and a worker whose ticket's key is gone would send for ever.
    """
    return _was_granted(call, outcome) or not any(claim.granted for claim in call.claims)


def _from_holder(call: LedgerCall, outcome: ToolOutcome) -> bool:
    if call.effect_class is EffectClass.PURE:
        return True
    return _was_granted(call, outcome)


def _was_granted(call: LedgerCall, outcome: ToolOutcome) -> bool:
    return any(claim.granted and claim.claim_id == outcome.claim_id for claim in call.claims)


def _evidence(call: LedgerCall, outcome: ToolOutcome, why: str, *, dead_letter_reason: str = "") -> LedgerChange:
    note = CallAuditEntry(
        phase="evidence",
        verdict=outcome.status,
        call=call,
        actor=outcome.worker,
        detail={**_detail(outcome), "reason": why},
        always=True,
    )
    return LedgerChange(notes=(note,), dead_letter_reason=dead_letter_reason)


def _key(outcome: ToolOutcome) -> str:
    return f"{outcome.attempt}:{outcome.claim_id or outcome.worker}{':late' if outcome.late else ''}"


def _detail(outcome: ToolOutcome) -> dict[str, object]:
    detail: dict[str, object] = {
        "attempt": outcome.attempt,
        "duration_ms": outcome.duration_ms,
        "result_bytes": outcome.result_bytes,
    }
    if outcome.claim_id is not None:
        detail["claim_id"] = str(outcome.claim_id)
    if outcome.failure is not None:
        detail["code"] = outcome.failure.code
    if outcome.probe:
        detail["probe"] = outcome.probe
    return detail
