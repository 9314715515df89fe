"""How values are written for people. Everything that a model, a tool or a caller wrote is shown as text and no more."""

import json
import math
import re
import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from towpath_contracts.text import HIDDEN, name_hidden

MAX_SHOWN_CHARS = 20_000
"""Of one value on a page; all of it is behind its JSON twin."""

MOST_OF_A_PAGE, SHORT = 90_000, 200
"""So many bytes of long texts are drawn at once; once they are used up, a text is cut after a few characters."""

_left: ContextVar[int] = ContextVar("left", default=MOST_OF_A_PAGE)

_MARKS = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+)"
)
"""More marks on one letter than any writing has: they would cover the lines around it."""

NOTHING = "—"
"""Stands for what there is none of."""

STATUS_SIGNS = {
    "queued": "○",
    "running": "◐",
    "waiting": "◔",
    "cancelling": "⊘",
    "quarantined": "▲",
    "timed_out": "◷",
    "abandoned": "⊘",
    "paused": "‖",
    "completed": "●",
    "failed": "✕",
    "cancelled": "⊘",
    "escalated": "▲",
    "pending": "◔",
    "approved": "●",
    "denied": "✕",
    "allow": "●",
    "require_approval": "◔",
    "deny": "✕",
    "granted": "●",
    "expired": "◷",
    "succeeded": "●",
    "valid": "●",
    "invalid": "✕",
    "settled": "●",
    "void": "⊘",
    "happened": "●",
    "did_not_happen": "✕",
    "retry": "↻",
    "stop": "■",
    "unknown": "?",
    "dead": "✕",
    "requeued": "●",
    "discarded": "⊘",
    "sent": "●",
    "active": "●",
    "revoked": "⊘",
    "listening": "●",
    "nobody listens": "✕",
    "busy": "◐",
    "taking": "●",
    "draining": "◐",
    "drained": "⊘",
    "gone": "✕",
    "used up": "✕",
    "near": "▲",
    "within": "●",
}
"""A sign for each status, so that none is told by its colour alone."""

STATUS_TONES = {
    "running": "info",
    "queued": "info",
    "waiting": "warn",
    "cancelling": "mute",
    "quarantined": "bad",
    "timed_out": "bad",
    "abandoned": "mute",
    "pending": "warn",
    "paused": "warn",
    "completed": "good",
    "approved": "good",
    "succeeded": "good",
    "valid": "good",
    "invalid": "bad",
    "failed": "bad",
    "denied": "bad",
    "allow": "good",
    "require_approval": "warn",
    "deny": "bad",
    "granted": "good",
    "expired": "bad",
    "escalated": "warn",
    "cancelled": "mute",
    "settled": "mute",
    "void": "mute",
    "happened": "info",
    "did_not_happen": "info",
    "retry": "warn",
    "stop": "bad",
    "unknown": "warn",
    "dead": "bad",
    "obsolete": "mute",
    "requeued": "good",
    "discarded": "mute",
    "sent": "good",
    "active": "good",
    "revoked": "mute",
    "listening": "good",
    "nobody listens": "bad",
    "busy": "info",
    "taking": "good",
    "draining": "warn",
    "drained": "mute",
    "gone": "bad",
    "used up": "bad",
    "near": "warn",
    "within": "good",
}


def begin_page() -> None:
    """Draw long texts whole again: what follows is another page, or another part of one."""
    _left.set(MOST_OF_A_PAGE)


def visible(value: Any) -> Any:
    """Return *value* as it may stand in a page: hidden characters of texts are named, long texts are cut.

    However many of them are long, the page stays one that a browser shows at once.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > SHORT:
        value = _cut(value)
    if value.isascii() and value.isprintable():
        return value
    value = name_hidden(value)
    return _MARKS.sub(lambda found: f"{found.group(1)}⟨{len(found.group(2))} more marks⟩", value)


def _cut(value: str) -> str:
    """Return as much of *value* as a text, and what is left of the page, may have, and how long it is."""
    left = _left.get()
    shown = value[:MAX_SHOWN_CHARS]
    size = size_in_page(shown)
    if size > left:
        shown = shown[: max(SHORT, int(len(shown) * left / size))]
        size = min(size, left)
    _left.set(left - size)
    return value if len(shown) == len(value) else f"{shown}… ({len(value):,} characters)"


def size_in_page(text: str) -> int:
    """Return about how many bytes *text* has in a page."""
    marks = sum(map(text.count, "&<>\"'"))
    return len(text) + 4 * marks + (0 if text.isascii() else 2 * sum(char > "\x7f" for char in text))


def hidden_count(value: str) -> int:
    """Return how many characters of *value* show nothing, or change the order of others."""
    return sum(1 for _ in HIDDEN.finditer(value))


def as_time(value: Any) -> datetime | None:
    """Read a time of the API."""
    if not isinstance(value, str) or not value:
        return None
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def now() -> datetime:
    """Return the time that pages are drawn at: of today only the hour is written."""
    return datetime.fromtimestamp(time.time(), UTC)


def clock_of(moment: datetime, at_present: datetime) -> str:
    """Write a time as short as it is clear: the hour where it is of today, else the day, and the year of another."""
    at, today = moment.astimezone(UTC), at_present.astimezone(UTC)
    if at.date() == today.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%d %b %H:%M}" if at.year == today.year else f"{at:%d %b %Y}"


def sentence(value: Any) -> Any:
    """Write a text as one that begins a line: with a capital letter."""
    return f"{value[:1].upper()}{value[1:]}" if isinstance(value, str) else value


def seconds_between(start: Any, end: Any) -> float | None:
    """Return the seconds from *start* to *end*, both as the API writes them."""
    began, ended = as_time(start), as_time(end)
    return None if began is None or ended is None else (ended - began) / timedelta(seconds=1)


def duration(seconds: float | None) -> str:
    """Write seconds as people say them."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def money(cost: Any) -> str:
    """Write a cost of the API; a price that nobody knows is never a zero."""
    if not isinstance(cost, dict):
        return NOTHING
    if not cost.get("price_known", True):
        return "price unknown"
    usd = cost.get("usd") or 0.0
    return f"${usd:.4f}" if 0 < usd < 1 else f"${usd:,.2f}"


def count(number: Any) -> str:
    """Write a number with its thousands apart."""
    return f"{number:,}" if isinstance(number, int | float) else NOTHING


def size(number: Any) -> str:
    """Write a number of bytes in the unit that people read it in (decimal, as of files and disks)."""
    if not isinstance(number, int | float):
        return NOTHING
    shown = float(number)
    for unit in ("B", "kB", "MB"):
        if shown < 1000:
            return f"{shown:.0f} {unit}" if unit == "B" else f"{shown:.1f} {unit}"
        shown /= 1000
    return f"{shown:,.1f} GB"


def written_json(value: Any) -> str:
    """Write a value as JSON, one member a line; a text that is JSON is read first."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            return value
    return json.dumps(found, ensure_ascii=False, indent=2)


def one_line(value: Any, most: int = 120) -> str:
    """Write a value in one line of at most *most* characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short_id(value: Any) -> str:
    """Write enough of an id to tell it from those around it."""
    text = str(value)
    return text[:13] if len(text) == 36 else text[:16]
