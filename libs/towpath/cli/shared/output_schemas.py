"""The published schemas of what commands print with `-o json`: one JSON Schema 2020-12 with a definition per command.

They say which fields there are and of what type, and what is always there. Bounds of values are left out: those are of
what the platform takes, and may be widened. Objects are open, because later versions add fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from towpath.cli.shared.output_forms import FORMS, OutputForm
from towpath_contracts.base import JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ABOUT = (
    "What commands print with -o json: $defs has a schema for each command, by its name; "
    "of a command that prints lines it is that of each line. "
    "Later versions add fields and values; they rename and remove none."
)
_LEFT_OUT = frozenset(
    {
        *("title", "default", "pattern", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "propertyNames", "examples"),
    }
)
_BY_NAME = frozenset({"properties", "$defs"})


class _PrintedSchema(GenerateJsonSchema):
    """What is printed has every field, also one that has its default; but for those that are left out if empty."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        if field["type"] == "typed-dict-field":
            return super().field_is_required(field, total)
        return not field.get("serialization_exclude_if") and not field.get("serialization_exclude")


def output_schemas() -> JsonObject:
    """Return the document: a definition for each command by its name, and one for each type that they share."""
    kinds: dict[int, Any] = {}
    for form in (form for forms in FORMS.values() for form in forms):
        kinds |= {id(kind): kind for kind in (form.kind, form.also) if kind is not None}
    adapters = [(key, "serialization", TypeAdapter(kind)) for key, kind in kinds.items()]
    found, whole = TypeAdapter.json_schemas(adapters, schema_generator=_PrintedSchema)  # type: ignore[arg-type]
    shared = {name: _plain(part) for name, part in whole.get("$defs", {}).items()}
    parts = {key: _plain(part) for (key, _), part in found.items()}
    commands = {command: _command(forms, parts, shared) for command, forms in FORMS.items()}
    definitions = {**dict(sorted(commands.items())), **_used(commands, shared)}
    return {"$schema": DIALECT, "title": "Towpath command line", "description": _ABOUT, "$defs": definitions}


def _command(forms: Sequence[OutputForm], parts: Mapping[int, JsonObject], shared: JsonObject) -> JsonObject:
    made = [_form(form, parts, shared) for form in forms]
    return made[0] if len(made) == 1 else {"anyOf": made}


def _form(form: OutputForm, parts: Mapping[int, JsonObject], shared: JsonObject) -> JsonObject:
    one = parts[id(form.kind)]
    if form.also is not None or form.left_out:
        one = _merged(form, parts, shared)
    if not form.name:
        return one
    return {"type": "object", "properties": {form.name: {"type": "array", "items": one}}, "required": [form.name]}


def _merged(form: OutputForm, parts: Mapping[int, JsonObject], shared: JsonObject) -> JsonObject:
    """Return the object of both types of *form*, without what is left out."""
    sides = [_resolved(parts[id(kind)], shared) for kind in (form.kind, form.also) if kind is not None]
    fields = {name: one for side in sides for name, one in side["properties"].items() if name not in form.left_out}
    required = [name for name in fields if any(name in side.get("required", ()) for side in sides)]
    about = " ".join(side["description"] for side in sides if "description" in side)
    return {"description": about, "type": "object", "properties": fields, "required": required}


def _resolved(part: JsonObject, shared: JsonObject) -> JsonObject:
    """Return what *part* refers to."""
    found: JsonObject = shared[part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else part
    return found


def _used(commands: JsonObject, shared: JsonObject) -> JsonObject:
    """Return the shared definitions that some command leads to, by name."""
    used: dict[str, Any] = {}
    left: list[Any] = [commands]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).removeprefix("#/$defs/")
            if name in shared and name not in used:
                used[name] = shared[name]
                left.append(shared[name])
            left += part.values()
        elif isinstance(part, list):
            left += part
    return dict(sorted(used.items()))


def _plain(part: Any) -> Any:
    """Return *part* of a schema without bounds, defaults and titles, open for more fields."""
    if isinstance(part, list):
        return [_plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    found: JsonObject = {}
    for key, value in part.items():
        if key in _BY_NAME:
            found[key] = {name: _plain(one) for name, one in value.items()}
        elif key not in _LEFT_OUT and not (key == "additionalProperties" and value is False):
            found[key] = " ".join(value.split()) if key == "description" else _plain(value)
    return found
