"""Where a bundle begins, and whether what was before it may be missing.

A bundle from some time on begins at a checkpoint whose signed time is before that. Otherwise leaves may be missing only
where an entry of the log says that retention dropped them, and names the checkpoint that stands for them; none of them
was younger than a day then. Times that count are signed ones, or those of entries: never what a table says of a seal.
Signed times count only where they can be true: none lies before an earlier one, or after the export.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note, read_time, write_time
from towpath_audit.report import AuditFault
from towpath_audit.sealed_erasures import read_detail

DROPPED = "audit.dropped"

LEAST_AGE = timedelta(hours=23)
"""Of what retention drops: a day, less what a clock may be set by."""

CLOCK_ALLOWANCE = timedelta(minutes=15)
"""By which a checkpoint may be later than the time of the export: both are of some replica's clock."""

CARRIED_OUT_WITHIN = timedelta(days=60)
"""An erasure is confirmed within a week after its delay, and then carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dropped:
    """An entry of retention: up to which leaf it dropped the log, with which root; `at` once it can be told."""

    leaf: int
    line: int | None
    entry_id: int
    to: int
    root: bytes | None
    at: datetime | None

    def fault(self, code: str, message: str) -> AuditFault:
        return AuditFault(code=code, message=message, line=self.line, leaf=self.leaf, entry_id=self.entry_id)


@dataclass
class RetentionCheck:
    """Receives the header, the entries of retention and the checkpoints of a bundle; `finish` reports what is missing.

    `dropped`: retention dropped what was before, as far as this is proved; known once it is finished. `last_sealed`:
    when the last checkpoint so far was signed, as entries write times.
    """

    add_fault: Callable[[AuditFault], None]
    notes: list[str]
    dropped: bool = False
    last_sealed: str = ""
    _header: dict[str, Any] = field(default_factory=dict)
    _latest: datetime | None = None
    _last_time: datetime | None = None
    _since: datetime | None = None
    _begins: Checkpoint | None = None
    _kept: Checkpoint | None = None
    _edge: MerkleFrontier = field(default_factory=MerkleFrontier)
    _entries: list[_Dropped] = field(default_factory=list)
    _sealed: int = 0

    def on_header(self, line: dict[str, Any], edge: MerkleFrontier, keys: Sequence[PublicKey]) -> None:
        """Read where the bundle begins; *edge* is the tree before its first leaf."""
        self._header, self._edge = line, edge
        self._since = None if line["since"] is None else read_time(line["since"])
        self._begins = self._checkpoint(line.get("begins"), keys)
        self._kept = self._checkpoint(line.get("kept"), keys)
        if self._begins is not None and (self._begins.size, self._begins.root) != (edge.size, edge.root):
            self._begins = None
        exported_at = _time(line["exported_at"])
        self._latest = None if exported_at is None else _add(exported_at, CLOCK_ALLOWANCE)
        for one in (self._kept, self._begins):
            self.check_time(1, one)
        if not self._tells_times:  # of earlier releases
            self._kept = Checkpoint("", edge.size, edge.root)

    def check_time(self, line: int, signed: Checkpoint | None) -> None:
        """Report a signed checkpoint whose time can't be true; they come in the order of the log."""
        if signed is None or signed.at is None:
            return
        said, before = write_time(signed.at), self._last_time
        if before is not None and signed.at < before:
            message = (
                f"the checkpoint over {signed.size} leaves is of {said}, and one before it of {write_time(before)}"
            )
            self.add_fault(AuditFault(code="checkpoint_time", message=message, line=line, leaf=max(signed.size - 1, 0)))
        elif self._latest is not None and signed.at > self._latest:
            message = f"the checkpoint over {signed.size} leaves is of {said}, which is after the export"
            self.add_fault(AuditFault(code="checkpoint_time", message=message, line=line, leaf=max(signed.size - 1, 0)))
        self._last_time = signed.at

    def on_entry(self, leaf: int, line: int | None, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        """Add an entry of retention."""
        said = read_detail(payload)
        to, edge = said.get("to"), said.get("edge")
        try:
            root = MerkleFrontier(to, tuple(bytes.fromhex(one) for one in edge)).root  # type: ignore[arg-type, union-attr]
        except (TypeError, ValueError, AttributeError):
            root = None
        known = to if type(to) is int else 0
        at = _time(entry.at)
        self._entries.append(_Dropped(leaf=leaf, line=line, entry_id=entry.entry_id, to=known, root=root, at=at))

    def on_earlier(self, leaf: int, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        """Add one from before the first leaf, which the checkpoint at the beginning covers."""
        if payload is None:  # of earlier releases
            self.dropped = self.dropped or not self._tells_times
            return
        self.on_entry(leaf, None, entry, payload)
        self.on_sealed(None if self._begins is None else self._begins.at)

    def on_sealed(self, at: datetime | None) -> None:
        """Entries that came since the last checkpoint are from before the next one, whatever they say."""
        for place in range(self._sealed, len(self._entries)):
            said = self._entries[place].at
            if said is not None and at is not None:
                self._entries[place] = replace(self._entries[place], at=min(said, at))
        self._sealed = len(self._entries)
        if at is not None:
            self.last_sealed = write_time(at)

    def finish(self, outside: Sequence[Checkpoint]) -> None:
        """Report what is missing without a reason; *outside* are kept checkpoints from before the first leaf."""
        retained = self._retained()
        self.dropped = self.dropped or retained is not None
        first = self._edge.size
        begun_by_time = first > 0 and self._since is not None and self._begun_by(self._since)
        begun_by_retention = retained is not None and (retained.to, retained.root) == (first, self._edge.root)
        if first and not begun_by_time and not begun_by_retention:
            self._begins_unproved(first)
        for one in outside:
            self._compare_age(one, retained, since=self._since if begun_by_time else None)

    @property
    def told_from(self) -> str:
        """From when on erasures are carried out whose requests retention can't have dropped."""
        at = None if self._kept is None else self._kept.at
        end = None if at is None else _add(at, CARRIED_OUT_WITHIN)
        return "~" if end is None else write_time(end)

    @property
    def _tells_times(self) -> bool:
        return "begins" in self._header

    def _retained(self) -> _Dropped | None:
        """Return the entry of retention that fits what is kept; report those that can't be true."""
        found = None
        for one in self._entries:
            here = 0 if self._kept is None else self._kept.size
            if not 0 < one.to <= here:
                message = f"it says that what was before leaf {one.to} was dropped, and the log begins at leaf {here}"
                self.add_fault(one.fault("drop_untrue", message))
            elif self._fits(one) and self._is_old(one):
                found = one
        return found

    def _fits(self, one: _Dropped) -> bool:
        if not self._tells_times and self._since is not None:
            return True  # older bundles from some time on don't show where the log began
        return self._kept is not None and (one.to, one.root) == (self._kept.size, self._kept.root)

    def _is_old(self, one: _Dropped) -> bool:
        sealed = None if self._kept is None else self._kept.at
        if not self._tells_times:
            return True
        if one.at is not None and sealed is not None and one.at - sealed >= LEAST_AGE:
            return True
        message = f"leaves before {one.to} were dropped that were not a day old"
        self.add_fault(one.fault("drop_untrue", message))
        return False

    def _begun_by(self, since: datetime) -> bool:
        if not self._tells_times:
            self.notes.append(
                "this bundle does not show when what is before its first leaf was sealed: that it begins before the "
                "time that was asked for isn't proved"
            )
            return True
        return self._begins is not None and self._begins.at is not None and self._begins.at < since

    def _begins_unproved(self, first: int) -> None:
        message = f"the log begins at leaf {first}, and no entry says that retention dropped what was before"
        if self._since is not None:
            message += ", nor does a checkpoint that all of it is from before the time that was asked for"
        self.add_fault(AuditFault(code="head_missing", message=message, line=1, leaf=0, last_leaf=first - 1))

    def _compare_age(self, kept: Checkpoint, retained: _Dropped | None, *, since: datetime | None) -> None:
        """Report leaves that are not here and came after a checkpoint that somebody *kept*, which is too young."""
        if kept.at is None:
            return
        first = self._edge.size
        if retained is not None and retained.at is not None and kept.size < retained.to:
            if kept.at > retained.at - LEAST_AGE:
                message = f"the log had {kept.size} leaves less than a day before retention dropped {retained.to}"
                self._too_young(message, kept.size, retained.to)
        elif since is not None and kept.at >= since:
            message = f"the log had {kept.size} leaves at a time that this bundle shows, and it begins at leaf {first}"
            self._too_young(message, kept.size, first)

    def _too_young(self, message: str, begin: int, end: int) -> None:
        self.add_fault(AuditFault(code="head_missing", message=message, line=1, leaf=begin, last_leaf=end - 1))

    def _checkpoint(self, note: object, keys: Sequence[PublicKey]) -> Checkpoint | None:
        try:
            found = Checkpoint.read(open_note(str(note), keys)[0])
        except NoteError:
            return None
        return found if found.origin == self._header.get("origin") else None


def _add(at: datetime, span: timedelta) -> datetime | None:
    """Return *at* and *span* after it; None for a time that is out of the calendar."""
    try:
        return at + span
    except OverflowError:
        return None


def _time(text: str) -> datetime | None:
    try:
        return read_time(text)
    except ValueError:
        return None
