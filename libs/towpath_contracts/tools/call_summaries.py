"""A call in the words of its tool: `Refund {amount} EUR to {customer.name}`, filled with the arguments of the call.

Arguments are what a model wrote: they come as one line, cut, and a brace in one of them is only a brace. What the tool
is not given is told as that, so that nobody takes a gap for a value. Whoever serves the tool wrote the template, and
the whole is one line of bounded length too.
"""

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from towpath_contracts.text import ELLIPSIS, name_hidden, sendable, truncate

MAX_VALUE_CHARS = 60
"""Of one argument; the whole of it stands beside the summary."""

MAX_SUMMARY_CHARS = 500
"""Of a whole summary: a template may name one argument many times."""

LOOKED_AT = 16
"""Times as many characters of a text are looked at as are shown: white space falls away, and the text may be long."""

NOT_GIVEN = "(not given)"

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_PLACE = re.compile(r"\{([^{}]*)\}")


def placeholders(template: str) -> tuple[str, ...]:
    """Return the paths that *template* names between braces, in their order."""
    return tuple(match[1].strip() for match in _PLACE.finditer(template))


def summarize_call(template: str, args: Mapping[str, Any]) -> str:
    """Return *template* with each `{path}` as the argument there; empty for a tool without one."""
    return _line(_PLACE.sub(lambda match: _shown(args, match[1].strip()), template), MAX_SUMMARY_CHARS)


def summary_of_gate(detail: Mapping[str, Any]) -> str:
    """Return the call that a gate holds in the words of its tool; empty where it has none."""
    template, args = detail.get("summary"), detail.get("args")
    return summarize_call(template, args) if isinstance(template, str) and isinstance(args, Mapping) else ""


_QUESTIONS = {
    "budget": "A budget is nearly spent: shall the run go on?",
    "loop_detected": "The run goes round in circles: shall it go on?",
    "low_confidence": "The model is not sure of its way: shall the run go on?",
    "manual": "The run asks a person: shall it go on?",
    "permission": "The run lacks a permission: how shall it go on?",
    "run_paused": "The run is paused: only a resume lets it go on.",
    "timeout": "The time of the run is used up: shall it go on?",
}
"""What gates of the run itself ask, by their types."""


def question_of_gate(gate_type: str, detail: Mapping[str, Any]) -> str:
    """Return in one sentence what a gate of *gate_type* asks for: the call in the words of its tool, or by its name."""
    tool = _line(str(detail.get("tool") or ""), MAX_VALUE_CHARS)
    if not tool:
        return _QUESTIONS.get(gate_type, f"{_line(gate_type, MAX_VALUE_CHARS)}: shall the run go on?")
    if gate_type == "unknown_effect":
        return f"Did this call happen? {_call_in_words(tool, detail)}"
    if gate_type == "paused":
        return f"A stop switch holds this call, and only the switch opens it: {_call_in_words(tool, detail)}"
    agent = _line(str(detail.get("agent") or "the agent"), MAX_VALUE_CHARS)
    return f"May {agent} make this call? {_call_in_words(tool, detail)}"


def _call_in_words(tool: str, detail: Mapping[str, Any]) -> str:
    if summary := summary_of_gate(detail):
        return f"{tool}: {summary}"
    args = detail.get("args")
    known = args if isinstance(args, Mapping) else {}
    first = islice(known.items(), MAX_SUMMARY_CHARS)  # no more of them can be shown
    given = ", ".join(f"{_line(str(name), MAX_VALUE_CHARS)} {_in_line(value)}" for name, value in first)
    return _line(f"{tool} with {given}" if given else tool, MAX_SUMMARY_CHARS)


def _shown(args: Mapping[str, Any], path: str) -> str:
    value: Any = args
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return NOT_GIVEN
        value = value[part]
    return _in_line(value)


def _in_line(value: Any) -> str:
    return _line(value if isinstance(value, str) else _start_of_json(value), MAX_VALUE_CHARS)


def _start_of_json(value: Any) -> str:
    """Return *value* as JSON, as much of it as is looked at and a little more: it may be as large as a message."""
    parts, length = list[str](), 0
    for part in _COMPACT.iterencode(value):
        parts.append(part)
        length += len(part)
        if length > MAX_VALUE_CHARS * LOOKED_AT:
            break
    return "".join(parts)


def _line(text: str, most: int) -> str:
    start = text[: most * LOOKED_AT]
    line = name_hidden(" ".join(sendable(start).split()))
    return truncate(line if len(start) == len(text) else f"{line}{ELLIPSIS}", most)
