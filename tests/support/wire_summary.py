"""The wire format in short: `python -m tests.support.wire_summary write [--breaking]` writes tests/golden/wire.txt.

Beside it stands limits.txt, with bounds and defaults (`wire_limits.py`).

One entry per message, HTTP operation, subject, stream and problem code, with its fields; `!` marks what is required.
The entries are compared field by field, so that a change that breaks a peer or a client of an older version is told
from one that only adds. `write` refuses a breaking change unless it is asked for.
"""

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from tests.support.gateway.openapi_document import openapi_document

from towpath_contracts.events.log import event_adapter
from towpath_contracts.facts import fact_adapter
from towpath_contracts.problems.registry import REGISTRY
from towpath_contracts.streams import STREAMS
from towpath_fabric.asyncapi import asyncapi_document
from towpath_fabric.schemas import message_adapters

FILE = Path(__file__).parents[1] / "golden" / "wire.txt"
COMMAND = "python -m tests.support.wire_summary write"
WIDTH = 120
STRICT = " (strict)"
"""Ends the heading of a message that refuses unknown fields."""
HEAD = f"""\
# What peers and clients of Towpath rely on. Written by `{COMMAND}`; don't edit.
# `name! type` is required, `name type` is optional, `type?` may be null, `[type]` is a list, `{{type}}` an object with
# any keys. A strict message refuses unknown fields. `event.x` and `fact.x` are members of the unions Event and Fact.
# Additions are fine; what goes away, becomes required or has fewer values breaks compatibility.
"""
Json = dict[str, Any]
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
FORMATS = {"date-time": "time"}


class Field(NamedTuple):
    """What a message, an operation or a subject has under one name."""

    required: bool
    kind: str


Entries = dict[str, dict[str, Field]]
"""Every entry by its heading, such as `SubmitTask (strict)` or `GET /v1/runs`, and its fields by name."""


class Names:
    """What the types of one document are called: members of unions by their wire tag, everything else by its class.

    A class of the same name as another is prefixed with its module by pydantic; the wire doesn't know modules.
    """

    def __init__(self, schemas: Json) -> None:
        self._names: dict[str, str] = {}
        for mapping in _mappings(schemas):
            if union := _union(set(mapping)):
                self._names |= {_target(reference): f"{union}.{tag}" for tag, reference in mapping.items()}

    def of(self, name: str) -> str:
        """Return what the definition *name* is called here."""
        plain = re.sub(r"-(Input|Output)$", "", name)
        if "__" in plain and name not in self._names:
            msg = f"two classes are called {plain.rpartition('__')[2]}: give one of them another name"
            raise ValueError(msg)
        return self._names.get(name, plain)

    def kind(self, schema: Json) -> str:
        """Return the type that *schema* describes, such as `[str]` or `'new'|'old'`."""
        if "$ref" in schema:
            return self.of(_target(schema["$ref"]))
        if "const" in schema or "enum" in schema:
            return "|".join(_literal(value) for value in schema.get("enum", [schema.get("const")]))
        if union := _union(set(schema.get("discriminator", {}).get("mapping", ()))):
            return union.title()
        if choices := schema.get("anyOf", schema.get("oneOf")):
            kinds = list(dict.fromkeys(self.kind(choice) for choice in choices))
            nullable = "null" in kinds and len(kinds) > 1
            return "|".join(kind for kind in kinds if not nullable or kind != "null") + "?" * nullable
        return self._composed(schema)

    def _composed(self, schema: Json) -> str:
        match schema.get("type"):
            case "array" if "prefixItems" in schema:
                return f"({' '.join(self.kind(item) for item in schema['prefixItems'])})"
            case "array":
                return f"[{self.kind(schema.get('items', {}))}]"
            case "object":
                values = schema.get(
                    "additionalProperties", next(iter(schema.get("patternProperties", {}).values()), {})
                )
                return f"{{{self.kind(values) if isinstance(values, dict) else 'any'}}}"
            case None:
                return "any"
            case found:
                return FORMATS.get(schema.get("format", ""), str(schema.get("format", SCALARS[found])))


def wire() -> Entries:
    """Return what the code of this checkout says on the wire."""
    messages, openapi = documents()
    entries = _models(messages)
    for heading, fields in _models(openapi["components"]["schemas"]).items():
        if entries.setdefault(heading, fields).keys() != fields.keys():
            msg = f"HTTP and NATS mean different things by {heading}"
            raise ValueError(msg)
    operations, subjects = _operations(openapi), _subjects(asyncapi_document())
    return {key: part[key] for part in (entries, operations, subjects, _registry()) for key in sorted(part)}


@functools.cache
def documents() -> tuple[Json, Json]:
    """Return the schemas of all messages, and the document of the HTTP operations."""
    adapters: list[Any] = [(name, "validation", adapter) for name, adapter in message_adapters().items()]
    top, rest = TypeAdapter.json_schemas(adapters, ref_template="#/$defs/{model}")
    messages: Json = rest["$defs"]
    messages |= {name: schema for (name, _), schema in top.items() if "$ref" not in schema}  # the others are among them
    return messages, openapi_document()


def breaks(old: Entries, new: Entries) -> list[str]:
    """Return what somebody who relies on *old* misses in *new*, one sentence each."""
    found: list[str] = []
    for heading, fields in old.items():
        name = heading if heading in new else heading.removesuffix(STRICT)  # to take unknown fields breaks nobody
        if name in new:
            found += (f"{heading}: {sentence}" for sentence in _missed(fields, new[name]))
        else:
            found.append(f"{heading} refuses unknown fields now" if f"{name}{STRICT}" in new else f"{heading} is gone")
    return found


def written(text: str) -> Entries:
    """Return the entries of *text*, as `lines` writes them."""
    entries: Entries = {}
    joined = re.sub(r"\n +", " ", re.sub(r"\|\n +", "|", text))
    for line in joined.splitlines():
        if line and not line.startswith("#"):
            heading, _, fields = f"{line} ".partition(": ")
            parts = [field.partition(" ") for field in fields.strip().split(", ") if field]
            entries[heading] = {name.rstrip("!"): Field(name.endswith("!"), kind) for name, _, kind in parts}
    return entries


def lines(entries: Entries) -> str:
    """Return *entries* as the text of the file."""
    return HEAD + "".join(f"{line}\n" for heading, fields in entries.items() for line in _wrapped(heading, fields))


def _wrapped(heading: str, fields: dict[str, Field]) -> Iterator[str]:
    line = f"{heading}:"
    parts = [f"{name}{'!' * field.required} {field.kind}".rstrip() for name, field in fields.items()]
    for piece in re.findall(r"[^|,]+[|,]?", ",".join(f" {part}" for part in parts)):  # breaks after `,` and `|` alone
        if len(line) + len(piece) > WIDTH:
            yield line
            line = f"  {piece.lstrip()}"
        else:
            line += piece
    yield line


def _models(schemas: Json) -> Entries:
    names, entries = Names(schemas), Entries()
    for key, schema in schemas.items():
        if key.endswith("-Output"):
            continue  # the same message as -Input, with a serializer of its own
        name, strict = names.of(key), schema.get("additionalProperties") is False
        if schema.get("type") != "object" or not ("properties" in schema or strict):
            if (kind := names.kind(schema)) != name:
                entries[name] = {"=": Field(required=False, kind=kind)}
            continue
        required = set(schema.get("required", ()))
        fields = {part: Field(part in required, names.kind(found)) for part, found in schema["properties"].items()}
        entries[f"{name}{STRICT}" if strict else name] = fields
    return entries


def _operations(openapi: Json) -> Entries:
    names, entries = Names(openapi["components"]["schemas"]), Entries()
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            fields = {}
            for part in operation.get("parameters", ()):
                name = f"{part['in']}.{part['name'].lower() if part['in'] == 'header' else part['name']}"
                fields[name] = Field(part["required"], names.kind(part["schema"]))
            if body := operation.get("requestBody"):
                fields["body"] = Field(body.get("required", False), _content(names, body))
            answers = operation["responses"]
            fields |= {
                s: Field(False, _content(names, found)) for s, found in answers.items() if "x-codes" not in found
            }
            refusals = sorted({code for found in answers.values() for code in found.get("x-codes", ())})
            if refusals:
                fields["refusals"] = Field(False, "|".join(refusals))
            entries[f"{method.upper()} {path}"] = fields
    return entries


def _content(names: Names, body: Json) -> str:
    found = body.get("content", {})
    kinds = [names.kind(part["schema"]) if part.get("schema") else name for name, part in sorted(found.items())]
    return "|".join(kinds) or "nothing"


def _subjects(asyncapi: Json) -> Entries:
    entries = {f"stream {spec.name}": _stream(spec) for spec in STREAMS}
    channels = asyncapi["channels"]
    for key, channel in channels.items():
        if channel["address"] is not None:
            carrier = channel["x-carrier"]
            fields = {"takes": "|".join(channel["messages"])} if channel["messages"] else {}
            if reply := channels.get(f"{key}Reply"):
                fields["answers"] = "|".join(reply["messages"])
            fields["by"] = carrier if isinstance(carrier, str) else carrier["stream"]
            entries[f"subject {channel['address']}"] = {name: Field(False, kind) for name, kind in fields.items()}
    return entries


def _stream(spec: Any) -> dict[str, Field]:
    return {"subjects": Field(False, "|".join(spec.subjects)), "retention": Field(False, spec.retention)}


def _registry() -> Entries:
    return {f"problem {code}": {"status": Field(False, str(kind.status))} for code, kind in sorted(REGISTRY.items())}


def _missed(old: dict[str, Field], new: dict[str, Field]) -> Iterator[str]:
    for name, field in old.items():
        now = new.get(name)
        if now is None:
            yield f"{name} is gone"
        elif now.required and not field.required:
            yield f"{name} is required now"
        elif not _takes(now.kind, field.kind):
            yield f"{name} was {field.kind}, is {now.kind}"
    yield from (f"{name} is new and required" for name in sorted(new.keys() - old.keys()) if new[name].required)


def _takes(new: str, old: str) -> bool:
    """Say whether a field of type *new* can hold all that one of type *old* could."""
    if "any" in (alternatives := _alternatives(new)):
        return True
    for kind in _alternatives(old):
        held = kind[0] in "[{" and any(
            other[0] == kind[0] and _takes(other[1:-1], kind[1:-1]) for other in alternatives if other[0] in "[{"
        )
        if kind not in alternatives and not held:
            return False
    return True


def _alternatives(kind: str) -> list[str]:
    """Return the parts of a union: `[a|b]|c?` is `[a|b]`, `c` and `null`."""
    parts, depth = [""], 0
    for character in kind.removesuffix("?"):
        depth += (character in "[({") - (character in "])}")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [*parts, "null"] if kind.endswith("?") else parts


def _mappings(part: Any) -> Iterator[dict[str, str]]:
    if isinstance(part, dict):
        discriminator = part.get("discriminator")
        if isinstance(discriminator, dict) and "mapping" in discriminator:
            yield discriminator["mapping"]
        for value in part.values():
            yield from _mappings(value)
    elif isinstance(part, list):
        for value in part:
            yield from _mappings(value)


@functools.cache
def _tags() -> dict[str, set[str]]:
    adapters = {"event": event_adapter, "fact": fact_adapter}
    return {name: set(adapter.json_schema()["discriminator"]["mapping"]) for name, adapter in adapters.items()}


def _union(tags: set[str]) -> str | None:
    """Return whose members have *tags*, of the unions whose members are known by their tags."""
    return next((name for name, known in _tags().items() if known == tags), None)


def _target(reference: str) -> str:
    return reference.rpartition("/")[2]


def _literal(value: object) -> str:
    text = str(value)
    if not re.fullmatch(r"[\w.:*/+-]*", text):
        msg = f"the file can't hold the literal {value!r}"
        raise ValueError(msg)
    return f"'{text}'" if isinstance(value, str) else text


def main(arguments: list[str]) -> int:
    """Write the file; returns 1 where that would break compatibility and nobody asked for it."""
    if arguments not in (["write"], ["write", "--breaking"]):
        sys.stderr.write(f"usage: {COMMAND} [--breaking]\n")
        return 2
    from tests.support import wire_limits  # it reads the same documents

    new, limits = wire(), wire_limits.limits()
    broken = breaks(written(FILE.read_text("utf-8")) if FILE.is_file() else {}, new)
    if wire_limits.FILE.is_file():
        broken += wire_limits.breaks(wire_limits.written(wire_limits.FILE.read_text("utf-8")), limits)
    if broken and "--breaking" not in arguments:
        sys.stderr.write("\n".join([*broken, f"Nothing is written. If this is meant: {COMMAND} --breaking", ""]))
        return 1
    FILE.write_text(lines(new), "utf-8")
    wire_limits.FILE.write_text(wire_limits.lines(limits), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
