"""Reading the headers that change how a request is answered.

A preference may be ignored (RFC 7240), an idempotency key may not; what can't be understood is refused.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote_plus
from uuid import UUID

from towpath_contracts.events.cloud_events import BATCH_TYPE, EVENT_TYPE, media_type
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_readings.stream.live import EVENT_TYPES
from towpath_readings.stream.tree import read_cursor

MAX_WAIT_S = 30.0
"""The longest wait that `Prefer` can ask for; longer than that, proxies give up."""

MAX_IDEMPOTENCY_KEY_BYTES = 255

MAX_PATH_CHARS = 2_048
"""Of the page that a sign-in leads to."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110 section 9.2.1)."""

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(?::\d*)?")

_LOCAL_PATH = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.IGNORECASE)
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?=$|[,;\s])", re.IGNORECASE)


def preferred_wait(prefer: str | None, most_s: float = MAX_WAIT_S) -> float:
    """Return the seconds of `Prefer: wait=N`, at most *most_s*; 0 without one."""
    found = _WAIT.search(prefer or "")
    return min(float(found.group(1)), most_s) if found else 0.0


def wants_stream(accept: str | None) -> bool:
    """Return whether the client asks for server-sent events."""
    return "text/event-stream" in (accept or "").lower()


def wants_event_batch(accept: str | None) -> bool:
    """Return whether the client asks for CloudEvents; raises ProblemError where for one in the place of a page."""
    kinds = {media_type(part) for part in (accept or "").split(",")}
    if EVENT_TYPE in kinds and not kinds & {BATCH_TYPE, "application/json", "*/*"}:
        raise ProblemError(problem("request_invalid", f"a page is several events: Accept: {BATCH_TYPE}"))
    return BATCH_TYPE in kinds


def last_event_id(header: str | None, after: int) -> int:
    """Return the seq after which a stream resumes: the header of a reconnecting client wins over the query.

    Raises ProblemError for a header that is not one of our ids.
    """
    if not header:
        return after
    if not (header.isascii() and header.isdigit() and len(header) <= 15):
        raise ProblemError(problem("request_invalid", "Last-Event-ID is not the id of an event of this stream"))
    return int(header)


def last_tree_event_id(header: str | None) -> dict[UUID, int]:
    """Return how far each run of a tree was sent to a client that reconnects; raises ProblemError for an unknown id."""
    try:
        return read_cursor(header) if header else {}
    except ValueError as error:
        raise ProblemError(
            problem("request_invalid", "Last-Event-ID is not the id of an event of this stream")
        ) from error


def last_typed_id(header: str | None, after: int) -> tuple[int, int]:
    """Return the seq after which a typed stream resumes, and how many items of the next event were sent already.

    The id of an item is the seq of its event, where it is the last one of it; else the seq, a dot and its number.
    """
    seq, dot, sent = (header or "").partition(".")
    if not dot:
        return last_event_id(header, after), 0
    return max(0, last_event_id(seq or "-", 0) - 1), last_event_id(sent or "-", 0)


def last_typed_tree_id(header: str | None) -> tuple[dict[UUID, int], dict[UUID, int]]:
    """Return how far each run of a tree was sent, and of which run items of its next event were sent already."""
    cursor, mark, place = (header or "").partition("!")
    sent = last_tree_event_id(cursor)
    if not mark:
        return sent, {}
    run, _, items = place.rpartition(".")
    begun = last_tree_event_id(run or "-")
    number = last_event_id(items or "-", 0)
    return {**sent, **{run_id: max(0, seq - 1) for run_id, seq in begun.items()}}, dict.fromkeys(begun, number)


def chosen_types(text: str | None) -> frozenset[str] | None:
    """Return the types of typed events that `event_types` names, commas between; raises ProblemError for others."""
    if text is None:
        return None
    wanted = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = ", ".join(sorted(wanted - EVENT_TYPES))
    if unknown:
        known = ", ".join(sorted(EVENT_TYPES))
        raise ProblemError(problem("request_invalid", f"a stream has no {unknown}; it has {known}"))
    return wanted


def idempotency_key(header: str | None, in_body: str | None) -> str | None:
    """Return the key of a request, given in the header or in the body.

    Raises ProblemError where it is empty, too long, not printable ASCII, or given twice with different values.
    """
    if header is None:
        return in_body
    key = header.strip()
    size = len(key.encode("utf-8", "replace"))
    if not key or size > MAX_IDEMPOTENCY_KEY_BYTES or not (key.isascii() and key.isprintable()):
        detail = f"Idempotency-Key must be 1 to {MAX_IDEMPOTENCY_KEY_BYTES} printable ASCII characters"
        raise ProblemError(problem("request_invalid", detail))
    if in_body is not None and in_body != key:
        raise ProblemError(problem("request_invalid", "Idempotency-Key and idempotency_key differ"))
    return key


def sent_cookie(cookies: str | None, name: str) -> str:
    """Return the value of a cookie of ours, which is not quoted: some versions of Python take very long to unquote."""
    pairs = (pair.strip().partition("=") for pair in (cookies or "").split(";"))
    return next((value for found, _, value in pairs if found == name), "")


def without_escapes(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return *headers* without cookies that hold a backslash: none of ours does.

    Frameworks read the cookies of each request, also of one without a key, and some versions of Python unquote one of
    30 KB for seconds (CVE-2024-7592): nobody else is answered meanwhile.
    """
    return [
        (name, b";".join(pair for pair in value.split(b";") if b"\\" not in pair) if name == b"cookie" else value)
        for name, value in headers
    ]


def local_path(text: str) -> str:
    """Return *text* where it is a path of this gateway, else the first page: nobody is sent to another site.

    One that is longer than MAX_PATH_CHARS leads to the first page, too: a form or a cookie with it would be refused.
    What a page of the console is to say of an action goes: a link of somebody else's could make it say anything.
    """
    if len(text) > MAX_PATH_CHARS or _LOCAL_PATH.fullmatch(text) is None:
        return "/"
    path, _, query = text.partition("?")
    kept = "&".join(part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "message")
    return f"{path}?{kept}" if kept else path


def host_name(host: str | None) -> str:
    """Return the name without its port; nothing of what is no name and port (RFC 9110 section 7.2)."""
    found = _HOST.fullmatch((host or "").lower())
    return found.group(1) if found else ""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return where the bytes begin and end that `Range` asks for; None is all of them.

    Several ranges, other units and what is no range are passed over, as RFC 9110 lets us. Raises ValueError where
    *size* bytes have none of it.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or found.group(1) == found.group(2) == "":
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise ValueError(f"there are {size} bytes")
    return start, end
