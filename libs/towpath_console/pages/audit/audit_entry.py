"""One entry of the audit with its proof, checked while the page is made, and the file to check it elsewhere."""

import json
from collections.abc import Mapping
from typing import Any

from towpath_audit.notes import Checkpoint, NoteError, split_notes
from towpath_audit.proof import verify_proof
from towpath_console.api import ApiRefusalError
from towpath_console.drawings.proof_steps import ProofSteps, steps_of
from towpath_console.page import Asked, Download, Page
from towpath_console.pages.audit.audit_files import proof_download
from towpath_console.pages.shared import together

MAX_ID = 2**63 - 1
MAX_KEPT = 8_000
"""Characters of a checkpoint that somebody kept: one has a few hundred."""

SAME = (
    *("entry_id", "project", "run_id", "execution_id", "phase", "verdict", "tool", "operation", "network"),
    *("agent_key", "caller", "actor", "rule", "policy_version"),
)
"""Fields that the search and the proof have in the same form."""

UNPROVED = frozenset({404, 409, 413, 422, 503})
"""Refusals that say why there is no proof; the entry is shown all the same."""


async def entry(asked: Asked) -> Page:
    """Make the page of one entry; with a checkpoint that was kept elsewhere its proof is held against that."""
    entry_id = _entry_id(asked)
    kept = asked.query.get("kept", "")[:MAX_KEPT].replace("\r\n", "\n")
    key = asked.query.get("key", "").strip()
    size, trouble = _size_of(kept)
    found = await together(entry=_entry(asked, entry_id), proof=_proof(asked, entry_id, size))
    proof = found["proof"]
    report = _checked(proof.get("proof", ""), kept, key, trouble) if "proof" in proof else {}
    steps = _steps(proof.get("proof", ""), entry_id)
    data = {"entry": found["entry"], "proof": report or proof, "steps": None if steps is None else steps._asdict()}
    view = {
        "entry": found["entry"],
        "refusal": proof if "proof" not in proof else None,
        "report": report,
        "steps": steps,
        "agrees": steps is None or _agrees(found["entry"], steps),
        "kept": kept if size is not None else "",
        "key": key,
        "matched": size is not None and report.get("holds") and not report.get("outside_missing"),
        "trouble": trouble,
        "tab": "entries",
    }
    return Page(f"Audit entry {entry_id}", "audit/entry.html", data, view)


async def proof_file(asked: Asked) -> Download:
    """Return the proof as the file that `towpath audit verify` reads."""
    entry_id = _entry_id(asked)
    size, _ = _size_of(asked.query.get("kept", "")[:MAX_KEPT].replace("\r\n", "\n"))
    found = await asked.api.get(f"/v1/audit/entries/{entry_id}/proof", size=size)
    return proof_download(entry_id, found["proof"])


def _entry_id(asked: Asked) -> int:
    written = asked.path["entry_id"]
    if not written.isascii() or not written.isdecimal() or len(written) > 19 or not 0 < int(written) < MAX_ID:
        raise _missing(written)
    return int(written)


def _missing(written: str) -> ApiRefusalError:
    problem = {"code": "not_found", "title": "There is no such entry", "detail": f"entry {written}"}
    remedy = "Look for it on the page of the audit. Some numbers are never used, and other projects have theirs."
    return ApiRefusalError(404, problem | {"remedy": remedy})


async def _entry(asked: Asked, entry_id: int) -> dict[str, Any]:
    found = await asked.api.get("/v1/audit", before=entry_id + 1, limit=1)
    entries: list[dict[str, Any]] = found["entries"]
    if not entries or entries[0]["entry_id"] != entry_id:
        raise _missing(str(entry_id))
    return entries[0]


async def _proof(asked: Asked, entry_id: int, size: int | None) -> dict[str, Any]:
    """Return the proof, or the problem that says why there is none."""
    try:
        return await asked.api.get(f"/v1/audit/entries/{entry_id}/proof", size=size)
    except ApiRefusalError as error:
        if error.status not in UNPROVED:
            raise
        return {"problem": dict(error.problem)}


def _size_of(kept: str) -> tuple[int | None, str]:
    """Return the leaves of a checkpoint that was kept, or what is wrong with it. It is not trusted by this."""
    if not kept.strip():
        return None, ""
    try:
        note = [*split_notes(kept)][-1]
        return Checkpoint.read(f"{note.rpartition(chr(10) * 2)[0]}\n").size, ""
    except (IndexError, NoteError) as error:
        return None, f"This is no checkpoint: {error}"


def _checked(proof: str, kept: str, key: str, trouble: str) -> dict[str, Any]:
    """Verify a proof as `towpath audit verify` does, with what was kept elsewhere."""
    notes = [*split_notes(kept)] if kept.strip() and not trouble else []
    report = verify_proof(proof, checkpoints=notes, keys=[key] if key else [])
    found = report.as_json()
    found["outside_missing"] = any("no checkpoint from outside" in note for note in found["notes"])
    return found


def _agrees(shown: Mapping[str, Any], steps: ProofSteps) -> bool:
    """Return whether the entry that the search gave is the one that is proved."""
    same = all(shown[name] == steps.entry[name] for name in SAME)
    try:
        return same and (not steps.detail or json.loads(steps.detail) == shown["detail"])
    except (ValueError, RecursionError):
        return False


def _steps(proof: str, entry_id: int) -> ProofSteps | None:
    try:
        return steps_of(proof, entry_id) if proof else None
    except ValueError:
        return None
