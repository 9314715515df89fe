"""CloudEvents 1.0: the envelope that tasks may come in, and that notices and events may be given out in.

It is no form of our own messages: those stay as they are, inside `data`. The source of an event together with its id
names it for good, so both are the idempotency key of a task. An attribute that can't be used is named, not passed over.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import digest
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.runs.trace_context import HEADER, parse_traceparent

SPEC_VERSION = "1.0"
EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"
PREFIX = "ce-"
"""How the names of headers begin that hold an attribute, of HTTP and of NATS."""

MAX_ATTRIBUTE_CHARS = 2_048
"""Of each that is read: a source is an address."""

_ASKED = ("specversion", "id", "source", "type")
_URI_REFERENCE = re.compile(r"[!-~]+")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")


class TaskEvent(NamedTuple):
    """What an event says of the task in it: which event it is, and below which span it was made."""

    idempotency_key: str
    traceparent: str | None


def cloud_event(
    *, event_id: str, kind: str, project: str, subject: str, at: str, data: Any, traceparent: str | None
) -> JsonObject:
    """Return an event of the platform in structured form; *kind* is its type without the platform's name."""
    event = {
        "specversion": SPEC_VERSION,
        "id": event_id,
        "source": f"urn:towpath:{project}",
        "type": f"towpath.{kind}",
        "subject": subject,
        "time": at,
        "datacontenttype": "application/json",
        "data": data,
    }
    return event if traceparent is None else {**event, HEADER: traceparent}


def is_event_type(content_type: str | None) -> bool:
    """Return whether a Content-Type is that of one event in structured form."""
    return media_type(content_type) == EVENT_TYPE


def media_type(content_type: str | None) -> str:
    """Return a Content-Type without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


def binary_attributes(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that *headers* hold in binary form; none where the message is no event."""
    return {
        name.lower().removeprefix(PREFIX): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith(PREFIX)
    }


def read_task_event(attributes: Mapping[str, Any], place: str) -> TaskEvent:
    """Return what *attributes* say; raises ProblemError that names each wrong one, by *place* and its name."""
    faults = [ProblemDetail(pointer=f"{place}{name}", code=code, detail=why) for name, code, why in _faults(attributes)]
    if faults:
        told = "; ".join(f"{fault.pointer.rpartition('/')[2]}: {fault.detail}" for fault in faults)
        raise ProblemError(problem("request_invalid", f"this is no CloudEvent: {told}", errors=tuple(faults)))
    named = {name: attributes[name] for name in ("source", "id")}
    return TaskEvent(f"cloudevent-{digest(named).rpartition(':')[2]}", attributes.get(HEADER) or None)


def _faults(attributes: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = [(name, "missing", "an event has it") for name in _ASKED if attributes.get(name) in (None, "")]
    for name, value in attributes.items():
        if name in _CHECKS and value not in (None, ""):
            why = "it is a text" if not isinstance(value, str) else _CHECKS[name](value)
            if why:
                found.append((name, "value_invalid", why))
    return found


def _version(value: str) -> str:
    return "" if value == SPEC_VERSION else f"events of version {SPEC_VERSION} are read"


def _name(value: str) -> str:
    return "" if value.isprintable() and len(value) <= MAX_ATTRIBUTE_CHARS else _too_long()


def _too_long() -> str:
    return f"use at most {MAX_ATTRIBUTE_CHARS} printable characters"


def _source(value: str) -> str:
    if len(value) > MAX_ATTRIBUTE_CHARS:
        return _too_long()
    return "" if _URI_REFERENCE.fullmatch(value) else "it is a URI reference, such as https://shop.example/orders"


def _time(value: str) -> str:
    try:
        if _TIME.fullmatch(value):
            datetime.fromisoformat(value.upper())
            return ""
    except ValueError:
        pass
    return "it is a time with a zone, such as 2026-01-31T00:00:00Z"


def _content(value: str) -> str:
    kind = media_type(value)
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    return "" if is_json else "a task is JSON: application/json"


def _span(value: str) -> str:
    example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    return "" if parse_traceparent(value) else f"it is a W3C traceparent, such as {example}"


def _base64(_value: str) -> str:
    return "a task is JSON: send it as data"


_CHECKS: dict[str, Callable[[str], str]] = {
    "specversion": _version,
    "id": _name,
    "source": _source,
    "type": _name,
    "time": _time,
    "datacontenttype": _content,
    HEADER: _span,
    "data_base64": _base64,
}
