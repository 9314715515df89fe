"""Do the entries of one call fit each other, and does the ledger say that the call ended as they say?

Whoever owns the database can swap the arguments of a call between its decision and its start, or write an outcome into
the ledger that no worker reported, and put back what shows it there. The entries of the call stay. Each has the digest
of the arguments that were the call's when it was written, and tells which status the call had from then on. Digests of
erased payloads, and of entries that a bundle doesn't include, are not known and not compared.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.report import AuditFault
from towpath_audit.sealed_erasures import read_detail
from towpath_audit.sealed_persons import EntryPlace, later

CallKey = tuple[str, str]
"""The ids of a run and of its call, as text."""

STATUS_AFTER = {
    ("decision", "allow"): "permitted",
    ("decision", "require_approval"): "awaiting_approval",
    ("decision", "deny"): "denied",
    ("approval.consumed", "allow"): "permitted",
    ("approval.expired", "deny"): "denied",
    ("held", "waits"): "requested",
    ("claim", "granted"): "started",
    ("dispatch", "again"): "permitted",
    ("dispatch", "repeated"): "permitted",
    ("outcome", "succeeded"): "succeeded",
    ("outcome", "failed"): "failed",
    ("outcome", "unknown"): "unknown",
    ("outcome", "void"): "void",
    ("settled", "happened"): "succeeded",
    ("settled", "retry"): "permitted",
}
"""Which status a call has after an entry, by phase and verdict; others change none."""

DECIDED = frozenset({("decision", "allow"), ("decision", "require_approval"), ("approval.consumed", "allow")})
"""Entries whose arguments are the ones that the call has from then on."""

ASKED = ("decision", "require_approval")
EDITED = "approval.edited"

EXECUTED = frozenset(
    {
        *(("claim", "granted"), ("settled", "happened"), ("settled", "retry")),
        *(("dispatch", "again"), ("dispatch", "repeated")),
        *(("outcome", "succeeded"), ("outcome", "failed"), ("outcome", "unknown")),
    }
)
"""Entries about a call that was let go."""

WAITED = frozenset({"awaiting_approval", "requested"})
"""Statuses of a call that people or a switch hold back."""

DOUBTFUL = ("outcome", "unknown")

ENDS_OF_DOUBT = frozenset({DOUBTFUL, ("outcome", "failed"), ("settled", "happened"), ("settled", "retry")})
"""What becomes of a call that nothing let go, as far as a restored database knows: people are asked what happened."""

CLASS, ONCE = "effect_class", "irreversible"
"""What the details of decisions name, and which class it is of whose calls each is made once."""

NEVER_BEGAN = frozenset({"not_started", "dead_lettered"})
"""Codes with which the service itself ends a call that no worker began; a worker's outcome names its attempt."""

WRITTEN_TOGETHER = timedelta(seconds=5)
"""Entries of one commit have times of their own, which lie so close to each other."""


class CallFault(NamedTuple):
    """What is wrong at an entry of a call."""

    code: str
    message: str
    place: EntryPlace


class _Decided(NamedTuple):
    """The digest of the arguments that an entry decided about; None if it is not known."""

    entry_id: int
    args_digest: str | None


_entry_id = attrgetter("entry_id")


@dataclass(slots=True)
class _CallEntries:
    """What is kept of a call: its decisions, in the order of their ids, and the last entry that changed its status."""

    decided: list[_Decided] = field(default_factory=list)
    last: int = -1
    leaf: int = -1
    status: str = ""


def call_key(entry: AuditLogEntry) -> CallKey | None:
    """Return which call an entry is about; None if it is about none."""
    return None if entry.execution_id is None else (str(entry.run_id), entry.execution_id)


@dataclass
class SealedCalls:
    """Receives the entries of calls in the order of the log; its methods return or yield what doesn't fit.

    Within a seal the decisions of a call come first, so the ids tell what was written before what. What is later than
    *until* is hidden. *partial*: the log began before the bundle.
    """

    calls: dict[CallKey, _CallEntries] = field(default_factory=dict)
    until: str | None = None
    partial: bool = False
    editors: dict[CallKey, tuple[int, str]] = field(default_factory=dict)
    stored_editors: dict[CallKey, tuple[str, EntryPlace]] = field(default_factory=dict)
    unedited: dict[tuple[CallKey, str], EntryPlace] = field(default_factory=dict)
    rows: dict[CallKey, tuple[object, int, int]] = field(default_factory=dict)
    listed: set[CallKey] = field(default_factory=set)
    classes: dict[CallKey, set[str]] = field(default_factory=dict)
    never_began: set[int] = field(default_factory=set)
    doubts: set[CallKey] = field(default_factory=set)

    def on_entry(self, place: EntryPlace, payload: ErasablePayload | None) -> CallFault | None:
        """Add an entry; return what is wrong with its arguments, if anything."""
        entry = place.entry
        key, kind = call_key(entry), (entry.phase, entry.verdict)
        if key is None:
            return None
        digest = None if payload is None else payload.args_digest
        self._keep_class(key, entry, payload)
        if entry.phase == EDITED:
            self.unedited.pop((key, str(digest)), None)
            self.editors[key] = max(self.editors.get(key, (-1, "")), (entry.entry_id, entry.actor))
        if kind not in STATUS_AFTER:
            return None
        call = self.calls.setdefault(key, _CallEntries())
        if entry.entry_id > call.last:
            if kind == DOUBTFUL and call.status in WAITED:
                self.doubts.add(key)
            call.last, call.leaf, call.status = entry.entry_id, place.leaf, STATUS_AFTER[kind]
        if kind not in DECIDED and kind not in EXECUTED:
            return None
        before = bisect_left(call.decided, entry.entry_id, key=_entry_id)
        decided = call.decided[before - 1].args_digest if before else None
        differs = None not in (decided, digest) and decided != digest
        if kind in DECIDED:
            insort(call.decided, _Decided(entry.entry_id, digest), key=_entry_id)
        if differs and kind == ASKED:
            self.unedited[key, str(digest)] = place  # its edit is the next entry
            return None
        if differs:
            message = f"{entry.phase} {entry.verdict} of call {key[1]} has other arguments than were decided before"
            return CallFault("call_args_changed", message, place)
        return None

    def _keep_class(self, key: CallKey, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        """Keep the effect class that the call was decided by, and which entries say that nobody began it."""
        if payload is not None and f'"{CLASS}"' in payload.detail:
            self.classes.setdefault(key, set()).add(str(read_detail(payload).get(CLASS)))
        elif (entry.phase, entry.verdict) == ("outcome", "failed"):
            detail = read_detail(payload)
            if detail.get("code") in NEVER_BEGAN and "attempt" not in detail:
                self.never_began.add(entry.entry_id)
        elif (entry.phase, entry.verdict) == ("outcome", "void"):
            self.never_began.add(entry.entry_id)

    def settles_doubt(self, key: CallKey, kind: tuple[str, str]) -> bool:
        """Return whether an entry of *kind* needs no decision before it: its call waited, and then was unknown.

        A restored database has it so where the call may have been let go after the backup was made.
        """
        return key in self.doubts and kind in ENDS_OF_DOUBT

    def made_once(self) -> set[CallKey]:
        """Return the calls that were irreversible whenever something was decided about them."""
        return {key for key, classes in self.classes.items() if classes == {ONCE}}

    def on_effect(self, line: dict[str, Any]) -> tuple[str, int] | None:
        """Return what is wrong with the status of a row of the ledger, and the leaf of the last entry of its call.

        Lines that don't say that the bundle has the `last_entry` of the call (those of earlier releases) tell nothing.
        """
        key = str(line.get("run_id")), str(line.get("execution_id"))
        self.listed.add(key)
        call = self.calls.get(key)
        if line.get("last_entry") is not True or call is None or call.status == line.get("status"):
            return None
        message = f"the ledger says that call {key[1]} of {line.get('tool')} is {line.get('status')}"
        return f"{message}, and by the entries of the log it is {call.status}", call.leaf

    def on_stored(self, entry: AuditLogEntry, leaf: int, line: int, found: Any) -> None:
        """Keep what a row said when it was compared with an *entry*, if the bundle has the last one by then.

        That is its status, and who put other arguments in place of those that were asked for.
        """
        key = call_key(entry)
        if key is not None and isinstance(found, dict) and found.get("last_entry") is True:
            self.rows[key] = found.get("status"), leaf, line
            if isinstance(found.get("edited_by"), str):
                self.stored_editors[key] = found["edited_by"], EntryPlace(entry, leaf, line)

    def differing_rows(self) -> Iterator[AuditFault]:
        """Return the rows that say another status than the entries of their calls, and are not told of as effects.

        Which calls a bundle has as effects the dates of their rows say.
        """
        for key, (status, leaf, line) in self.rows.items():
            by_log = self.calls[key].status if key in self.calls else ""
            if key not in self.listed and by_log not in ("", status):
                message = (
                    f"the ledger says that call {key[1]} is {status}, and by the entries of the log it is {by_log}"
                )
                yield AuditFault(code="effect_without_outcome", message=message, leaf=leaf, line=line)

    def finish(self) -> Iterator[CallFault]:
        """Return the questions to people about arguments that nobody put in place of the decided ones.

        And the rows that name another editor than the entries; of an edit from before the bundle, or after the time
        that was asked for, there may be none.
        """
        for (key, _), place in self.unedited.items():
            if self.until is not None and later(place.entry.at, WRITTEN_TOGETHER) > self.until:
                continue  # its edit may be hidden: both are of one commit, and have times of their own
            message = f"people were asked about other arguments of call {key[1]} than before, and no entry edits them"
            yield CallFault("call_args_changed", message, place)
        for key, (by_row, place) in self.stored_editors.items() if self.until is None else ():
            by_log = self.editors.get(key, (-1, ""))[1]
            if by_row != by_log and (by_log or not self.partial):
                message = f"edited_by: the arguments of call {key[1]} are stored as edited by {by_row or 'nobody'!r}"
                yield CallFault("stored_changed", message, place)
