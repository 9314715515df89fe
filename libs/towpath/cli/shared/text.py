"""Text from outside, made safe to print.

Models, tools and customers write what we print, so no control character, escape sequence, bidirectional override
or console markup of theirs ever reaches the terminal.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, line separators, marks that reorder what a reader sees, half characters."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
"""A whole terminal sequence, so that no rubbish such as `[31m` stays behind."""

MOST_VALUES = 2
"""Values of a call that a line names; `gates show` has all."""

_SHORT_NUMBER = re.compile(r"[+-]?\d{1,3}(?:\.0+)?")


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


def value_origin(value: Mapping[str, Any], args: object = None) -> str:
    """Say in one line where a value of a call comes from; `value` is an entry of a gate's `origins`.

    With the call's *args* it is said of a short number why the task's text does not vouch for it.
    """
    found, tool = str(value.get("from", "")), value.get("tool")
    where = {"task": "the task", "fixed": "the tool's own choices", "unknown": "nowhere known"}.get(found, found)
    if found == "unknown" and _SHORT_NUMBER.fullmatch(str(_value_at(args, str(value.get("path", ""))))):
        where += "; a number of up to three digits must be quoted, or be called something, such as file 13"
    if tool:
        where = f"{'record' if found == 'record' else 'untrusted output'} of {tool}, step {value.get('step', '?')}"
    piece = f" ({shorten(value['piece'], 60)})" if value.get("piece") else ""
    kind = " (sink)" if value.get("sink") else ""
    readers = "".join(f"; {_told_readers(one)}" for one in value.get("may_know", ()))
    leak = "; it may not know all that goes there" if value.get("leak") else ""
    return one_line(f"{value.get('path', '')}{kind}: {where}{piece}{leak}{readers}")


def doubtful_values(detail: Mapping[str, Any]) -> str:
    """Say in one line which values of a waiting call nobody trusted has named; *detail* is that of its gate."""
    doubtful = [one for one in detail.get("origins", ()) if one.get("from") in {"unknown", "untrusted"}]
    more = f"; and {len(doubtful) - MOST_VALUES} more" if len(doubtful) > MOST_VALUES else ""
    return "; ".join(value_origin(one, detail.get("args")) for one in doubtful[:MOST_VALUES]) + more


def _value_at(value: object, path: str) -> object:
    """Return the part of *value* at a path such as `rows[0].to`; None where there is none."""
    for name, place in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if isinstance(value, dict) and name:
            value = value.get(name)
        elif isinstance(value, list) and place and int(place) < len(value):
            value = value[int(place)]
        else:
            return None
    return value


def _told_readers(text: Mapping[str, Any]) -> str:
    read = f"read with {text.get('tool')}, step {text.get('step', '?')}"
    if text.get("readers") is None:
        return f"nobody has said who may know it ({read})"
    return f"may be known to {', '.join(map(str, text['readers'])) or 'nobody'} only ({read})"


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
