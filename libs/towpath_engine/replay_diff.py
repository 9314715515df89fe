"""Compares a recorded log with what a replay makes of its facts, one event at a time.

Equal means equal bytes. The only difference that is accepted is a field that was added since, with its default:
messages are extended and never renamed. Whatever was recorded must still be readable and writable.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath_contracts.events.log import LogEntry, event_adapter

MAX_DIFFERENCES = 8
SHOWN_CHARS = 200
"""Of one value; the whole events stand beside the list of differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """One event as it is stored: `text` are the bytes of its JSON."""

    seq: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventComparison:
    """How a recorded event and the replayed one compare: equal, equal but for new fields, or different.

    `same` is whether the two agree, `widened` whether they differ only in fields that are new.
    """

    same: bool
    widened: bool = False
    differences: tuple[str, ...] = ()


SAME = EventComparison(same=True)


def compare(recorded: RecordedEvent, made: LogEntry, made_text: str) -> EventComparison:
    """Compare one recorded event with the one that the replay made in its place; raises ValueError if unreadable."""
    if (recorded.seq, recorded.at) == (made.seq, made.at) and recorded.text == made_text:
        return SAME
    old, new = json.loads(recorded.text), json.loads(made_text)
    found = list(differences({"seq": recorded.seq, "at": recorded.at.isoformat()}, _place(made)))
    if not found and is_within(old, new) and event_adapter.validate_json(recorded.text) == made.event:
        return EventComparison(same=True, widened=True)
    found += differences(old, new)
    return EventComparison(
        same=False, differences=tuple(found[:MAX_DIFFERENCES]) or ("the same values in other bytes",)
    )


def _place(made: LogEntry) -> dict[str, Any]:
    return {"seq": made.seq, "at": made.at.isoformat()}


def is_within(old: Any, new: Any) -> bool:
    """Return whether everything in *old* is in *new* with the same value; objects of *new* may have more fields."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and is_within(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(is_within, old, new))
    return type(old) is type(new) and bool(old == new)


def differences(old: Any, new: Any, pointer: str = "") -> list[str]:
    """Return where two JSON values differ, as lines for a reader: pointer, recorded value, replayed value."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines: list[str] = []
        for key in (*old, *(key for key in new if key not in old)):
            here = f"{pointer}/{key}"
            if key not in new:
                lines.append(f"{here}: recorded {_shown(old[key])}, replayed nothing")
            elif key not in old:
                lines.append(f"{here}: recorded nothing, replayed {_shown(new[key])}")
            else:
                lines += differences(old[key], new[key], here)
        return lines
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line for i, pair in enumerate(zip(old, new, strict=True)) for line in differences(*pair, f"{pointer}/{i}")
        ]
    if type(old) is type(new) and old == new:
        return []
    return [f"{pointer or '/'}: recorded {_shown(old)}, replayed {_shown(new)}"]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
