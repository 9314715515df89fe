"""The proof of some entries: that they are in the log of a signed checkpoint, without the rest of the log.

It proves what it contains and nothing more: only a bundle can show that there are no other entries of a call. A file
that different readers could read differently, or that says more than is verified, is refused.
"""

import json
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from towpath_audit.entries import AuditLogEntry, EntryError, ErasablePayload
from towpath_audit.merkle import HASH_BYTES, ProofError, check_inclusion
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note, read_keys, write_time
from towpath_audit.report import AuditFault, AuditReport

FORMAT = "towpath-audit-proof/2"
FORMATS = {"towpath-audit-proof/1": 1, FORMAT: 2}
"""Formats that are read, with the form of their leaves."""

_MEMBERS = {"format", "checkpoint", "keys", "entries"}
_ENTRY_MEMBERS = {"leaf", "entry", "payload", "path"}
_LEFT_OUT = {"withheld", "changed"}

_HEADS = tuple(f'{{\n  "format": "{one}"' for one in FORMATS)


class ProvedEntry(NamedTuple):
    """One entry with its index and path; the payload is None if it is erased or not included.

    *left_out*: `withheld` where a payload that fits its entry is too large, `changed` where it does not fit.
    """

    leaf: int
    entry: AuditLogEntry
    payload: ErasablePayload | None
    path: Sequence[bytes]
    left_out: str = ""


def serialize_proof(note: str, keys: Iterable[PublicKey], proved: Iterable[ProvedEntry]) -> str:
    """Return the file: JSON in ASCII, readable for people."""
    entries = [
        {
            "leaf": one.leaf,
            "entry": one.entry.as_json(),
            "payload": None if one.payload is None else one.payload.as_json(),
            "path": [step.hex() for step in one.path],
            **({one.left_out: True} if one.left_out else {}),
        }
        for one in proved
    ]
    said = {"format": FORMAT, "checkpoint": note, "keys": [key.text for key in keys], "entries": entries}
    return json.dumps(said, indent=2) + "\n"


def is_proof(text: str) -> bool:
    """Return whether *text*, or its beginning, is a proof and no bundle."""
    return text.startswith(_HEADS)


def verify_proof(text: str, *, checkpoints: Sequence[str] = (), keys: Sequence[str] = ()) -> AuditReport:
    """Verify a proof; *checkpoints* and *keys* as in `verifier.verify`. Never raises, whatever *text* contains."""
    report = AuditReport()
    try:
        said = _parse(text)
        brought = read_keys(said["keys"])
        note, listed, form = str(said["checkpoint"]), said["entries"], FORMATS[said["format"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NoteError) as error:
        report.faults.append(AuditFault(code="unreadable", message=f"this is no proof: {error}"))
        return report
    trusted = [key for key in brought if not keys or key.fingerprint in keys or key.text in keys]
    sealed = _open_checkpoint(note, trusted, report, "checkpoint_signature", "the checkpoint of the proof")
    if sealed is None:
        return report
    proved: dict[int, dict[str, Any]] = {}
    for place, one in enumerate(listed):
        _check(one, place, form, sealed, report, proved)
    _compare_outside(sealed, [_open_checkpoint(one, trusted, report, *_OUTSIDE) for one in checkpoints], report)
    if not keys:
        report.notes.append("no key was pinned: the proof's own word was taken for whose key it is")
    report.figures |= {"entries": len(listed), "size": sealed.size, "origin": sealed.origin, "root": sealed.root.hex()}
    report.figures["proved"] = [*proved.values()]
    report.figures["at"] = None if sealed.at is None else write_time(sealed.at)
    report.figures["keys"] = [key.fingerprint for key in trusted]
    return report


_OUTSIDE = ("outside_unreadable", "a checkpoint from outside")


def _open_checkpoint(
    note: str, keys: Sequence[PublicKey], report: AuditReport, code: str, what: str
) -> Checkpoint | None:
    try:
        return Checkpoint.read(open_note(note, keys)[0])
    except NoteError as error:
        report.faults.append(AuditFault(code=code, message=f"{what} can't be used: {error}"))
        return None


def _parse(text: str) -> dict[str, Any]:
    """Return the members of a proof; raises ValueError for any but those that are verified."""
    said = json.loads(text, object_pairs_hook=_members_once)
    if not isinstance(said, dict) or set(said) != _MEMBERS:
        raise ValueError(f"a proof has the members {', '.join(sorted(_MEMBERS))}, and no others")
    if not isinstance(said["entries"], list) or not said["entries"]:
        raise ValueError("it has no entries, so it proves nothing")
    return said


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member of an object stands there twice")
    return found


def _check(
    said: Any, place: int, form: int, sealed: Checkpoint, report: AuditReport, proved: dict[int, dict[str, Any]]
) -> None:
    """Check an entry of the proof, and add it to what is *proved*, by leaf."""
    try:
        _check_members(said)
        leaf, path = _leaf(said["leaf"], proved), [_hash(step) for step in said["path"]]
        entry = AuditLogEntry.read(said["entry"])
        check_inclusion(entry.leaf_hash(form), leaf, sealed.size, path, sealed.root)
        payload = None if said["payload"] is None else ErasablePayload.read(said["payload"])
    except (KeyError, TypeError, ValueError, EntryError, ProofError) as error:
        report.faults.append(AuditFault(code="entry_unproved", message=f"entry {place + 1} of the proof: {error}"))
        return
    if said.get("changed") is True or (payload is not None and payload.commitment() != entry.commitment):
        message = "the payload is not what the entry is committed to"
        report.faults.append(AuditFault(code="payload_changed", message=message, leaf=leaf, entry_id=entry.entry_id))
        payload = None
    proved[leaf] = {"leaf": leaf, **entry.as_json(), "detail": None if payload is None else payload.detail}


def _check_members(said: Any) -> None:
    if not isinstance(said, dict) or set(said) - _LEFT_OUT != _ENTRY_MEMBERS:
        raise EntryError(f"it has the members {', '.join(sorted(_ENTRY_MEMBERS))}, and no others")
    marks = [said[name] for name in _LEFT_OUT & set(said)]
    if marks and (marks != [True] or said["payload"] is not None):
        raise EntryError("it says of its payload what can't be")


def _compare_outside(sealed: Checkpoint, outside: Sequence[Checkpoint | None], report: AuditReport) -> None:
    same = [one for one in outside if one is not None and (one.origin, one.size) == (sealed.origin, sealed.size)]
    if any(one.root != sealed.root for one in same):
        message = f"the checkpoint from outside over {sealed.size} leaves has another root"
        report.faults.append(AuditFault(code="outside_differs", message=message))
    elif not same:
        report.notes.append(
            f"no checkpoint from outside over {sealed.size} leaves was given: whoever holds the key could have made "
            "another log for this proof; take it for one that was kept: towpath audit prove RUN --checkpoint FILE"
        )


def _leaf(said: object, proved: Container[int]) -> int:
    if not isinstance(said, int) or isinstance(said, bool):
        raise EntryError("an entry has no leaf")
    if said in proved:
        raise EntryError(f"leaf {said} stands there twice")
    return said


def _hash(text: object) -> bytes:
    found = bytes.fromhex(text) if isinstance(text, str) else b""
    if len(found) != HASH_BYTES:
        raise ProofError("a step of the path is no hash")
    return found
