"""How large is a schema once its references are followed?

A few lines of `$ref`s to `$ref`s can stand for billions of sub-schemas, and one that refers to itself twice doubles the
work with every level of a value. Such a schema is refused when it is offered, whoever offers it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_SCHEMA_NODES = 5_000
"""Sub-schemas after every reference was followed."""

MAX_STEPS = 200_000
"""Steps of following references: a tenth of a second."""

_NOT_FOLLOWED = frozenset({"$dynamicRef", "$recursiveRef"})
_DATA = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})
"""Members of a schema that hold data, not schemas."""

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
DEFINED = frozenset({"$defs", "definitions"})
"""Members that hold schemas by name; the defined ones count where they are referred to."""

_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
"""Members whose schemas are about the value itself, not about a part of it; so are those of `dependentSchemas`."""


class SchemaTooCostlyError(ValueError):
    """A schema that could cause endless work, or refers to what is not there."""


def require_finite(schema: Mapping[str, Any]) -> None:
    """Raise SchemaTooCostlyError for a schema that stands for too much, or refers to itself."""
    if _SchemaSize(schema).of(schema) > MAX_SCHEMA_NODES:
        msg = f"stands for more than {MAX_SCHEMA_NODES} sub-schemas"
        raise SchemaTooCostlyError(msg)


def require_bounded(schema: Mapping[str, Any]) -> None:
    """Raise SchemaTooCostlyError for a schema whose work multiplies; it may refer to itself, as those of trees do.

    What is refused: more than MAX_SCHEMA_NODES sub-schemas, as they stand or for one and the same value, and a value
    that is checked twice against a schema that leads back to itself, or endlessly against the same one.
    """
    try:
        _References(schema).check()
    except RecursionError as error:
        msg = "refers to what refers to something else, over and over"
        raise SchemaTooCostlyError(msg) from error


@dataclass(slots=True)
class _SchemaSize:
    """Counts what a schema stands for; every `$ref` target is counted once and remembered."""

    root: Mapping[str, Any]
    known: dict[str, int] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def of(self, schema: Any) -> int:
        if isinstance(schema, list):
            return sum(self.of(item) for item in schema)
        if not isinstance(schema, Mapping):
            return 0
        _require_followed(schema, self.root, "")
        inner = (self.of(value) for _, value in _inner(schema))
        total = 1 + sum(inner) + (self._target(schema["$ref"]) if "$ref" in schema else 0)
        return min(total, MAX_SCHEMA_NODES + 1)

    def _target(self, reference: Any) -> int:
        target = resolved(self.root, reference)
        if reference in self.open:
            msg = f"refers to itself at {reference[:100]}"
            raise SchemaTooCostlyError(msg)
        if reference not in self.known:
            if target is self.root:
                msg = "refers to something outside itself, or to all of itself"
                raise SchemaTooCostlyError(msg)
            self.open.add(reference)
            self.known[reference] = self.of(target)
            self.open.discard(reference)
        return self.known[reference]


class _References:
    """What the sub-schemas of a schema refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._places: list[tuple[str, Mapping[str, Any]]] = []
        self._collect(root, "#")
        self._met: dict[int, dict[int, int]] = {}
        self._open: set[int] = set()
        self._steps = 0

    def check(self) -> None:
        if len(self._places) > MAX_SCHEMA_NODES:
            msg = f"has more than {MAX_SCHEMA_NODES} sub-schemas"
            raise SchemaTooCostlyError(msg)
        circular = self._circular()
        for at, schema in self._places:
            met = self._applied(schema, at)
            if sum(met.values()) > MAX_SCHEMA_NODES:
                msg = f"asks for more than {MAX_SCHEMA_NODES} sub-schemas of one value at {at[:200]}"
                raise SchemaTooCostlyError(msg)
            if any(times > 1 and target in circular for target, times in met.items()):
                msg = f"refers more than once, for the same value at {at[:200]}, to a schema that refers to itself"
                raise SchemaTooCostlyError(msg)

    def _collect(self, schema: Any, at: str) -> None:
        if isinstance(schema, list):
            for place, item in enumerate(schema):
                self._collect(item, f"{at}/{place}")
        elif isinstance(schema, Mapping):
            _require_followed(schema, self._root, at)
            self._places.append((at, schema))
            for key, value in (*_inner(schema), *_defined(schema)):
                self._collect(value, f"{at}/{key}")

    def _circular(self) -> set[int]:
        """Return the targets of references that lead to themselves, or to others that do; by identity."""
        leads: dict[int, set[int]] = {}
        for at, schema in self._places:
            if "$ref" in schema:
                leads.setdefault(id(resolved(self._root, schema["$ref"], at)), set())
        for at, schema in self._places:
            if id(schema) in leads:
                leads[id(schema)] = {id(resolved(self._root, ref, at)) for ref in _references(schema)}
        led_from: dict[int, list[int]] = {target: [] for target in leads}
        for target, further in leads.items():
            for other in further:
                led_from[other].append(target)
        ended = [target for target, further in leads.items() if not further]
        while ended:
            other = ended.pop()
            del leads[other]
            for target in led_from[other]:
                leads[target].discard(other)
                if not leads[target]:
                    ended.append(target)
        return set(leads)

    def _applied(self, schema: Any, at: str) -> dict[int, int]:
        """Return the sub-schemas that a value is checked against if it is checked against *schema*, with how often."""
        if not isinstance(schema, Mapping):
            return {}
        known = self._met.get(id(schema))
        if known is not None:
            return known
        if id(schema) in self._open:
            msg = f"refers to itself without an end at {at[:200]}"
            raise SchemaTooCostlyError(msg)
        self._open.add(id(schema))
        dependent = schema.get("dependentSchemas")
        inner = [item for key in _SAME_VALUE if key in schema for item in _listed(schema[key])]
        inner.extend(dependent.values() if isinstance(dependent, Mapping) else ())
        if "$ref" in schema:
            inner.append(resolved(self._root, schema["$ref"], at))
        found = {id(schema): 1}
        for item in inner:
            applied = self._applied(item, at)
            self._steps += len(applied)
            if self._steps > MAX_STEPS:
                msg = f"has references that take more than {MAX_STEPS} steps to be followed"
                raise SchemaTooCostlyError(msg)
            for target, times in applied.items():
                found[target] = min(found.get(target, 0) + times, MAX_SCHEMA_NODES + 1)
        self._open.discard(id(schema))
        self._met[id(schema)] = found
        return found


def _require_followed(schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> None:
    for key in (*_NOT_FOLLOWED, *(() if schema is root else ("$id",))):
        if key in schema:
            msg = f"uses {key}{f' at {at[:200]}' if at else ''}, which is not followed"
            raise SchemaTooCostlyError(msg)


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the sub-schemas of *schema* that say something about its values, and lists of them, with their places."""
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            yield from ((f"{key}/{name}", item) for name, item in value.items())
        elif key not in _DATA and key not in DEFINED and key != "$ref":
            yield key, value


def _defined(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in DEFINED & schema.keys():
        if isinstance(schema[key], Mapping):
            yield from ((f"{key}/{name}", item) for name, item in schema[key].items())


def _references(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"]
        for _, value in _inner(schema):
            yield from _references(value)


def resolved(root: Mapping[str, Any], reference: Any, at: str = "") -> Any:
    """Return what *reference* stands for; raises SchemaTooCostlyError for one that leads nowhere or out of *root*."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        msg = f"refers to something outside itself{f' at {at[:200]}' if at else ', or to all of itself'}"
        raise SchemaTooCostlyError(msg)
    found: Any = root
    for part in reference[2:].split("/") if reference != "#" else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            msg = f"refers to {reference[:100]}, which is not there"
            raise SchemaTooCostlyError(msg)
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
