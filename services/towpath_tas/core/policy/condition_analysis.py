"""Finds the parts of a condition that can never be the boolean true.

Used for warnings only, and reports nothing where it is not sure: a part is reported only if the schemas of all tools in
question say that the value there is no boolean. Conditions are evaluated elsewhere (`conditions`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PLACE = re.compile(r"args((?:\.[A-Za-z_]\w*|\[(?:'[^'\\]*'|\"[^\"\\]*\")\])*)")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[['\"]([^'\"]*)['\"]\]")
_UNDECIDED_KEYWORDS = ("anyOf", "oneOf", "allOf", "$ref", "not", "if")
_KINDS = {str: "string", int: "number", float: "number", bool: "boolean", list: "array", dict: "object"}


def never_true(when: str, schemas: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the parts of *when* that must be boolean but are not, with their types according to all *schemas*."""
    for part in _boolean_parts(when):
        place = _PLACE.fullmatch(part)
        if place is None or not schemas:
            continue
        path = [first or second for first, second in _STEP.findall(place[1])]
        kinds = [schema_kinds(schema, path) for schema in schemas]
        if all(found and "boolean" not in found for found in kinds):
            yield part, " or ".join(sorted({kind for found in kinds for kind in found or ()}))


def _boolean_parts(text: str) -> Iterator[str]:
    """Yield the operands of && and || in *text*, without outer parentheses and negations."""
    text = text.strip()
    while (inner := _inner_text(text)) is not None:
        text = inner.strip()
    pieces = _split(text)
    if len(pieces) == 1:
        yield text
        return
    for piece in pieces:
        yield from _boolean_parts(piece)


def _inner_text(text: str) -> str | None:
    """Return the operand of a negation or the content of outer parentheses; None if *text* is neither."""
    if text.startswith("!") and len(_split(text)) == 1:
        return text[1:]
    if not text.startswith("(") or not text.endswith(")"):
        return None
    depth = 0
    plain = _masked(text)
    for place, sign in enumerate(plain):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and place < len(plain) - 1:
            return None
    return text[1:-1]


def _split(text: str) -> list[str]:
    """Split at && and || outside of parentheses, brackets and quotes; a conditional (?:) is not split."""
    plain = _masked(text)
    pieces, begin, depth, place = [], 0, 0, 0
    while place < len(plain):
        sign = plain[place]
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign == "?":
            return [text]
        if depth == 0 and plain[place : place + 2] in {"&&", "||"}:
            pieces.append(text[begin:place])
            begin = place = place + 2
            continue
        place += 1
    return [*pieces, text[begin:]]


def _masked(text: str) -> str:
    return _QUOTED.sub(lambda found: "_" * len(found[0]), text)


def schema_kinds(schema: Any, path: Sequence[str]) -> frozenset[str]:
    """Return the JSON types that the value at *path* may have; empty if the schema leaves that open."""
    for name in path:
        if not isinstance(schema, Mapping) or any(word in schema for word in _UNDECIDED_KEYWORDS):
            return frozenset()
        members = schema.get("properties")
        if not isinstance(members, Mapping) or name not in members:
            return frozenset()
        schema = members[name]
    if not isinstance(schema, Mapping) or any(word in schema for word in _UNDECIDED_KEYWORDS):
        return frozenset()
    declared = schema.get("type")
    if declared is not None:
        return frozenset([declared] if isinstance(declared, str) else declared)
    values = schema.get("enum", [schema["const"]] if "const" in schema else ())
    return frozenset(_KINDS.get(type(value), "null") for value in values)
