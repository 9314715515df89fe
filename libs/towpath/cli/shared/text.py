"""Text from outside, made safe to print.

Models, tools and customers write what we print, so no control character, escape sequence, bidirectional override
or console markup of theirs ever reaches the terminal.
"""

import json
import re
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, line separators, marks that reorder what a reader sees, half characters."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
"""A whole terminal sequence, so that no rubbish such as `[31m` stays behind."""


def printable(value: object) -> str:
    """Return *value* as text without anything that a terminal would obey."""
    return _UNSAFE.sub("", _ESCAPE.sub("", str(value)))


def one_line(value: object, limit: int = 0) -> str:
    """Return *value* cleaned and on one line, shortened with an ellipsis to *limit* characters (0: not shortened)."""
    text = " ".join(printable(value).split())
    return text if not limit or len(text) <= limit else text[: limit - 1] + "…"


def plain_json(value: Any, indent: int | None = None) -> str:
    """Return *value* as JSON that reads back equal, with every unsafe character escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return re.sub(_UNSAFE.pattern, lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_yaml(value: Any) -> str:
    """Return *value* as YAML, escaping everything beyond ASCII where something unsafe is in it."""
    import yaml

    readable = not _UNSAFE.search(json.dumps(value, ensure_ascii=False))
    return str(yaml.safe_dump(value, allow_unicode=readable, sort_keys=False, width=120))


def shorten(value: Any, limit: int = 80) -> str:
    """Return a JSON value in a form short enough for one line: `order_id=8812 amount=129.0`."""
    if isinstance(value, dict):
        return one_line(" ".join(f"{name}={_scalar(part)}" for name, part in value.items()), limit)
    return one_line(_scalar(value), limit)


def value_origin(value: dict[str, Any]) -> str:
    """Say in one line where a value of a call comes from; `value` is an entry of a gate's `origins`."""
    found, tool = str(value.get("from", "")), value.get("tool")
    where = {"task": "the task", "fixed": "the tool's own choices", "unknown": "nowhere known"}.get(found, found)
    if tool:
        where = f"{'record' if found == 'record' else 'untrusted output'} of {tool}, step {value.get('step', '?')}"
    piece = f" ({shorten(value['piece'], 60)})" if value.get("piece") else ""
    kind = " (sink)" if value.get("sink") else ""
    readers = "".join(f"; {_told_readers(one)}" for one in value.get("may_know", ()))
    leak = "; it may not know all that goes there" if value.get("leak") else ""
    return one_line(f"{value.get('path', '')}{kind}: {where}{piece}{leak}{readers}")


def _told_readers(text: dict[str, Any]) -> str:
    read = f"read with {text.get('tool')}, step {text.get('step', '?')}"
    if text.get("readers") is None:
        return f"nobody has said who may know it ({read})"
    return f"may be known to {', '.join(map(str, text['readers'])) or 'nobody'} only ({read})"


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
