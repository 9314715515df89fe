"""Verifies the log while somebody waits, and keeps in their browser what was verified last.

What runs is the library of `towpath audit verify`, over a bundle as anybody may export it. The checkpoint that it ended
at is kept by the browser: the next time the log has to have grown from there, whoever holds its key.
"""

import asyncio
import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from towpath_audit.bundle import digest
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note
from towpath_audit.verifier import BundleVerifier
from towpath_console.api import VERIFIED_COOKIE, Api, ApiRefusalError
from towpath_console.caller import caller_of
from towpath_console.page import Asked, Done, Page

MAX_COOKIE = 3_000
"""Characters: a checkpoint has a few hundred, and browsers keep about 4,000."""

MAX_LEAVES = 20_000
"""Of the log, verified at once: some ten seconds of one core that serves others too."""

SHOWN_FAULTS = 20

SPANS = {"last": "since it was verified last", "all": "all that is kept"}

MOST_AT_ONCE = 2
"""Projects whose logs this process verifies at the same time, each once: who comes on top is told at once.

What is read for that is bounded where it is read, however many processes verify: the tool-access service answers one
request about the audit after the other.
"""

_verifying: set[str] = set()
"""The projects whose logs are being verified."""


class VerifiedLog(NamedTuple):
    """How far the log was verified: at which checkpoint that ended, sealed with which keys, and when that was."""

    at: str
    size: int
    keys: list[str]
    note: str


async def verify_form(asked: Asked) -> Page:
    """Make the page that says what was verified last in this browser, and verifies again."""
    found = await asked.api.get("/v1/audit/checkpoint")
    last = last_verified(asked.api)
    data = {"checkpoint": found, "last": None if last is None else last._asdict()}
    return Page("Verify the audit", "audit/verify.html", data, _view(found, last))


async def verify_now(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Verify the log up to now; where something does not fit, show that, and keep what was verified before."""
    found = await asked.api.get("/v1/audit/checkpoint")
    last = last_verified(asked.api)
    kept = last if last is not None and found["fingerprint"] in last.keys else None
    wanted: dict[str, Any] = {"since": kept.at} if kept is not None and form.get("span") == "last" else {}
    project = caller_of(await asked.api.get("/v1/me")).project
    if project in _verifying or len(_verifying) >= MOST_AT_ONCE:
        raise _refusal(503, "overloaded", "The log is being verified for somebody else", "Try again in some seconds.")
    _verifying.add(project)
    try:
        report, note = await _verified(asked.api, wanted, kept)
    finally:
        _verifying.discard(project)
    if not report["holds"]:
        data = {"report": report, "checkpoint": found, "last": None if last is None else last._asdict()}
        faults = report["faults"][:SHOWN_FAULTS]
        view = _view(found, last) | {"report": report, "faults": faults, "left": len(report["faults"]) - len(faults)}
        return Page("The audit does not hold", "audit/verify.html", data, view)
    figures = report["figures"]
    now = VerifiedLog(figures["exported_at"], figures["size"], figures["keys"], note)
    count = figures["leaves"] + figures["hidden"]
    said = f"{count:,} entries verified; all fit." if count else "Nothing was written since; what was verified fits."
    return Done("/audit/verify", said, {VERIFIED_COOKIE: _written(now)}, "/audit")


def last_verified(api: Api) -> VerifiedLog | None:
    """Return what this browser keeps; None where that is nothing, or not what this console wrote."""
    kept = api.cookie(VERIFIED_COOKIE)
    if not kept or len(kept) > MAX_COOKIE:
        return None
    with suppress(ValueError, TypeError, NoteError, RecursionError):
        found = VerifiedLog(**json.loads(base64.urlsafe_b64decode(kept.encode("ascii", "replace"))))
        read = Checkpoint.read(f"{found.note.rpartition(chr(10) * 2)[0]}\n")
        named = all(isinstance(key, str) for key in found.keys)
        return found if named and read.size == found.size and isinstance(found.at, str) else None
    return None


def _written(log: VerifiedLog) -> str:
    return base64.urlsafe_b64encode(json.dumps(log._asdict()).encode()).decode()


async def _verified(api: Api, wanted: Mapping[str, Any], kept: VerifiedLog | None) -> tuple[dict[str, Any], str]:
    """Export and verify piece by piece; return the report and the last checkpoint of the bundle."""
    walk = BundleVerifier([kept.note] if kept else [], kept.keys if kept else [])
    piece = await api.post("/v1/audit/export", wanted)
    head = json.loads(piece["lines"][0])
    if head["size"] - head["first"] > MAX_LEAVES:
        detail = f"{head['size'] - head['first']:,} entries are to be verified, and a page takes {MAX_LEAVES:,}"
        remedy = "Take a bundle from the tab Export, and verify it in a terminal: towpath audit verify FILE"
        raise _refusal(413, "request_too_large", detail, remedy)
    number, note = 0, ""
    while True:
        lines = piece["lines"]
        note = await asyncio.to_thread(_take, walk, number, lines) or note
        number += len(lines)
        if piece["cursor"] is None:
            break
        again = {**wanted, "cursor": piece["cursor"], "previous": digest(lines[-1])}
        piece = await api.post("/v1/audit/export", again)
    report = (await asyncio.to_thread(walk.end)).as_json()
    report["figures"]["exported_at"] = head["exported_at"]
    return report, note


def _take(walk: BundleVerifier, number: int, lines: list[str]) -> str:
    """Verify some lines; return the last checkpoint among them."""
    note = ""
    for place, line in enumerate(lines, number + 1):
        walk.take(place, line)
        if '"kind":"checkpoint"' in line:
            with suppress(ValueError, KeyError):
                note = str(json.loads(line)["note"])
    return note


def _view(found: Mapping[str, Any], last: VerifiedLog | None) -> dict[str, Any]:
    same = last is None or found["fingerprint"] in last.keys
    return {
        "tab": "verify",
        "checkpoint": found,
        "signed": _signed(found),
        "last": last,
        "same_log": same,
        "since_then": found["size"] - last.size if last is not None and same else None,
        "spans": SPANS,
        "report": None,
        "faults": (),
        "left": 0,
    }


def _signed(found: Mapping[str, Any]) -> bool:
    try:
        key = PublicKey.read(found["public_key"])
        open_note(found["note"], [key])
    except NoteError:
        return False
    return bool(key.fingerprint == found["fingerprint"])


def _refusal(status: int, code: str, detail: str, remedy: str) -> ApiRefusalError:
    problem = {"code": code, "title": "The log was not verified", "detail": detail, "remedy": remedy}
    return ApiRefusalError(status, problem)
