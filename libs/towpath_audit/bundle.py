"""A bundle: the log of an audit, or a part of it, in one file that verifies without any server.

The file is JSON Lines in UTF-8. Every line is an object with a `kind`:

    header      what this is: format, origin, project, the part that was asked for, where the tree begins, the keys
    policy      a policy version that decisions of this page name
    step        where the run's log asked for a call that was decided on this page, and whose run that is
    earlier     one entry from before the first leaf, with its path: the decision that allowed a call of it, the entry
                that applied a policy version, or, with its payload, what an approval that let a call of it go rests on,
                or who asked for an erasure that was carried out in it, or confirmed that
    leaf        one entry of the log with its payload (null once it is erased) and its leaf hash; of a payload that is
                too large, `withheld` has the short members where it fits its entry, and `changed` says that it does not
    hidden      entries that this bundle does not disclose: other projects', or outside of the time asked; of each the
                two digests that its leaf hashes, which tell whether it is of the bundle's project (form 1: leaf hashes)
    unfit       the leaf hash of an entry that is not disclosed and, as it is stored now, does not make that hash
    checkpoint  a signed checkpoint, right after the last leaf that it covers
    stored      what a table holds of something that an entry recorded: the ledger, approvals, policies, tools
    effect      a call of the ledger that was allowed
    page        the end of a page: the digests of its lines, signed, chained to the page before

A line is written in one way only (sorted keys, no white space), so that its digest is defined; the tree proves the
leaves, the signatures of the pages prove the rest.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from towpath_audit.entries import AuditLogEntry, ErasablePayload, HiddenEntry
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import PublicKey, Signer

FORMAT = "towpath-audit-bundle/2"
FORMATS = {"towpath-audit-bundle/1": 1, FORMAT: 2}
"""Formats that are read, with the form of their leaves."""

EVERY_PROJECT = "*"
"""The project of a bundle that discloses the entries of all."""

_PAGE = b"towpath-audit-page-1\n"

Line = dict[str, Any]


def serialize_line(line: Line) -> str:
    """Return *line* as it is written to the file, without the newline."""
    return json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def header(
    *,
    origin: str,
    project: str,
    since: str | None,
    until: str | None,
    edge: MerkleFrontier,
    size: int,
    keys: Sequence[PublicKey],
    exported_at: str,
    exported_by: str,
    begins: str | None = None,
    kept: str | None = None,
    sealed: bool = True,
) -> Line:
    """Return the first line. *edge* is the tree before the first leaf of the bundle, *size* the size at its end.

    *begins* is the checkpoint over that tree, whose signed time tells that everything before was sealed before *since*;
    *kept* the one over all that retention dropped. Older bundles lack both.
    Not *sealed*: sealing was refused, so entries may be missing at the end, for how long is not known.
    `earlier`: decisions from before the first leaf are included where they are needed; `grounds`: also the votes and
    policies that these rest on. Older bundles lack one or both.
    """
    return {
        "kind": "header",
        "format": FORMAT,
        "origin": origin,
        "project": project,
        "since": since,
        "until": until,
        "first": edge.size,
        "edge": [one.hex() for one in edge.hashes],
        "size": size,
        "keys": [key.text for key in keys],
        "earlier": True,
        "grounds": True,
        "exported_at": exported_at,
        "exported_by": exported_by,
        "begins": begins,
        "kept": kept,
        "sealed": sealed,
    }


def leaf(index: int, entry: AuditLogEntry, payload: ErasablePayload | None, stored_hash: bytes) -> Line:
    """Return a disclosed leaf; *stored_hash* is the one in the log, whatever the entry looks like now."""
    shown = None if payload is None else payload.as_json()
    return {"kind": "leaf", "leaf": index, "entry": entry.as_json(), "payload": shown, "hash": stored_hash.hex()}


def large_leaf(index: int, entry: AuditLogEntry, payload: ErasablePayload, stored_hash: bytes) -> Line:
    """Return a disclosed leaf whose *payload* is too large for a bundle.

    Only whoever has the payload can compare it with the entry's commitment, so it is compared here: a payload that
    does not fit is marked as changed, and is a fault.
    """
    line = leaf(index, entry, None, stored_hash)
    if payload.commitment() != entry.commitment:
        return {**line, "changed": True}
    return {**line, "withheld": payload.shortened().as_json()}


def earlier(
    index: int, entry: AuditLogEntry, proof: Sequence[bytes], payload: ErasablePayload | None = None
) -> Line:  # fmt: skip
    """Return an entry from before the bundle's first leaf; *proof* is its path in the tree that ends there."""
    line = {"kind": "earlier", "leaf": index, "entry": entry.as_json(), "proof": [one.hex() for one in proof]}
    return line if payload is None else {**line, "payload": payload.as_json()}


def hidden(index: int, entries: Sequence[HiddenEntry]) -> Line:
    """Return entries that are not disclosed, from leaf *index* on."""
    return {"kind": "hidden", "leaf": index, "entries": [[digest.hex() for digest in one] for one in entries]}


def unfit(index: int, stored_hash: bytes) -> Line:
    """Return a leaf that is not disclosed and whose entry is not what the log holds the hash of."""
    return {"kind": "unfit", "leaf": index, "hash": stored_hash.hex()}


def checkpoint(note: str) -> Line:
    """Return a signed checkpoint."""
    return {"kind": "checkpoint", "note": note}


def policy(project: str, version: int, policy_digest: str, applied_at: str) -> Line:
    """Return a stored policy version."""
    return {
        "kind": "policy",
        "project": project,
        "version": version,
        "digest": policy_digest,
        "applied_at": applied_at,
    }


def step(
    execution_id: str,
    run_id: str,
    seq: int | None,
    *,
    kept: bool,
    erased: bool = False,
    caller: str | None = None,
    project: str | None = None,
) -> Line:
    """Return where the run's log requested a call: `seq`, None if nowhere.

    *kept*: the run is still stored; *erased*: what is stored of it says that its log was erased. *caller* and *project*
    are whose run its row says it is; older bundles don't tell.
    """
    line = {"kind": "step", "execution_id": execution_id, "run_id": run_id, "seq": seq, "kept": kept, "caller": caller}
    line |= {} if project is None else {"project": project}
    return {**line, "erased": True} if erased else line


def stored(index: int, found: dict[str, Any] | None) -> Line:
    """Return what a table holds of what the entry of leaf *index* recorded; None if it holds nothing."""
    return {"kind": "stored", "leaf": index, "found": found}


def effect(**fields: Any) -> Line:
    """Return a call of the ledger that was allowed.

    `last_entry`: the bundle has the last entry about the call, so its status can be compared. Older bundles lack it.
    """
    return {"kind": "effect", **fields}


def page(number: int, previous: str, lines: Sequence[str], signer: Signer, *, last: bool) -> str:
    """Return the line that ends a page of *lines*; *previous* is the digest of the line that ended the page before."""
    body = {
        "kind": "page",
        "page": number,
        "previous": previous,
        "digests": [digest(line) for line in lines],
        "last": last,
        "key": signer.public.fingerprint,
    }
    signature = signer.sign(_PAGE + serialize_line(body).encode())
    return serialize_line({**body, "signature": base64.b64encode(signature).decode()})


def is_page_signed(trailer: Line, keys: Sequence[PublicKey]) -> bool:
    """Return whether the end of a page is signed by the key of *keys* that it names."""
    body = {name: value for name, value in trailer.items() if name != "signature"}
    try:
        signature = base64.b64decode(trailer["signature"], validate=True)
    except (KeyError, TypeError, ValueError):
        return False
    data = _PAGE + serialize_line(body).encode("utf-8", "surrogatepass")
    return any(key.fingerprint == body.get("key") and key.holds(signature, data) for key in keys)
