"""The proof of an audit entry in the steps that a person follows: payload, leaf, path, root, signature.

`towpath_audit.verify_proof` is what decides whether a proof holds. These steps compute the same hashes once more, one
after the other, so that somebody sees what was compared with what.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from towpath_audit.entries import AuditLogEntry, EntryError, ErasablePayload
from towpath_audit.merkle import node_hash
from towpath_audit.notes import Checkpoint, NoteError, open_note, read_keys
from towpath_audit.proof import FORMATS


class PathNode(NamedTuple):
    """One step up the tree: the hash beside it, on which side that stands, and the hash of both."""

    side: str
    beside: str
    made: str


class ProofSteps(NamedTuple):
    """What was computed of one entry; `payload` is `fits`, `differs`, `erased` or `withheld`."""

    leaf: int
    entry: Mapping[str, Any]
    detail: str
    payload: str
    commitment: str
    leaf_hash: str
    nodes: tuple[PathNode, ...]
    root: str
    size: int
    origin: str
    at: str
    signed_root: str
    signed_by: str


def steps_of(proof: str, entry_id: int) -> ProofSteps:
    """Return the steps for one entry of a proof; raises ValueError for one that can't be read, or lacks the entry."""
    try:
        said = json.loads(proof)
        checkpoint, fingerprint = _signed(said["checkpoint"], said["keys"])
        found = next(one for one in said["entries"] if one["entry"]["entry_id"] == entry_id)
        entry = AuditLogEntry.read(found["entry"])
        detail, payload = _payload(found, entry)
        leaf_hash = entry.leaf_hash(FORMATS[said["format"]])
        path = [bytes.fromhex(one) for one in found["path"]]
        nodes = tuple(path_nodes(leaf_hash, found["leaf"], checkpoint.size, path))
    except (KeyError, TypeError, AttributeError, StopIteration, EntryError, NoteError, RecursionError) as error:
        raise ValueError(f"the proof can't be read: {error}") from error
    return ProofSteps(
        leaf=found["leaf"],
        entry=entry.as_json(),
        detail=detail,
        payload=payload,
        commitment=entry.commitment,
        leaf_hash=leaf_hash.hex(),
        nodes=nodes,
        root=nodes[-1].made if nodes else leaf_hash.hex(),
        size=checkpoint.size,
        origin=checkpoint.origin,
        at="" if checkpoint.at is None else checkpoint.at.isoformat(),
        signed_root=checkpoint.root.hex(),
        signed_by=fingerprint,
    )


def path_nodes(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> Iterator[PathNode]:
    """Yield each node from a leaf up to the root, as `merkle.check_inclusion` computes them."""
    place, last, made = index, size - 1, leaf
    for beside in path:
        left = bool(place & 1) or place == last
        if left:
            made = node_hash(beside, made)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            made = node_hash(made, beside)
        place, last = place >> 1, last >> 1
        yield PathNode("left" if left else "right", beside.hex(), made.hex())


def _signed(note: str, keys: Sequence[str]) -> tuple[Checkpoint, str]:
    """Return the checkpoint of a note and the fingerprint of the key that signed it."""
    signed, key = open_note(note, read_keys(keys))
    return Checkpoint.read(signed), key.fingerprint


def _payload(found: Mapping[str, Any], entry: AuditLogEntry) -> tuple[str, str]:
    """Return the details of an entry, and whether they are what the entry is committed to."""
    if found["payload"] is None:
        return "", "withheld" if found.get("withheld") else "differs" if found.get("changed") else "erased"
    payload = ErasablePayload.read(found["payload"])
    return payload.detail, "fits" if payload.commitment() == entry.commitment else "differs"
