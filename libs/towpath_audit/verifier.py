"""Verifies a bundle line by line and reports where the first fault is.

It trusts nothing that it can compute. Each entry is hashed again, the tree is grown leaf by leaf and compared with
every checkpoint, those of the bundle and those from outside; every line is covered by a signed page. Whatever the lines
contain, the result is a report and never an exception.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from towpath_audit.bundle import EVERY_PROJECT, FORMAT, FORMATS, Line, digest, is_page_signed
from towpath_audit.bundle_lines import (
    SCOPE_FIELDS,
    BadLineError,
    check_header,
    leaf_index,
    parse_line,
    read_hash,
    read_hidden_entry,
)
from towpath_audit.completeness import BundleCompletenessCheck
from towpath_audit.entries import LEAF_FORM, AuditLogEntry, EntryError, ErasablePayload, HiddenEntry
from towpath_audit.merkle import MerkleFrontier, ProofError, check_inclusion
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note, read_keys
from towpath_audit.report import AuditFault, AuditReport
from towpath_audit.retention import RetentionCheck
from towpath_audit.sealed_order import SealedOrder

MAX_FAULTS = 1_000
"""Faults that are listed; the rest is dropped."""


def verify(lines: Iterable[str], *, checkpoints: Sequence[str] = (), keys: Sequence[str] = ()) -> AuditReport:
    """Verify the *lines* of a bundle.

    *checkpoints* are signed notes that were kept outside of the platform; *keys* are the trusted public keys, each as
    `name+id+key` or by its fingerprint. Without *keys* those in the bundle are trusted.
    """
    walk = BundleVerifier(checkpoints, keys)
    for number, line in enumerate(lines, 1):
        walk.take(number, line.removesuffix("\n"))
    return walk.end()


class BundleVerifier:
    """Verifies a bundle whose lines come one after the other, such as one that is still being made."""

    def __init__(self, checkpoints: Sequence[str], pinned: Sequence[str]) -> None:
        self._report = AuditReport()
        self._outside_notes = checkpoints
        self._pinned = pinned
        self._header: Line = {}
        self._keys: list[PublicKey] = []
        self._edge = self._before = MerkleFrontier()
        self._diverged = False  # the tree differs from the signed one: later lines are not compared with it
        self._sealed = 0
        self._agreed = 0  # up to here a checkpoint from outside confirms the tree
        self._outside: dict[int, list[Checkpoint]] = defaultdict(list)
        self._confirmed: list[Checkpoint] = []  # those from outside that the line which is being taken came to
        self._retention = RetentionCheck(self._add_finding, self._report.notes)
        self._completeness = BundleCompletenessCheck(self._add_finding, self._retention)
        self._order = SealedOrder(self._add_fault)
        self._page: list[tuple[int, str]] = []
        self._pages = 0
        self._previous = ""
        self._last = False
        self._counts = {"leaves": 0, "hidden": 0, "checkpoints": 0, "lines": 0}
        self._form = LEAF_FORM
        self._own_hidden = 0
        self._fault_count = 0
        self._cut, self._untold = False, 0
        self._kinds: dict[str, Callable[[int, Line], None]] = {
            "leaf": self._on_leaf,
            "earlier": self._on_earlier,
            "hidden": self._on_hidden,
            "unfit": self._on_unfit,
            "checkpoint": self._on_checkpoint,
            "effect": self._completeness.on_effect,
            "policy": lambda _number, line: self._completeness.on_policy(line),
            "stored": lambda _number, line: self._completeness.on_stored(line),
            "step": lambda _number, line: self._completeness.on_step(line),
        }

    def take(self, number: int, text: str) -> None:
        """Verify one line."""
        self._counts["lines"] = number
        try:
            line = parse_line(text)
            if line["kind"] == "page" and not self._last:
                self._on_page(number, line, text)
                return
            self._page.append((number, text))
            self._take(number, line)
        except (BadLineError, RecursionError) as error:  # a line may be almost too deeply nested to be parsed
            if not self._page or self._page[-1][0] != number:
                self._page.append((number, text))
            self._fault("unreadable", str(error), line=number)

    def _take(self, number: int, line: Line) -> None:
        if self._last:
            raise BadLineError("the bundle has ended before")
        if line["kind"] == "header" or number == 1:
            self._on_header(number, line)
        elif line["kind"] in self._kinds:
            self._kinds[line["kind"]](number, line)
        else:
            raise BadLineError(f"a line of kind {line['kind']!r} is not known")
        for outside in self._confirmed:
            self._order.on_checkpoint(outside.at, outside.size)
        self._confirmed.clear()

    def end(self) -> AuditReport:
        """Return the report."""
        if not self._last:
            message = f"the bundle ends before its last page, at leaf {self._edge.size}: export it again"
            self._fault("truncated", message, line=self._counts["lines"] or None)
            self._cut = True
        if self._header:
            self._end_of_tree()
            first = self._header["first"]
            self._retention.finish([one for size in self._outside if size < first for one in self._outside[size]])
        self._completeness.finish(self._report)
        if self._untold:
            said = f"entries that rest on nothing that is here: {self._untold}"
            self._report.notes.append(f"{said}; what is missing at the end may explain them, so they are not listed")
        if not self._outside_notes:
            self._report.notes.append(
                "no checkpoint from outside was given: that the log was cut off after the last checkpoint of this "
                "bundle, or written anew by whoever holds the key, can't be excluded"
            )
        self._part()
        if not self._pinned:
            self._report.notes.append("no key was pinned: the bundle's own word was taken for whose key it is")
        report = self._report
        report.figures |= {**self._counts, "first": self._header.get("first"), "size": self._edge.size}
        report.figures |= {"root": self._edge.root.hex(), "keys": [key.fingerprint for key in self._keys]}
        report.figures |= {name: self._header.get(name) for name in SCOPE_FIELDS}
        return report.ordered()

    def _part(self) -> None:
        """Note what the bundle is a part of: it proves nothing about the rest."""
        since, until, hidden = self._header.get("since"), self._header.get("until"), self._counts["hidden"]
        if since is None and until is None and not hidden:
            return
        when = " ".join(words for words in (since and f"from {since}", until and f"to {until}") if words)
        project = self._header.get("project")
        shown = "this bundle shows every project" if project == EVERY_PROJECT else f"this bundle shows {project!r} only"
        shown += f", {when}" if when else ""
        if self._form == 1:
            said = f"of its {hidden} hidden leaves nothing is said but that they are there"
        else:
            said = f"{hidden - self._own_hidden} hidden leaves are proved to be of other projects"
            if self._own_hidden:
                said += (
                    f", {self._own_hidden} are its own: whether they are after the time that was asked for isn't proved"
                )
        self._report.notes.append(f"{shown}; {said}")

    def _on_header(self, number: int, line: Line) -> None:
        if number != 1 or line["kind"] != "header":
            raise BadLineError("the header is the first line, and the only one")
        form = FORMATS.get(str(line.get("format")))
        if form is None:
            raise BadLineError(f"this is not a bundle of the form {FORMAT}")
        self._form = form
        try:
            check_header(line)
            hashes = tuple(bytes.fromhex(one) for one in line["edge"])
            self._edge = MerkleFrontier(line["first"], hashes)
            bundle_keys = read_keys(line["keys"])
        except (KeyError, TypeError, ValueError, AttributeError, NoteError) as error:
            raise BadLineError(f"the header can't be used: {error}") from error
        self._header = line
        self._sealed = self._agreed = self._edge.size
        self._completeness.partial = self._edge.size > 0
        self._completeness.erasures.confirmations = form > 1
        self._completeness.persons.exported_at = line["exported_at"]
        self._completeness.persons.until = self._completeness.calls.until = line["until"]
        self._completeness.persons.sealed = line.get("sealed") is not False
        self._completeness.tells_earlier = line.get("earlier") is True
        self._completeness.tells_grounds = line.get("grounds") is True
        self._before = self._edge
        self._trust(bundle_keys)
        self._retention.on_header(line, self._edge, self._keys)
        self._read_outside()
        self._order.on_begin(
            self._edge.size, max((one for one in self._outside if one < self._edge.size), default=None)
        )
        self._compare_outside(number)

    def _trust(self, bundle_keys: list[PublicKey]) -> None:
        if not self._pinned:
            self._keys = bundle_keys
            return
        wanted = set(self._pinned)
        self._keys = [key for key in bundle_keys if key.fingerprint in wanted or key.text in wanted]
        for key in bundle_keys:
            if key not in self._keys:
                self._fault("key_unknown", f"the bundle brings the key {key.fingerprint}, which was not pinned", line=1)

    def _read_outside(self) -> None:
        for note in self._outside_notes:
            try:
                text, _ = open_note(note, self._keys)
                found = Checkpoint.read(text)
            except NoteError as error:
                self._fault("outside_unreadable", f"a checkpoint from outside can't be used: {error}")
                continue
            if found.origin != self._header["origin"]:
                self._fault("outside_unreadable", f"a checkpoint from outside is of another log, {found.origin}")
                continue
            self._outside[found.size].append(found)

    def _on_leaf(self, number: int, line: Line) -> None:
        index, stored = leaf_index(line), read_hash(line.get("hash"))
        self._counts["leaves"] += 1
        self._grow(index, number, [stored])
        try:
            entry = AuditLogEntry.read(line.get("entry"))
            payload = None if line.get("payload") is None else ErasablePayload.read(line["payload"])
            withheld = _read_withheld(line)
        except EntryError as error:
            self._fault("entry_changed", str(error), line=number, leaf=index)
            return
        if entry.leaf_hash(self._form) != stored:
            message = "the entry is not what the log holds the hash of"
            self._fault("entry_changed", message, line=number, leaf=index, entry_id=entry.entry_id)
        changed = line.get("changed") is True
        if changed or (payload is not None and payload.commitment() != entry.commitment):
            message = "the payload is not what the entry is committed to"
            self._fault("payload_changed", message, line=number, leaf=index, entry_id=entry.entry_id)
        entry = self._order.on_entry(index, number, entry)
        if changed:
            self._completeness.on_changed(index, number, entry)
        else:
            self._completeness.on_leaf(index, number, entry, payload, withheld=withheld)

    def _on_earlier(self, number: int, line: Line) -> None:
        """Accept an entry from before the bundle if its path leads to the root that the bundle begins with."""
        index = leaf_index(line)
        path = line.get("proof")
        if not isinstance(path, list):
            raise BadLineError("an entry from before needs a proof")
        proof = [read_hash(one) for one in path]
        try:
            entry = AuditLogEntry.read(line.get("entry"))
            check_inclusion(entry.leaf_hash(self._form), index, self._before.size, proof, self._before.root)
            payload = None if line.get("payload") is None else ErasablePayload.read(line["payload"])
        except (EntryError, ProofError) as error:
            self._fault("earlier_unproved", f"an entry from before the first leaf: {error}", line=number, leaf=index)
            return
        if payload is not None and payload.commitment() != entry.commitment:
            message = "the payload is not what the entry is committed to"
            self._fault("payload_changed", message, line=number, leaf=index, entry_id=entry.entry_id)
            return
        self._order.on_earlier(entry)
        self._completeness.on_earlier(index, number, entry, payload)

    def _on_hidden(self, number: int, line: Line) -> None:
        index, said = leaf_index(line), line.get("hashes" if self._form == 1 else "entries")
        if not isinstance(said, list):
            raise BadLineError("hidden leaves have hashes")
        if self._form == 1:
            hashes = [read_hash(one) for one in said]
        else:
            entries = [read_hidden_entry(one) for one in said]
            hashes = [one.leaf_hash() for one in entries]
            self._check_project(index, number, entries)
        self._counts["hidden"] += len(hashes)
        self._grow(index, number, hashes)

    def _check_project(self, index: int, number: int, entries: Sequence[HiddenEntry]) -> None:
        """Report entries of the bundle's own project that are hidden, unless later ones were not asked for."""
        project = str(self._header.get("project"))
        for place, entry in enumerate(entries, index):
            if project != EVERY_PROJECT and not entry.is_of(project):
                continue
            if self._header.get("until") is None:
                message = f"an entry of {project!r} is hidden from it"
                self._fault("own_entry_hidden", message, line=number, leaf=place)
            self._own_hidden += 1

    def _on_unfit(self, number: int, line: Line) -> None:
        index, stored = leaf_index(line), read_hash(line.get("hash"))
        self._counts["hidden"] += 1
        self._grow(index, number, [stored])
        message = "the hidden entry does not fit its leaf: it was changed in the database after it was sealed"
        self._fault("hidden_entry_changed", message, line=number, leaf=index)

    def _grow(self, index: int, number: int, hashes: Sequence[bytes]) -> None:
        if self._diverged:
            return
        if index != self._edge.size:
            message = f"leaf {index} stands where leaf {self._edge.size} belongs"
            self._fault("leaf_missing", message, line=number, leaf=self._edge.size)
            self._diverged = True
            return
        for one in hashes:
            self._edge = self._edge.extended((one,))
            self._compare_outside(number)

    def _compare_outside(self, number: int) -> None:
        for outside in self._outside.pop(self._edge.size, ()):
            if self._diverged:
                return
            if outside.root == self._edge.root:
                self._agreed = outside.size
                self._confirmed.append(outside)
                continue
            message = f"the checkpoint from outside over {outside.size} leaves has another root"
            self._lost(message, number, "outside_differs", since=self._agreed)

    def _on_checkpoint(self, number: int, line: Line) -> None:
        self._counts["checkpoints"] += 1
        try:
            text, _ = open_note(str(line.get("note")), self._keys)
            found = Checkpoint.read(text)
        except NoteError as error:
            self._fault("checkpoint_signature", f"the checkpoint can't be believed: {error}", line=number)
            return
        if found.origin != self._header.get("origin"):
            self._fault("checkpoint_signature", f"the checkpoint is of another log, {found.origin}", line=number)
            return
        self._retention.check_time(number, found)
        if self._diverged:
            return
        if found.size != self._edge.size:
            message = f"the checkpoint covers {found.size} leaves, and {self._edge.size} are here"
            self._lost(message, number, "leaf_missing", since=self._sealed)
        elif found.root != self._edge.root:
            message = "the leaves make another root than the one that was signed"
            self._lost(message, number, "tree_changed", since=self._sealed)
        else:
            self._order.on_checkpoint(found.at, found.size)
            self._sealed = found.size
            self._retention.on_sealed(found.at)

    def _lost(self, message: str, number: int, code: str, *, since: int) -> None:
        """The tree is not the signed one: the fault is after leaf *since*, where it still was."""
        self._fault(code, message, line=number, leaf=since, last_leaf=max(self._edge.size - 1, since))
        self._diverged = True

    def _on_page(self, number: int, line: Line, text: str) -> None:
        lines, self._page = self._page, []
        if not is_page_signed(line, self._keys):
            self._fault("page_signature", "the page is not signed by a key that is trusted", line=number)
        if line.get("page") != self._pages or line.get("previous") != self._previous:
            self._fault("page_missing", f"page {line.get('page')} stands where page {self._pages} belongs", line=number)
        self._lines_of_page(number, lines, line.get("digests"))
        self._pages, self._previous, self._last = self._pages + 1, digest(text), line.get("last") is True

    def _lines_of_page(self, number: int, lines: list[tuple[int, str]], said: object) -> None:
        wanted = said if isinstance(said, list) else []
        for place, (at, text) in enumerate(lines):
            if place >= len(wanted) or digest(text) != wanted[place]:
                self._fault("line_changed", "the line is not the one that was exported here", line=at)
                if len(lines) != len(wanted):
                    return  # one line more or less, and every later one is off its place
        if len(lines) < len(wanted):
            self._fault("line_missing", f"{len(wanted) - len(lines)} lines of the page are missing", line=number)

    def _end_of_tree(self) -> None:
        here, size = self._edge.size, self._header["size"]
        if not self._diverged and (self._sealed != here or size != here):
            message = f"the bundle says that it goes to leaf {size}; it holds {here}, and {self._sealed} are sealed"
            self._fault("truncated", message, leaf=self._sealed)
        if self._diverged:
            return
        for outside_size, notes in sorted(self._outside.items()):
            if outside_size > here:
                when = f" at {notes[0].at:%Y-%m-%d %H:%M:%S} UTC" if notes[0].at else ""
                what = f"the log had {outside_size} leaves{when}, the bundle ends at {here}"
                message = f"{what}: it was cut off, or exported before"
                self._fault("truncated", message, leaf=self._agreed, last_leaf=outside_size - 1)
                return
            self._report.notes.append(
                f"a checkpoint from outside covers {outside_size} leaves and could not be compared: "
                f"the bundle begins at leaf {self._header['first']}"
            )

    def _fault(self, code: str, message: str, **place: int | None) -> None:
        self._add_fault(AuditFault(code=code, message=message, **place))

    def _add_finding(self, fault: AuditFault) -> None:
        """Add what entries and tables tell together; the end of a bundle that was cut off might explain it."""
        if self._cut:
            self._untold += 1
        else:
            self._add_fault(fault)

    def _add_fault(self, fault: AuditFault) -> None:
        self._fault_count += 1
        if self._fault_count <= MAX_FAULTS:
            self._report.faults.append(fault)


def _read_withheld(line: Line) -> ErasablePayload | bool:
    """Return what is shown of a payload that is withheld; whether it is, where a bundle shows nothing of it."""
    said = line.get("withheld")
    return ErasablePayload.read(said) if isinstance(said, dict) else said is True
