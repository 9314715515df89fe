"""What an auditor takes away: the signed checkpoint, the key to it, and a bundle of the whole log.

The files are what the API answers and nothing else, so that whoever checks them needs no word of this console.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from towpath_audit.bundle import digest
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note
from towpath_audit.proof import is_proof
from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Download, Page
from towpath_console.pages.shared import with_zone

TEXT = "text/plain; charset=utf-8"
TIMES = ("since", "until")
LINES = "application/jsonl; charset=utf-8"
WHOLE_DAY = timedelta(days=1, microseconds=-1)
"""To the last moment of a day: an entry of the next one's first is in no bundle of this one."""


async def checkpoint(asked: Asked) -> Page:
    """Make the page of the newest checkpoint, with its signature checked here."""
    found = await asked.api.get("/v1/audit/checkpoint")
    view = {"checkpoint": found, "signed": signature_of(found), "tab": "checkpoint"}
    return Page("Checkpoint of the audit", "audit/checkpoint.html", found, view)


def signature_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Check the signature of a checkpoint under the key that came with it; says what was wrong where it fails."""
    try:
        key = PublicKey.read(found["public_key"])
        signed, _ = open_note(found["note"], [key])
        read = Checkpoint.read(signed)
    except NoteError as error:
        return {"holds": False, "why": str(error)}
    said = {"origin": read.origin, "size": read.size, "root": read.root.hex()}
    return {"holds": key.fingerprint == found["fingerprint"] and read.size == found["size"], "why": "", **said}


async def checkpoint_file(asked: Asked) -> Download:
    """Return the checkpoint as a file, or the key that checks it."""
    found = await asked.api.get("/v1/audit/checkpoint")
    files = {
        "note": Download(f"checkpoint-{found['size']}.txt", TEXT, _one(found["note"])),
        "key": Download("audit.pub", TEXT, _one(f"{found['public_key']}\n")),
    }
    if asked.path["file"] not in files:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such file", "detail": "note or key"})
    return files[asked.path["file"]]


async def export_form(asked: Asked) -> Page:
    """Make the page from which a bundle is taken."""
    found = await asked.api.get("/v1/audit/checkpoint")
    return Page("Export of the audit", "audit/export.html", found, {"checkpoint": found, "tab": "export"})


async def export(asked: Asked) -> Download:
    """Return a bundle; what is refused is refused before the file begins.

    A bundle that breaks off has no last page, which `towpath audit verify` tells.
    """
    query = asked.query
    wanted: dict[str, Any] = {name: with_zone(query[name]) for name in TIMES if query.get(name)}
    if query.get("day"):
        wanted |= _day(query["day"], beside=sorted(wanted))
    if query.get("every_project"):
        wanted["every_project"] = True
    first = await asked.api.post("/v1/audit/export", wanted)
    return Download("towpath-audit.jsonl", LINES, _pieces(asked.api, wanted, first))


def _day(written: str, beside: list[str]) -> dict[str, str]:
    """Return the first and the last moment of a day of UTC; raises ApiRefusalError for what is none, or not alone."""
    begin: datetime | None = None
    with suppress(ValueError):
        begin = datetime.strptime(written, "%Y-%m-%d").replace(tzinfo=UTC)
    if begin is None or beside:
        detail = "give a day, or from and to" if beside else f"{written[:40]!r} is no day such as 2026-11-26"
        problem = {"code": "request_invalid", "title": "No bundle is of such a time", "detail": detail}
        raise ApiRefusalError(422, problem)
    return {"since": begin.isoformat(), "until": (begin + WHOLE_DAY).isoformat()}


async def _pieces(api: Api, wanted: Mapping[str, Any], piece: Mapping[str, Any]) -> AsyncIterator[str]:
    while True:
        lines = piece["lines"]
        yield "".join(f"{line}\n" for line in lines)
        if piece["cursor"] is None:
            return
        again = {**wanted, "cursor": piece["cursor"], "previous": digest(lines[-1])}
        piece = await api.post("/v1/audit/export", again)


def proof_download(entry_id: int, proof: str) -> Download:
    """Return a proof as the file that `towpath audit verify` reads; raises ApiRefusalError for what is none."""
    if not is_proof(proof):
        raise ApiRefusalError(502, {"code": "internal", "title": "The API gave no proof", "detail": str(entry_id)})
    return Download(f"proof-of-entry-{entry_id}.json", "application/json", _one(proof))


async def _one(text: str) -> AsyncIterator[str]:
    yield text
