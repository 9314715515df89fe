"""Messages made from their own schemas: valid ones, and valid ones with one thing wrong.

Everything comes from the declared channels and the authority table, so that a new subject or field is covered as
soon as it exists; the same seed makes the same messages.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from towpath_contracts.authority import NatsUserRights
from towpath_fabric.asyncapi import CHANNELS, asyncapi_document

MAX_LEVELS = 6
"""Nesting of a sample; deeper parts stay empty."""

_REFERENCE = "#/components/schemas/"


@dataclass(frozen=True, kw_only=True)
class PublishTarget:
    """A subject that *user* may publish on, what belongs there, and whether a service answers.

    *free* means that the last token is the publisher's choice.
    """

    user: str
    subject: str
    schema: str
    answered: bool
    free: bool


def publish_targets(users: Mapping[str, NatsUserRights], places: Mapping[str, str]) -> Iterator[PublishTarget]:
    """Every subject that each of *users* may publish on; *places* fill the parameters of addresses."""
    for user, rights in users.items():
        for channel in CHANNELS:
            found = {s: pattern for pattern in rights.publish if (s := _filled(channel.address, pattern, places))}
            for subject, pattern in sorted(found.items()):
                for message in channel.messages:
                    name = message if isinstance(message, str) else str(message.__name__)
                    # A confirmation of `tool.outcome` goes to an inbox that its header names.
                    answered = bool(channel.reply) and not channel.address.startswith("tool.")
                    free = channel.address.endswith("}") and pattern[-1] in "*>"
                    yield PublishTarget(user=user, subject=subject, schema=name, answered=answered, free=free)


def _filled(address: str, pattern: str, places: Mapping[str, str]) -> str | None:
    """Return *address* with its parameters filled so that *pattern* allows it, or None where it can't."""
    tokens, allowed = address.split("."), pattern.split(".")
    found: list[str] = []
    for place, token in enumerate(tokens):
        rest = place >= len(allowed)
        if rest and allowed[-1] != ">":
            return None
        part = ">" if rest else allowed[place]
        if token.startswith("{"):
            found.append(places[token.strip("{}")] if part in ("*", ">") else part)
        elif part in ("*", ">", token):
            found.append(token)
        else:
            return None
    return ".".join(found) if len(allowed) <= len(tokens) else None


class MessageSamples:
    """Makes values of the schemas of the message bus. *known* are ids and names that exist, used now and then."""

    def __init__(self, chance: Random, known: Mapping[str, tuple[str, ...]]) -> None:
        self._chance = chance
        self._known = known
        self._schemas: dict[str, Any] = asyncapi_document()["components"]["schemas"]

    def valid(self, name: str) -> Any:
        """Return a value that the schema *name* allows."""
        return self._make({"$ref": _REFERENCE + name}, name, 0)

    def _make(self, schema: Any, field: str, level: int) -> Any:
        if "$ref" in schema:
            return self._make(self._schemas[schema["$ref"].removeprefix(_REFERENCE)], field, level)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._make(self._chance.choice(choices), field, level)
        if "const" in schema or "enum" in schema:
            return self._chance.choice(schema.get("enum") or [schema["const"]])
        return self._plain(schema, field, level)

    def _plain(self, schema: Any, field: str, level: int) -> Any:
        match schema.get("type"):
            case "object":
                return self._object(schema, level)
            case "array":
                empty = level > MAX_LEVELS or "items" not in schema
                return [] if empty else [self._make(schema["items"], field, level + 1)] * schema.get("minItems", 1)
            case "string":
                return self._text(schema, field)
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return self._chance.random() < 0.5
            case _:
                return self._chance.choice(("x", 1, None, {"n": 1}, ["x"])) if "type" not in schema else None

    def _object(self, schema: Any, level: int) -> Any:
        needed = schema.get("required", ())
        return {
            name: self._make(part, name, level + 1)
            for name, part in schema.get("properties", {}).items()
            if name in needed or (level <= MAX_LEVELS and self._chance.random() < 0.5)
        }

    def _text(self, schema: Any, field: str) -> str:
        if field in self._known and self._chance.random() < 0.7:
            return self._chance.choice(self._known[field])
        if schema.get("format") == "uuid":
            return str(UUID(int=self._chance.getrandbits(128)))
        if schema.get("format") == "date-time":
            return self._chance.choice(("2026-11-22T05:00:00Z", "2030-01-01T00:00:00.5+02:00"))
        return self._chance.choice(("a1", "default"))

    def _number(self, schema: Any) -> int:
        least = int(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
        return min(least + self._chance.randrange(3), int(schema.get("maximum", least + 2)))


ODD_TEXTS = (
    *(
        '""',
        '" "',
        '"\\u0000"',
        '"a\\u0000b"',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"*"',
        '">"',
        '"a b"',
        '"a.b"',
        '"\\r\\n"',
    ),
    *(
        '"not an id"',
        '"00000000-0000-0000-0000-000000000000"',
        '"$JS.API.STREAM.DELETE.INBOX"',
        '"\'; --"',
        '"\\u2028"',
    ),
    *(
        '"0001-01-01T00:00:00Z"',
        '"9999-12-31T23:59:59.999999-23:59"',
        '"2026-01-01T00:00:00"',
        '"2026-02-30T25:61:61Z"',
    ),
    *("null", "true", "[]", "{}", '{"type": "?"}', "[[[[]]]]", "0", "-1", "-0.0", "0.5", "1e308", "1e999", "NaN"),
    *(
        "Infinity",
        str(2**31),
        str(2**63),
        str(-(2**63) - 1),
        "9" * 60,
        "9" * 400,
        "-" + "9" * 400,
        "9" * 5_000,
        '"' + "x" * 70_000 + '"',
    ),
    *("[" * 70 + "]" * 70, "[" * 5_000 + "]" * 5_000, '{"a":' * 300 + "1" + "}" * 300),
)
"""JSON and what is nearly JSON, to stand where something else belongs."""

_MARK = "\N{REPLACEMENT CHARACTER}odd"


def with_one_odd_part(value: Any, chance: Random) -> bytes:
    """Return *value* as JSON text in which one part, at any depth, is one of `ODD_TEXTS`."""
    copy = json.loads(json.dumps(value))
    places = list(_places(copy))
    if not places:
        return chance.choice(ODD_TEXTS).encode()
    holder, key = chance.choice(places)
    holder[key] = _MARK
    return json.dumps(copy, ensure_ascii=False).replace(f'"{_MARK}"', chance.choice(ODD_TEXTS), 1).encode()


def with_odd_keys(value: Any, chance: Random) -> bytes:
    """Return *value* with an unknown key, one twice, or another version."""
    text = json.dumps(value)
    if not text.startswith("{") or text == "{}":
        return text.encode()
    added = chance.choice(('"schema_version": 999', '"schema_version": "x"', '"\\u0000": 1', '"nobody": {"a": [1]}'))
    return b"".join((b"{", added.encode(), b", ", text[1:-1].encode(), b", ", text[1:].encode()))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield value, key
        yield from _places(part)
