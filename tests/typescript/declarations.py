"""The messages and operations of an OpenAPI document as TypeScript.

A field that has a default may be left out of what is sent, and is there in what is received: so it is optional in a
message that some request holds, and not in one that only answers hold, unless it may be null, for nulls are left out
of some answers. Bounds of values are the server's business.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.places import ROOT

from towpath_fabric.schemas import documents

GENERATED = ROOT / "clients" / "typescript" / "src" / "api.ts"
HEAD = "// Made from the gateway's OpenAPI document by: python -m tests.typescript\n"

Schema = Mapping[str, Any]

_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_NAME = re.compile(r"[A-Za-z_$][\w$]*")


class ApiDeclarations:
    """Writes the declarations of one OpenAPI document."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._schemas: Schema = document["components"]["schemas"]
        self._sent = self._reached(_bodies(document))

    def text(self) -> str:
        """Return the file: every schema by name, then every operation by method and path."""
        schemas = [self._declaration(name, self._schemas[name]) for name in sorted(self._schemas, key=_type_name)]
        return "\n".join([HEAD, *schemas, self._operations()])

    def _declaration(self, name: str, schema: Schema) -> str:
        own = _comment(schema.get("description", ""), "")
        if "properties" not in schema:
            return f"{own}export type {_type_name(name)} = {self._type(schema, '', name in self._sent)};\n"
        return f"{own}export interface {_type_name(name)} {self._fields(schema, '', name in self._sent)}\n"

    def _fields(self, schema: Schema, indent: str, sent: bool) -> str:
        lines = []
        for name, field in schema["properties"].items():
            mark = "?" if _may_be_absent(name, field, schema, sent) else ""
            lines.append(_comment(field.get("description", ""), f"{indent}  "))
            lines.append(f"{indent}  {_key(name)}{mark}: {self._type(field, f'{indent}  ', sent)};\n")
        return f"{{\n{''.join(lines)}{indent}}}"

    def _type(self, schema: Schema, indent: str, sent: bool) -> str:
        if "$ref" in schema:
            return _type_name(_referred(schema))
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " | ".join(json.dumps(one) for one in schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return " | ".join(dict.fromkeys(self._type(one, indent, sent) for one in schema[union]))
        if schema.get("type") == "array":
            item = self._type(schema.get("items", {}), indent, sent)
            return f"({item})[]" if " | " in item else f"{item}[]"
        if schema.get("type") == "object":
            return self._object(schema, indent, sent)
        return _PLAIN.get(schema.get("type", ""), "unknown")

    def _object(self, schema: Schema, indent: str, sent: bool) -> str:
        if schema.get("properties"):
            return self._fields(schema, indent, sent)
        values = schema.get("additionalProperties", True)
        named = [*schema.get("patternProperties", {}).values(), *([values] if isinstance(values, Mapping) else [])]
        value = " | ".join(self._type(one, indent, sent) for one in named) or "unknown"
        return f"Record<string, {value}>"

    def _operations(self) -> str:
        lines = ["/** What each operation takes and gives, by its method and path. */\nexport interface Operations {\n"]
        for method, path, operation in _operations(self._document):
            lines.append(_comment(operation.get("summary", ""), "  "))
            lines.append(f"  {json.dumps(f'{method.upper()} {path}')}: {{\n")
            parts = {place: self._parameters(operation, place) for place in ("path", "query")}
            lines.append("".join(f"    {place}: {written};\n" for place, written in parts.items()))
            lines.append(f"    body: {self._body(operation)};\n    answer: {self._answer(operation)};\n  }};\n")
        return "".join([*lines, "}\n"])

    def _parameters(self, operation: Schema, place: str) -> str:
        found = [one for one in operation.get("parameters", ()) if one["in"] == place]
        if not found:
            return "undefined"
        fields = {one["name"]: {"description": one.get("description", ""), **one["schema"]} for one in found}
        required = [one["name"] for one in found if one.get("required")]
        written = self._fields({"properties": fields, "required": required}, "    ", sent=True)
        return written if required else f"{written} | undefined"

    def _body(self, operation: Schema) -> str:
        body = operation.get("requestBody")
        if body is None:
            return "undefined"
        found = self._type(_json_of(body) or {}, "    ", sent=True)
        return found if body.get("required") else f"{found} | undefined"

    def _answer(self, operation: Schema) -> str:
        good = [one for status, one in operation["responses"].items() if status.startswith("2")]
        found = [self._type(schema, "    ", sent=False) for one in good if (schema := _json_of(one)) is not None]
        return " | ".join(dict.fromkeys(found)) or "undefined"

    def _reached(self, start: Iterator[Schema]) -> frozenset[str]:
        """Return the names of all schemas that *start* refers to, and of those that these refer to."""
        seen: set[str] = set()
        waiting = [name for one in start for name in _references(one)]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += _references(self._schemas[name])
        return frozenset(seen)


@functools.cache
def declarations() -> str:
    """Return the text of the client's types."""
    return ApiDeclarations(json.loads(documents()["openapi.json"])).text()


def _operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                yield method, path, operation


def _bodies(document: Schema) -> Iterator[Schema]:
    for _, _, operation in _operations(document):
        yield operation.get("requestBody") or {}


def _json_of(part: Schema) -> Schema | None:
    found: Schema | None = part.get("content", {}).get("application/json", {}).get("schema")
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield _referred(value)
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _referred(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _may_be_absent(name: str, field: Schema, schema: Schema, sent: bool) -> bool:
    if name in schema.get("required", ()):
        return False
    return sent or field.get("default") is None


def _type_name(name: str) -> str:
    return name.replace("-", "")


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _comment(text: str, indent: str) -> str:
    lines = text.replace("*/", "* /").strip().splitlines()
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    inner = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{inner}{indent} */\n"
