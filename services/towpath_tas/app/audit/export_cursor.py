"""The cursor of an export, signed: it comes back from a client, and says what the service is to sign next.

A cursor counts only with what it was given for: the project, the time asked for and the end of the piece before.
Otherwise a client could have a bundle signed that skips what it likes.
"""

import base64
from datetime import datetime

from towpath_audit.bundle import digest, written
from towpath_audit.notes import Signer, write_time
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.audit import AuditCursor, AuditExport

_FORM = b"towpath-audit-cursor-1\n"


def signed(cursor: AuditCursor, request: AuditExport, trailer: str, signer: Signer) -> AuditCursor:
    """Return *cursor* with the signature that `held` asks for; *trailer* is the line that ends the piece before."""
    signature = signer.sign(_bytes(cursor, request, digest(trailer)))
    return cursor.model_copy(update={"signature": base64.b64encode(signature).decode()})


def held(request: AuditExport, signer: Signer) -> None:
    """Raise ProblemError `cursor_refused` for a request whose cursor was not given for just this request.

    A time that can't be written is refused as well, as `request_invalid`.
    """
    _ = moment(request.since), moment(request.until)
    if request.cursor is None:
        if request.previous:
            raise ProblemError(problem("cursor_refused", "the first piece has none before it: send no previous"))
        return
    try:
        signature = base64.b64decode(request.cursor.signature, validate=True)
    except ValueError:
        signature = b""
    if not signer.public.holds(signature, _bytes(request.cursor, request, request.previous)):
        detail = "the cursor was not given for this project, this time and this piece"
        raise ProblemError(problem("cursor_refused", detail))


def _bytes(cursor: AuditCursor, request: AuditExport, previous: str) -> bytes:
    said = cursor.model_dump(mode="json", exclude={"signature"})
    said["effects_since"] = moment(cursor.effects_since)
    asked = (request.project, moment(request.since), moment(request.until), previous)
    return _FORM + written({"cursor": said, "asked": asked}).encode()


def moment(at: datetime | None) -> str | None:
    """Return a time that was asked for as bundles write it; raises ProblemError for one before or after all years."""
    try:
        return None if at is None else write_time(at)
    except OverflowError as error:
        raise ProblemError(problem("request_invalid", "a time is out of the calendar")) from error
