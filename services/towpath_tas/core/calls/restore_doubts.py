"""Calls of runs that a backup knows less of than the world does: a person is asked before they are sent.

    about to be sent or claimed, in a run that the restored backup has as unfinished ──► unknown, and a person says
    happened, did not happen or retry

Whatever such a run did after the backup was made is lost with the database, and it may do all of that again: under the
same execution ids, or under others, since a model need not decide twice alike. So the word about one call says nothing
of the next, and each call that is not pure is asked about, once, until the run has ended. Children of such a run count
as the run does, also those that are started later: they may have had their run before.

A row keeps what may have happened as a claim that nobody reported, so that all rules about such claims hold: the call
is never said not to have started, and a probe comes first. The claim is also what shows that the question was asked.
"""

import uuid
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from towpath_contracts.tools.calls import CallStatus, ClaimAnswer, EffectClass
from towpath_tas.core.call import CallAuditEntry, DispatchCall, LedgerCall, LedgerChange, StartClaim
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
    """Return *change*, or, if it would send its call, a change that has a person asked what became of the call.

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
    if sent is None and not guessed:
        return change
    asked = _asked(after if before is None else replace(after, attempt=before.attempt), since)
    notes = [replace(note, call=asked.call or after) for note in change.notes if note.phase not in _NOT_SO]
    others = tuple(effect for effect in change.effects if not isinstance(effect, DispatchCall))
    return replace(
        change,
        call=asked.call,
        notes=(*notes, *asked.notes),
        effects=asked.effects if guessed else others + asked.effects,
    )


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


def _asked(after: LedgerCall, since: datetime) -> LedgerChange:
    """Return the change that makes *after*, the next revision of a row, unknown instead."""
    known = after if _was_asked(after, since) else with_possible_start(after, since)
    message = (
        f"the database was restored from a backup, and what happened since {since.isoformat(timespec='seconds')} is not"
        " known to this platform: the call may have happened already"
    )
    return unknown(replace(known, revision=after.revision - 1), message, lost_since=since)


def _has_effect(call: LedgerCall) -> bool:
    return call.effect_class is not EffectClass.PURE and not is_internal(call)


def _was_asked(call: LedgerCall, since: datetime) -> bool:
    wanted = _claim_id(call, since)
    return any(claim.claim_id == wanted for claim in call.claims)


def _claim_id(call: LedgerCall, since: datetime) -> UUID:
    return uuid.uuid5(call.execution_id, f"lost since {since.isoformat()}")
