"""A call's arguments as a form with one field each, and what was written there read back as arguments.

A field is made of the argument as it is and of what the tool's schema says; what is neither a text, a number nor a
choice is written as JSON. Nothing is guessed: what can't be read is said beside its field, and nothing is sent.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.text import hidden_count, size_in_page

PREFIX, LEFT_OUT = "arg.", "leave-out."
LONG_CHARS = 60
"""Texts of this length have several lines to be written in."""

MOST_WRITTEN = 150_000
"""So many bytes of a form are arguments that may be written anew: of those that do not fit, each stays as it is.

A browser shows such a form at once, and what it sends is no larger than a form may be.
"""

TRUTHS = {"true": True, "false": False}


class ArgumentField(NamedTuple):
    """One argument in a form: how it is written, its text, what may be chosen, and what is wrong with it."""

    name: str
    kind: str
    text: str
    description: str
    choices: tuple[str, ...]
    is_required: bool
    is_given: bool
    is_left_out: bool = False
    fault: str = ""
    value: Any = None
    """What the argument is, of a field of the kinds `kept` and `set`, which is not written anew."""

    @property
    def hidden(self) -> int:
        """How many characters of the text show nothing."""
        return hidden_count(self.text)

    @property
    def rows(self) -> int:
        """The lines of the field, where it has several."""
        return max(2, min(12, self.text.count("\n") + 1 + len(self.text) // 80))


def fields_of(args: Mapping[str, Any], schema: Mapping[str, Any], owned: Collection[str] = ()) -> list[ArgumentField]:
    """Return a field for each argument that is given, then for those that could be.

    The task sets those of *owned*, and nobody else may: they are shown, where they are given, and can't be written.
    """
    declared = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    required = schema.get("required") if isinstance(schema.get("required"), list) else []
    names = [*args, *(name for name in declared or {} if name not in args and name not in owned)]
    fields = [_field(name, args, (declared or {}).get(name), name in (required or [])) for name in names]
    fields = [_unwritten(field, "set", args) if field.name in owned else field for field in fields]
    return _fitting(fields, args)


def read_form(form: Mapping[str, str], fields: Sequence[ArgumentField]) -> tuple[dict[str, Any], list[ArgumentField]]:
    """Return the arguments that *form* says, and the fields as they were filled in with what is wrong with each."""
    args: dict[str, Any] = {}
    filled: list[ArgumentField] = []
    for field in fields:
        text = form.get(PREFIX + field.name, "").replace("\r\n", "\n")
        if field.kind in ("text", "lines") and text == _as_browsers_send(field):
            text = field.text  # nobody changed it
        left_out = LEFT_OUT + field.name in form or (not field.is_given and not text)
        fault = ""
        if field.kind in ("kept", "set"):
            text, left_out = field.text, left_out and field.kind == "kept"
        if not left_out and field.kind in ("kept", "set"):
            args[field.name] = field.value
        elif not left_out:
            try:
                args[field.name] = _read(field, text)
            except ValueError as error:
                fault = str(error)
        filled.append(field._replace(text=text, is_left_out=left_out and field.is_given, fault=fault))
    return args, filled


def with_faults(
    fields: Sequence[ArgumentField], errors: Sequence[Mapping[str, Any]]
) -> tuple[list[ArgumentField], list[str]]:
    """Put each of *errors* (of a problem of the API) beside its field; return those too that belong to none."""
    faults: dict[str, list[str]] = {}
    others: list[str] = []
    names = {field.name for field in fields}
    for error in errors:
        place = [part.replace("~1", "/").replace("~0", "~") for part in str(error.get("pointer", "")).split("/")]
        name, inside = (place[2] if len(place) > 2 else ""), ".".join(place[3:])
        detail = f"{inside}: {error.get('detail', '')}" if inside else str(error.get("detail", ""))
        if name in names:
            faults.setdefault(name, []).append(detail)
        else:
            others.append(detail)
    return [field._replace(fault="; ".join(faults.get(field.name, [field.fault]))) for field in fields], others


def _field(name: str, args: Mapping[str, Any], declared: Any, is_required: bool) -> ArgumentField:
    schema = declared if isinstance(declared, dict) else {}
    given = name in args
    value = args.get(name)
    kind = _kind(value, schema, given=given)
    listed = schema.get("enum") if isinstance(schema.get("enum"), list) else []
    choices = tuple(str(one) for one in listed or ()) if kind == "choice" else tuple(TRUTHS) if kind == "truth" else ()
    text = (
        value
        if kind in ("text", "lines", "choice") and isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)
    )
    said = str(schema.get("description") or "")
    return ArgumentField(name, kind, str(text) if given else "", said, choices, is_required, given)


def _fitting(fields: list[ArgumentField], args: Mapping[str, Any]) -> list[ArgumentField]:
    """Return *fields* of which the longest are kept as they are, so that the others fit into a form."""
    left = MOST_WRITTEN
    kept: set[str] = set()
    for size, name in sorted((size_in_page(field.text), field.name) for field in fields if field.kind != "set"):
        left -= size
        if left < 0:
            kept.add(name)
    return [_unwritten(field, "kept", args) if field.name in kept else field for field in fields]


def _unwritten(field: ArgumentField, kind: str, args: Mapping[str, Any]) -> ArgumentField:
    return field._replace(kind=kind, value=args[field.name], choices=())


def _kind(value: Any, schema: Mapping[str, Any], *, given: bool) -> str:
    """Return how an argument is written: `choice`, `truth`, `number`, `text`, `lines` or `json`."""
    listed, declared = schema.get("enum"), schema.get("type")
    if isinstance(listed, list) and listed and all(isinstance(one, str) for one in listed):
        return "choice" if not given or isinstance(value, str) else "json"
    if given:
        if isinstance(value, bool):
            return "truth"
        if isinstance(value, int | float):
            return "number"
        if isinstance(value, str):
            return "lines" if len(value) > LONG_CHARS or "\n" in value else "text"
        return "json"
    return {"string": "text", "number": "number", "integer": "number", "boolean": "truth"}.get(str(declared), "json")


def _as_browsers_send(field: ArgumentField) -> str:
    """Return the text of a field as it comes back untouched: browsers have line ends of their own, and no U+0000."""
    lines = field.text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return lines if field.kind == "lines" else lines.replace("\n", "")


def _read(field: ArgumentField, text: str) -> Any:
    if field.kind in ("text", "lines", "choice"):
        return text
    if field.kind == "truth":
        if text not in TRUTHS:
            msg = "choose true or false"
            raise ValueError(msg)
        return TRUTHS[text]
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        at = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        msg = f"not a number: {text[:40]}" if field.kind == "number" else f"not JSON{at}; a text stands in quotes"
        raise ValueError(msg) from None
    if field.kind == "number" and (isinstance(found, bool) or not isinstance(found, int | float)):
        msg = f"not a number: {text[:40]}"
        raise ValueError(msg)
    return found


def _refuse(word: str) -> Any:
    msg = f"{word} is no value of JSON"
    raise ValueError(msg)
