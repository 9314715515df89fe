"""Text from outside, made safe to print.

Models, tools and customers write what we print, so no control character, escape sequence, bidirectional override
or console markup of theirs ever reaches the terminal.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from towpath_contracts.runs.value_doubts import quoted
from towpath_contracts.text import HIDDEN_SIGNS

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, line separators, marks that reorder what a reader sees, half characters."""

_FORMAT_SIGNS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""The rest of category Cf: they are drawn around numbers, and how wide a terminal takes them for differs."""

_HIDDEN = re.compile(f"{_UNSAFE.pattern[:-1]}{HIDDEN_SIGNS}\ufe0f{_FORMAT_SIGNS}]")
"""What is escaped in JSON: all that a terminal would obey or not show, also what only makes a sign an emoji."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
"""A whole terminal sequence, so that no rubbish such as `[31m` stays behind."""

SUMMARY_WIDTH = 120
"""Of a summary in a line with more in it."""


def printable(value: object) -> str:
    """Return *value* as text without anything that a terminal would obey."""
    return _UNSAFE.sub("", _ESCAPE.sub("", str(value)))


def one_line(value: object, limit: int = 0) -> str:
    """Return *value* cleaned and on one line, shortened with an ellipsis to *limit* characters (0: not shortened)."""
    text = " ".join(printable(value).split())
    return text if not limit or len(text) <= limit else text[: limit - 1] + "…"


def cut_words(value: object, limit: int) -> str:
    """Return *value* cleaned and on one line of at most *limit* characters, cut between words where it has any."""
    text = one_line(value)
    if len(text) <= limit:
        return text
    return f"{text[:limit].rpartition(' ')[0] or text[: limit - 1]}…"


def plain_json(value: Any, indent: int | None = None) -> str:
    """Return *value* as JSON that reads back equal, with every unsafe character escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return json_escaped(text)


def json_escaped(text: str) -> str:
    """Return JSON text with everything escaped that a terminal would obey, or not show."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def plain_yaml(value: Any) -> str:
    """Return *value* as YAML, escaping everything beyond ASCII where something unsafe is in it."""
    import yaml

    readable = not _UNSAFE.search(json.dumps(value, ensure_ascii=False))
    return str(yaml.safe_dump(value, allow_unicode=readable, sort_keys=False, width=120))


def shorten(value: Any, limit: int = 80) -> str:
    """Return a JSON value in a form short enough for one line: `order_id=8812 amount=129.0`.

    A text that could be taken for more than one value is quoted, and what it hides is shown as JSON writes it.
    """
    if isinstance(value, dict):
        return one_line(" ".join(f"{quoted(name)}={quoted(part)}" for name, part in value.items()), limit)
    return one_line(_scalar(value), limit)


def sinks_first(detail: Mapping[str, Any]) -> Any:
    """Return the arguments of a gate's call, those first that say where it goes: no long text pushes them out."""
    args = detail.get("args", {})
    if not isinstance(args, dict):
        return args
    paths = (str(one.get("path", "")) for one in detail.get("origins", ()) if one.get("sink"))
    sinks = {re.split(r"[.\[ ]", path)[0] for path in paths}
    return dict(sorted(args.items(), key=lambda item: item[0] not in sinks))


def value_origin(value: Mapping[str, Any]) -> str:
    """Say in one line where a value of a call comes from; `value` is an entry of a gate's `origins`."""
    found, tool = str(value.get("from", "")), value.get("tool")
    where = {"task": "the task", "fixed": "the tool's own choices", "unknown": "nowhere known"}.get(found, found)
    if value.get("in_task"):
        where = "in the task; a number of up to three digits must be quoted there, or be called something, as file 13"
    if tool:
        where = f"{'record' if found == 'record' else 'untrusted output'} of {tool}, step {value.get('step', '?')}"
    piece = f" ({shorten(value['piece'], 60)})" if value.get("piece") else ""
    kind = " (sink)" if value.get("sink") else ""
    readers = "".join(f"; {_told_readers(one)}" for one in value.get("may_know", ()))
    leak = "; it may not know all that goes there" if value.get("leak") else ""
    return one_line(f"{value.get('path', '')}{kind}: {where}{piece}{leak}{readers}")


def call_in_words(detail: Mapping[str, Any], limit: int) -> str:
    """Return a waiting call for a line with more in it: the tool, its summary in quotes, and the arguments.

    The quotes keep a model's words, of which a summary has some, from being taken for the rest of the line.
    """
    from towpath_contracts.tools.call_summaries import summary_of_gate  # no list of runs needs it

    summary = summary_of_gate(detail)
    parts = (one_line(detail.get("tool", ""), limit), summary and plain_json(cut_words(summary, SUMMARY_WIDTH)))
    return " ".join(filter(None, (*parts, shorten(sinks_first(detail), limit))))


def _told_readers(text: Mapping[str, Any]) -> str:
    read = f"read with {text.get('tool')}, step {text.get('step', '?')}"
    if text.get("readers") is None:
        return f"nobody has said who may know it ({read})"
    return f"may be known to {', '.join(map(str, text['readers'])) or 'nobody'} only ({read})"


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
