"""Calls of runs that a backup knows less of than the world does: a person is asked before they are sent.

    about to be sent, claimed or refused, in a run that the restored backup has as unfinished ──► unknown, and a person
    says happened, did not happen or retry

Whatever such a run did after the backup was made is lost with the database, and it may do all of that again: under the
same execution ids, or under others, since a model need not decide twice alike. So the word about one call says nothing
of the next, and each call that is not pure is asked about, once, until the run has ended. Children of such a run count
as the run does, also those that are started later: they may have had their run before.

Decisions are made as if the row had a claim that nobody reported, so that all rules about such claims hold: the call is
never said not to have started, and a probe comes first. The claim is stored with the question and with nothing else,
since a stored one shows that the question was asked: a vote, a pause or a repeated claim leaves it open. A call that
waited for people and is refused now is asked about too: they may have approved it in the lost time.
"""

import json
import uuid
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from towpath_contracts.tools.calls import CallStatus, ClaimAnswer, EffectClass
from towpath_tas.core.call import CallAuditEntry, DispatchCall, LedgerCall, LedgerChange, StartClaim, send_fact
from towpath_tas.core.calls.internal_calls import is_internal
from towpath_tas.core.calls.ledger import unknown
from towpath_tas.core.restored_runs import RestoredRuns

_OVER = frozenset({CallStatus.DENIED, CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.VOID})


def with_possible_start(call: LedgerCall, since: datetime | None) -> LedgerCall:
    """Return *call* with the start that it may have had after the backup, if there may have been one."""
    if since is None or not _has_effect(call) or call.status in _OVER:
        return call
    claim = StartClaim(claim_id=_claim_id(call, since), attempt=call.attempt, worker="", granted=True, until=since)
    return replace(call, claims=(claim, *call.claims))  # before those that are known, whose worker may still report


def unasked_since(
    restored: RestoredRuns, call: LedgerCall | None, run_id: UUID, root_run_id: UUID | None = None
) -> datetime | None:
    """Return since when it is not known whether *call*, or a new one, has happened; None where it is.

    What a person was asked about is known. A stored call says itself which run is on top of its tree.
    """
    if not restored.lost_since:
        return None
    since = restored.find({run_id, root_run_id if call is None else call.root_run_id})
    return None if since is None or (call is not None and _was_asked(call, since)) else since


def ask_first(before: LedgerCall | None, change: LedgerChange, since: datetime | None) -> LedgerChange:
    """Return *change*, or, if it sends its call or says that it was not sent, one that has a person asked about it.

    *before* has the possible start already. A call that is unknown is sent by nothing but the word of a person.
    """
    if since is None or (before is not None and before.status is CallStatus.UNKNOWN):
        return change
    sent = next((effect.call for effect in change.effects if isinstance(effect, DispatchCall)), None)
    after = change.call or (sent.next_revision() if sent is not None else None)
    if after is None or not _has_effect(after):
        return change
    current = after.current_claim
    guessed = after.status is CallStatus.UNKNOWN and current is not None and current.is_possible
    refused = after.status is CallStatus.DENIED and after.ever_claimed
    if sent is None and not guessed and not refused:
        return change
    over = _refusal(after) if refused else ""
    asked = _asked(after if before is None else replace(after, attempt=before.attempt), since, over)
    notes = [replace(note, call=asked.call or after) for note in change.notes if not _is_not_so(note)]
    others = tuple(effect for effect in change.effects if not isinstance(effect, DispatchCall))
    told = send_fact(after) if guessed or refused else ()
    return replace(
        change,
        call=asked.call,
        notes=(*notes, *asked.notes),
        effects=(*(effect for effect in others if effect not in told), *asked.effects),
    )


def without_guess(before: LedgerCall | None, change: LedgerChange, since: datetime | None) -> LedgerChange:
    """Return *change* as it is stored: with the possible start only where a person is asked, or has answered."""
    call = change.call
    answered = before is not None and before.status is CallStatus.UNKNOWN
    if since is None or call is None or answered or call.status is CallStatus.UNKNOWN:
        return change
    notes = tuple(replace(note, call=_without_claim(note.call, since)) for note in change.notes)
    return replace(change, call=_without_claim(call, since), notes=notes)


def ask_before_start(
    before: LedgerCall | None, change: LedgerChange, answer: ClaimAnswer, since: datetime | None
) -> tuple[LedgerChange, ClaimAnswer]:
    """Return the answer to a claim: a new start is refused while nobody was asked, and a person is."""
    starts = change.call is not None and before is not None and len(change.call.claims) > len(before.claims)
    if since is None or before is None or not starts:
        return change, answer
    asked = _asked(before.next_revision(), since)
    reason = str(CallStatus.UNKNOWN)
    refused = CallAuditEntry(
        phase="claim", verdict="refused", call=before, actor=change.notes[0].actor, detail={"reason": reason}
    )
    none = {"granted": False, "reason": reason, "start_by_ms": 0, "lease_ms": 0, "probe": ""}
    return replace(asked, notes=(refused, *asked.notes), policy_bound=True), answer.model_copy(update=none)


_NOT_SO = frozenset({"dispatch", "outcome"})
"""Phases of notes that say what does not become of the call now."""


def _is_not_so(note: CallAuditEntry) -> bool:
    return note.phase in _NOT_SO or note.verdict == "deny"


def _refusal(call: LedgerCall) -> str:
    """Return what a refused call would have been told."""
    denial = json.loads(call.fact or "{}").get("denial") or {}
    return f"; it is not allowed now: {denial.get('reason', '')}"


def _asked(after: LedgerCall, since: datetime, over: str = "") -> LedgerChange:
    """Return the change that makes *after*, the next revision of a row, unknown instead; *over* ends its message."""
    known = after if _was_asked(after, since) else with_possible_start(after, since)
    message = (
        f"the database was restored from a backup, and what happened since {since.isoformat(timespec='seconds')} is not"
        f" known to this platform: the call may have happened already{over}"
    )
    return unknown(replace(known, revision=after.revision - 1), message, lost_since=since)


def _without_claim(call: LedgerCall, since: datetime) -> LedgerCall:
    wanted = _claim_id(call, since)
    return replace(call, claims=tuple(claim for claim in call.claims if claim.claim_id != wanted))


def _has_effect(call: LedgerCall) -> bool:
    return call.effect_class is not EffectClass.PURE and not is_internal(call)


def _was_asked(call: LedgerCall, since: datetime) -> bool:
    wanted = _claim_id(call, since)
    return any(claim.claim_id == wanted for claim in call.claims)


def _claim_id(call: LedgerCall, since: datetime) -> UUID:
    return uuid.uuid5(call.execution_id, f"lost since {since.isoformat()}")
