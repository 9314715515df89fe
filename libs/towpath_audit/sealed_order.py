"""Do the ids and times of entries fit the order in which checkpoints covered them?

Whoever owns the database can set the sequence of ids back, or date back what is written, so that what is done now seems
to have come before a policy, a pause or the end of a key. Which checkpoint was the first to cover an entry is signed.

Who decides about calls and who changes what decides them exclude each other, and so do the changes of one call: what
comes later has the higher id, and no earlier checkpoint covers it. Others may be at work at the same time, and their
entries come as they are committed. A seal takes all that is committed, unless it is full; so what it doesn't cover is
not older, but for what clocks may differ by. Of what one checkpoint is the first to cover, nothing but the ids tells.
Checkpoints of the bundle may have been deleted; those that were kept outside count as they do.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from towpath_audit.entries import AuditLogEntry
from towpath_audit.notes import write_time
from towpath_audit.report import AuditFault
from towpath_audit.sealed_calls import STATUS_AFTER, call_key
from towpath_audit.sealed_persons import LET_GO, PAUSED, RESUMED, later
from towpath_audit.sealed_rules import JUDGED, POLICY_APPLIED
from towpath_audit.sealed_tools import DRIFTED, IN_FORCE_AFTER, OFFERED, RESTORED

MAX_LEAVES_PER_SEAL = 10_000
"""Leaves in one seal. More would hold the lock, and the memory, for longer than the next seal should wait.

Verifiers tell by it which seals were full, those of older logs too: with another number they would be misjudged.
"""

CLOCKS_DIFFER = timedelta(minutes=6)
"""By which an entry may be older than the checkpoint before it: nothing is sealed where the sealer's clock and that of
Postgres differ by more than five minutes, and a commit takes a while."""

DECIDING = frozenset(
    {POLICY_APPLIED, PAUSED, RESUMED, DRIFTED, RESTORED, "tool.registered", *(IN_FORCE_AFTER.keys() - OFFERED)}
) - {"tool.refused"}
"""Phases of entries that are written while nobody decides about calls of the project."""

DECIDED = LET_GO | JUDGED
"""Entries, as phase and verdict, that are written while nobody changes what decides."""


@dataclass
class SealedOrder:
    """Receives the entries of a bundle and its checkpoints, in the order of the log."""

    add_fault: Callable[[AuditFault], None]
    _covered: dict[Hashable, int] = field(default_factory=dict)
    _waiting: dict[Hashable, int] = field(default_factory=dict)
    _not_before: str = ""
    _size: int = 0
    _begun: int = 0
    _times: set[datetime | None] = field(default_factory=set)

    def on_begin(self, size: int, before: int | None = None) -> None:
        """Begin behind *size* leaves, which checkpoints before all others cover.

        *before*: the most leaves that a checkpoint from outside covers which are fewer; without one, nobody tells
        whether the seal that the bundle begins behind was full.
        """
        self._size = size
        self._begun = 0 if size == 0 else MAX_LEAVES_PER_SEAL if before is None else size - before

    def on_entry(self, leaf: int, line: int, entry: AuditLogEntry) -> AuditLogEntry:
        """Add an entry; return it with the time at which it can have been written at the earliest, if that is later."""
        among, behind = _ordered_by(entry)
        before = max((self._covered.get(one, -1) for one in behind), default=-1)
        if entry.entry_id < before:
            message = (
                f"{entry.phase} {entry.verdict} has a lower id than entry {before}, which was sealed before: "
                "the one excludes the other, so the ids were set back"
            )
            place = {"leaf": leaf, "line": line, "entry_id": entry.entry_id}
            self.add_fault(AuditFault(code="entry_out_of_order", message=message, **place))
        for one in among:
            self._waiting[one] = max(self._waiting.get(one, -1), entry.entry_id)
        return entry if entry.at >= self._not_before else replace(entry, at=self._not_before)

    def on_earlier(self, entry: AuditLogEntry) -> None:
        """Add an entry from before the first leaf of the bundle: a checkpoint before all others covers it."""
        for one in _ordered_by(entry).among:
            self._covered[one] = max(self._covered.get(one, -1), entry.entry_id)

    def on_checkpoint(self, at: datetime | None, size: int) -> None:
        """Add a checkpoint of the bundle or from outside, which may be the same; what is behind *size* comes later."""
        leaves = size - self._size
        if size > self._size:
            self._times.clear()
        elif at in self._times:
            return  # else a full seal would seem to be one that leaves nothing behind
        elif not self._times:
            leaves = self._begun
        self._times.add(at)
        self.on_sealed(at, leaves)
        self._size = size

    def on_sealed(self, at: datetime | None, leaves: int) -> None:
        """Add a checkpoint, which is the first to cover so many *leaves*."""
        for one, entry_id in self._waiting.items():
            self._covered[one] = max(self._covered.get(one, -1), entry_id)
        self._waiting.clear()
        if at is not None and leaves < MAX_LEAVES_PER_SEAL:
            self._not_before = max(self._not_before, later(write_time(at), -CLOCKS_DIFFER))


class _Ordered(NamedTuple):
    """Which entries an entry is one *among*, and *behind* which it has to stand once a checkpoint covers them."""

    among: tuple[Hashable, ...] = ()
    behind: tuple[Hashable, ...] = ()


def _ordered_by(entry: AuditLogEntry) -> _Ordered:
    changes, decisions = ("changes", entry.project), ("decisions", entry.project)
    if entry.phase in DECIDING:
        return _Ordered((changes,), (changes, decisions))
    kind, call = (entry.phase, entry.verdict), call_key(entry)
    of_call = (call,) if call is not None and kind in STATUS_AFTER else ()
    return _Ordered((decisions, *of_call), (changes, *of_call)) if kind in DECIDED else _Ordered(of_call, of_call)
