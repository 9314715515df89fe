"""JSON Schemas in words: the type of a field in pieces that may be links, and what bounds it."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MAX_DEPTH = 8
"""Of types in types; what is deeper is said to be a value."""

MAX_CHOICES = 40

_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")

_SEVERAL = {"anyOf": " or ", "oneOf": " or ", "allOf": " and "}

_BOUNDS = (
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} members"),
    ("pattern", "matches {}"),
)


class TypePiece(NamedTuple):
    """A piece of a type: its words, and the schema that it names."""

    words: str
    names: str = ""


class SchemaField(NamedTuple):
    """One field of a schema, as a page shows it."""

    name: str
    required: bool
    type: list[TypePiece]
    bounds: str
    description: str


def name_of(reference: str) -> str:
    """Return the name at the end of a reference."""
    return reference.rpartition("/")[2]


def type_of(schema: Any, depth: int = 0) -> list[TypePiece]:
    """Return the type that *schema* gives a value."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return [TypePiece("any value")]
    if "$ref" in schema:
        name = name_of(str(schema["$ref"]))
        return [TypePiece(name, name)]
    for several, between in _SEVERAL.items():
        if several in schema:
            return _joined((type_of(one, depth + 1) for one in schema[several]), between)
    if "const" in schema or "enum" in schema:
        choices = [repr(one) for one in schema.get("enum", (schema.get("const"),))]
        return [TypePiece(" or ".join(choices[:MAX_CHOICES]) + (" or …" if len(choices) > MAX_CHOICES else ""))]
    return _plain_type(schema, depth)


def _plain_type(schema: Mapping[str, Any], depth: int) -> list[TypePiece]:
    match schema.get("type"):
        case "array":
            return [TypePiece("list of "), *type_of(schema.get("items", {}), depth + 1)]
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping) and values:
                return [TypePiece("map of "), *type_of(values, depth + 1)]
            return [TypePiece("object")]
        case str(kind):
            return [TypePiece(f"{kind} ({schema['format']})" if "format" in schema else kind)]
        case list(kinds):
            return [TypePiece(" or ".join(map(str, kinds)))]
        case _:
            return [TypePiece("any value")]


def bounds_of(schema: Any) -> str:
    """Return in words what bounds a value; of one of several types, those of each."""
    if not isinstance(schema, Mapping):
        return ""
    found = [words.format(written(schema[name])) for name, words in _BOUNDS if name in schema]
    for one in schema.get("anyOf", ()):
        found += [words for words in [bounds_of(one)] if words]
    if schema.get("default") not in (None, "", [], {}):
        found.append(f"default {written(schema['default'])}")
    return "; ".join(dict.fromkeys(found))


def written(value: Any) -> str:
    """Write a value of a schema as JSON has it; a whole number without its point."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)


def paragraphs(words: str) -> str:
    """Return a description without the ends of its lines, but with those of its paragraphs."""
    return _LINE_END.sub(" ", words)


def fields_of(schema: Mapping[str, Any]) -> list[SchemaField]:
    """Return the fields of an object's schema, those that are required first."""
    required = set(schema.get("required", ()))
    fields = [
        SchemaField(name, name in required, type_of(one), bounds_of(one), paragraphs(str(one.get("description", ""))))
        for name, one in schema.get("properties", {}).items()
        if isinstance(one, Mapping)
    ]
    return sorted(fields, key=lambda field: not field.required)


def _joined(parts: Iterable[list[TypePiece]], between: str) -> list[TypePiece]:
    found: list[TypePiece] = []
    for part in parts:
        found += [TypePiece(between), *part] if found else part
    return found
