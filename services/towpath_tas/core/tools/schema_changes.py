"""What would the new schema of a tool take that the old one refused?

Keywords that bound a value are compared one by one. Where two schemas differ in another way, nobody can say without a
person which one is stricter, so that counts as looser too. Workers write both, so the time of a comparison grows with
the length of the two and no faster: listed values are compared as sets, places are kept as tuples of names.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_TEXTS = frozenset({"title", "description", "$comment", "examples", "deprecated", "readOnly", "writeOnly", "default"})
"""Keywords that refuse nothing."""

NAMED = ("properties", "$defs", "definitions")
"""Keywords that hold schemas by name."""

HOLDING_VALUES = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values, not schemas."""

_ASIDE = _TEXTS | HOLDING_VALUES
"""Members whose contents are not compared as schemas."""

_BY_NAME = frozenset({*NAMED, "patternProperties", "dependentSchemas"})

_BACKWARDS = frozenset({"not", "if", "oneOf", "contains"})
"""Keywords under which a narrower schema may take more of the whole."""

_COMPARED = frozenset({*_AT_MOST, *_AT_LEAST, *NAMED, "enum", "const", "type", "required", "additionalProperties"})
_OPEN: tuple[Any, ...] = (True, None, {})


def loosened(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Yield, with its place, what *new* takes and *old* refused; a new parameter is none of these."""
    if old in _OPEN or new is False or (old == new and _identity(old) == _identity(new)):  # 1 == True in Python
        return
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        yield f"{at or 'the arguments'}: more is taken"
        return
    place = at or "the arguments"
    if not at and _refers_backwards(old):
        yield "it refers to itself under not, if, oneOf or contains, so any change may take more"
    if not at and _refers_aside(old):
        yield "it refers to what stands in a text or a listed value, so any change may take more"
    yield from (f"{place}: {found}" for found in _own(old, new))
    closed = new.get("additionalProperties") is False
    for keyword in NAMED:
        before, after = old.get(keyword) or {}, new.get(keyword) or {}
        for name, schema in before.items():
            inner = f"{at}.{name}" if at else name
            if name in after:
                yield from loosened(schema, after[name], inner)
            elif keyword == "properties" and not closed and schema not in _OPEN:
                yield f"{inner}: its schema is gone"
    others = "additionalProperties"
    yield from loosened(old.get(others, True), new.get(others, True), f"{place} (others)")
    yield from _newly_named(old, new, at)
    yield from loosened(old.get("items", True), new.get("items", True), f"{at}[]")


def _newly_named(old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield the members that have a name now, and had to be like all others before."""
    others, known = old.get("additionalProperties"), old.get("properties") or {}
    if isinstance(others, Mapping) and others:
        for name, schema in (new.get("properties") or {}).items():
            if name not in known and schema is not False and schema != others:
                yield f"{f'{at}.{name}' if at else name}: it had to be as the others are"


def _own(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{word} is raised or gone" for word in _AT_MOST if word in old and _more(new.get(word), old[word]))
    yield from (f"{word} is lowered or gone" for word in _AT_LEAST if word in old and _more(old[word], new.get(word)))
    listed, offered = _values(old), _values(new)
    if listed is not None and (offered is None or not set(map(_identity, offered)) <= set(map(_identity, listed))):
        yield "values are taken that were not listed"
    if "type" in old and not _types(new) <= _types(old):
        yield "other types are taken"
    lost = sorted(set(old.get("required", ())) - set(new.get("required", ())))
    if lost:
        yield f"no longer required: {', '.join(lost)}"
    for word in sorted((old.keys() | new.keys()) - _COMPARED - _TEXTS - {"items"}):
        if word in old and old[word] != new.get(word):
            yield f"{word} changes"
        elif word == "$ref":
            yield "$ref takes the place of what was there"
        elif word == "prefixItems" or any(before.startswith("unevaluated") for before in old):
            yield f"{word} takes its part from what bound it"
    if "contains" in old and "minContains" not in old and not new.get("minContains", 1):
        yield "minContains is lowered"


def _refers_backwards(schema: Any, *, under: bool = False) -> bool:
    """Return whether a reference stands below one of the keywords `_BACKWARDS`."""
    if isinstance(schema, list):
        return any(_refers_backwards(item, under=under) for item in schema)
    if not isinstance(schema, Mapping):
        return False
    if under and "$ref" in schema:
        return True
    for word, inner in schema.items():
        if word in _BY_NAME and isinstance(inner, Mapping):  # the names of its members are no keywords
            if any(_refers_backwards(one, under=under) for one in inner.values()):
                return True
        elif word not in HOLDING_VALUES and _refers_backwards(inner, under=under or word in _BACKWARDS):
            return True
    return False


def _refers_aside(schema: Any) -> bool:
    """Return whether a reference leads to what is compared as a text or a value, or is written with percent signs."""
    if isinstance(schema, list):
        return any(map(_refers_aside, schema))
    if not isinstance(schema, Mapping):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str) and ("%" in reference or not _ASIDE.isdisjoint(reference.split("/"))):
        return True
    return any(map(_refers_aside, schema.values()))


def _more(one: Any, other: Any) -> bool:
    """Return whether the bound *one* is above *other*, or one of the two is not there."""
    return one is None or other is None or one > other


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _identity(value: Any) -> str:
    """Return what two values share exactly if JSON Schema takes them for equal; 1 and true are not, 1 and 1.0 are.

    Numbers inside lists and objects are compared as they are written: to take two for different is the safe side. It is
    a text since numbers can be chosen so that they all have the same hash, and texts can't.
    """
    if isinstance(value, str):
        return f'"{value}'
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value) if type(value) is int else json.dumps(value, sort_keys=True)


_ALL_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string"})


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    if named is None:
        values = _values(schema)
        return _ALL_TYPES if values is None else frozenset()
    found = frozenset([named] if isinstance(named, str) else named)
    return found | {"integer"} if "number" in found else found


def vouched_values(schema: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (path of the argument, value) of every value that *schema* lists or gives: provenance calls it `fixed`."""
    if isinstance(schema, list):
        for item in schema:
            yield from vouched_values(item, at)
    elif isinstance(schema, Mapping):
        for value in (*(_values(schema) or ()), *([schema["default"]] if "default" in schema else ())):
            yield at, repr(value)
        for keyword, inner in schema.items():
            if keyword in NAMED and isinstance(inner, Mapping):
                for name, one in inner.items():
                    yield from vouched_values(one, (*at, name) if keyword == "properties" else ())
            elif keyword not in HOLDING_VALUES:
                yield from vouched_values(inner, at)


def schema_texts(schema: Any) -> Iterator[str]:
    """Yield the titles and descriptions in *schema*, which a model reads."""
    if isinstance(schema, list):
        for item in schema:
            yield from schema_texts(item)
    elif isinstance(schema, Mapping):
        yield from (text for word in ("title", "description") if isinstance(text := schema.get(word), str))
        for keyword, inner in schema.items():
            if keyword in NAMED and isinstance(inner, Mapping):
                yield from schema_texts(list(inner.values()))
            elif keyword not in HOLDING_VALUES:
                yield from schema_texts(inner)
