"""docs/reference/events.md: every event of a run's log with its fields."""

from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from tests.docs_site.reference.markdown_text import prose

from towpath_contracts.events.log import AnyEvent

_HEAD = """# Events of a run

The log of a run: `GET /v1/runs/ID/events`, its stream, `client.events(run_id)` and `towpath runs events`. Each entry
has `seq`, `at` (the database's clock) and one of these as `event`. Events are added to, never renamed; a reader
passes over a `type` that it does not know. What a reader for people makes of them: [runs](../runs.md).

Of a field in *italics* the event may lack the value. The exact schemas are in `build/docs` after `just docs`.
"""


def events_page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(event) for event in sorted(get_args(AnyEvent), key=_type))])


def _type(event: type[BaseModel]) -> str:
    return str(get_args(event.model_fields["type"].annotation)[0])


def _section(event: type[BaseModel]) -> str:
    fields = [
        f"`{name}`" if field.is_required() else f"*`{name}`*"
        for name, field in event.model_fields.items()
        if name != "type"
    ]
    told = [f"`{name}`: {words}" for name, field in event.model_fields.items() if (words := _words(field.annotation))]
    lines = [f"## {_type(event)}", "", prose(event.__doc__), "", f"Fields: {', '.join(fields) or 'none'}."]
    if told and len(event.model_fields) > 1:
        lines += ["", *(f"- {line}" for line in told if not line.startswith("`type`"))]
    return "\n".join([*lines, ""])


def _words(annotation: Any) -> str:
    """Return the words that a field may have, if it is one of a few."""
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{word}`" if word != "" else "empty" for word in get_args(annotation))
    if get_origin(annotation) is UnionType:
        return ", ".join(filter(None, map(_words, get_args(annotation))))
    return ""
