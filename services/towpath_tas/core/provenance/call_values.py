"""The values of one call and where they come from, and the values that the schema of its tool lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_tas.core.provenance.carried_readers import CarriedReaders, CarriedText
from towpath_tas.core.provenance.value_leaves import ValueSource
from towpath_tas.core.provenance.value_matching import vouched_forms
from towpath_tas.core.tools.schema_changes import HOLDING_VALUES, NAMED

FIXED, TASK, RECORD, UNKNOWN, UNTRUSTED = "fixed", "task", "record", "unknown", "untrusted"
LABELS = (FIXED, TASK, RECORD, UNKNOWN, UNTRUSTED)
"""Labels of where a value comes from, best first. `fixed` is a value that the tool's schema lists, or an empty one."""

MAX_SHOWN = 50
MAX_SHOWN_READERS = 20
MAX_SCHEMAS = 1_024

_LISTED: dict[int, tuple[Mapping[str, Any], Mapping[str, frozenset[str]]]] = {}
"""What schemas list, by the identity of the schema, which is kept beside it so that the identity stays its own."""


QUOTED_INPUTS = "quoted_inputs"
"""The source of what the task itself quotes."""

EARLIER_TURNS = "earlier turns"
"""The source of what was answered earlier in the conversation. No tool has a space in its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedValue:
    """One value of a call, and where it comes from: `arg` is the argument that contains it.

    `piece` is the part of a longer text that decided; `pointers` are the labels of everything in it that is an address.
    `brief`: it is untrusted, but only as words: no sentence, address or number of it was copied.
    `in_task`: the task has this short number, but does not name with it what it is used for here.
    """

    path: str
    arg: str
    label: str
    sink: bool = False
    source: ValueSource | None = None
    piece: str = ""
    pointers: tuple[str, ...] = ()
    brief: bool = False
    in_task: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProvenance:
    """Where every value of one call comes from, and what its tool may do with them.

    `whole`: nothing of the run was too large to be read; `looked`: addresses in them matter; `too_costly`: far more
    would have to be looked through than is for one call. `carried` says who may know the values; None if nobody asked.
    """

    values: tuple[TracedValue, ...]
    args: tuple[str, ...] = ()
    whole: bool = True
    looked: bool = True
    writes: bool = True
    hazards: tuple[str, ...] = ()
    too_costly: bool = False
    carried: CarriedReaders | None = None

    def context(self) -> JsonObject:
        """Return what conditions see as `origin`."""
        sinks = [one.label for one in self.values if one.sink]
        pointed = [word for one in self.values for word in one.pointers] if self.looked else []
        args: dict[str, list[str]] = {name: [] for name in self.args}
        for one in self.values:
            args.setdefault(one.arg, []).append(one.label)
        return {
            "worst": worst(one.label for one in self.values),
            "worst_sink": worst(sinks),
            "worst_pointer": worst(pointed),
            "worst_sentence": worst(UNKNOWN if one.brief else one.label for one in self.values),
            "sinks": sorted(set(sinks), key=LABELS.index),
            "pointers": sorted(set(pointed), key=LABELS.index),
            "args": {name: worst(found) for name, found in args.items()},
            "whole": self.whole,
            "writes": self.writes,
            "hazards": list(self.hazards),
            **({} if self.carried is None else self.carried.context()),
        }

    def audited(self) -> JsonObject:
        """Return what the audit keeps: words, and no value of the call."""
        return {**replace(self, carried=None).context(), **({} if self.carried is None else self.carried.audited())}

    def shown(self) -> tuple[JsonObject, ...]:
        """Return what a person who decides sees: sinks first, then the worst, without the values.

        Of a value that not everybody may know it says who may, and of a sink whether it may not.
        """
        told: dict[str, list[CarriedText]] = {}
        for text in () if self.carried is None else self.carried.carried:
            told.setdefault(text.path, []).append(text)
        leaking = {sink.path for sink in self.carried.leaks()} if self.carried is not None else set()
        ranked = sorted(self.values, key=lambda one: (not one.sink, one.path not in told, -LABELS.index(one.label)))
        return tuple(
            _shown(one) | ({"leak": True} if one.path in leaking else {}) | _shown_readers(told.get(one.path, ()))
            for one in ranked[:MAX_SHOWN]
        )

    def untrusted_values(self) -> tuple[TracedValue, ...]:
        """Return the values that are not trusted, sinks first."""
        return tuple(
            sorted(
                (one for one in self.values if one.label in {UNKNOWN, UNTRUSTED} or UNTRUSTED in one.pointers),
                key=lambda one: (not one.sink, -LABELS.index(one.label)),
            )
        )


def has_sinks(spec: ToolSpec) -> bool:
    """Return whether any argument of this tool can be a sink."""
    return bool(spec.sinks) if spec.sinks is not None else spec.effect_class is not EffectClass.PURE


def is_looked_at(spec: ToolSpec) -> bool:
    """Return whether addresses in the values of this tool matter: it writes them, or reads where they point.

    A tool of the platform itself writes nowhere outside of it, and calls that rest on its texts are looked at.
    """
    return has_sinks(spec) or (spec.effect_class is not EffectClass.PURE and not spec.internal)


def tool_properties(spec: ToolSpec) -> dict[str, Any]:
    """Return the properties of the tool in a `CallProvenance`."""
    writes = spec.effect_class is not EffectClass.PURE
    return {"looked": is_looked_at(spec), "writes": writes, "hazards": tuple(str(hazard) for hazard in spec.hazards)}


def worst(found: Iterable[str]) -> str:
    """Return the worst of these labels; `fixed` if there are none."""
    return max(found, key=LABELS.index, default=FIXED)


def stated_origin(words_by_arg: Mapping[str, str], spec: ToolSpec) -> CallProvenance:
    """Return the origin that a policy test states: the label of each argument by its name or path."""
    sinks = spec.sinks if spec.sinks is not None else tuple(words_by_arg) if spec.effect_class != "pure" else ()
    tops = {path.partition(".")[0] for path in sinks}
    return CallProvenance(
        **tool_properties(spec),
        values=tuple(
            TracedValue(path=path, arg=_first(path), label=word, sink=_first(path) in tops, pointers=(word,))
            for path, word in words_by_arg.items()
            if word in LABELS
        ),
    )


def _shown(one: TracedValue) -> JsonObject:
    shown: JsonObject = {"path": one.path, "from": one.label, "sink": one.sink}
    if one.source is not None and one.source.tool:
        shown |= {"tool": one.source.tool, "step": one.source.step}
    if one.piece:
        shown["piece"] = one.piece[:200]
    if one.in_task:
        shown["in_task"] = True
    return shown


def _shown_readers(texts: Sequence[CarriedText]) -> JsonObject:
    """Return who may know a value; `readers` is null where nobody has said it."""
    shown = [
        {
            "tool": one.source.tool,
            "step": one.source.step,
            "readers": None if one.readers is None else list(one.readers.names[:MAX_SHOWN_READERS]),
        }
        for one in texts[:MAX_SHOWN_READERS]
    ]
    return {"may_know": shown} if shown else {}


def _first(path: str) -> str:
    return path.partition(" ")[0].partition(".")[0].partition("[")[0]


def property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        listed = schema.get("properties")
        if isinstance(listed, Mapping):
            yield from map(str, listed)
        for inner in schema.values():
            yield from property_names(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from property_names(inner)


def listed_values(parameters: Mapping[str, Any]) -> Mapping[str, frozenset[str]]:
    """Return the forms of all values that a schema lists itself, by argument: enums, constants and defaults.

    Read once per schema: the result is kept as long as others don't fill the cache.
    """
    found = _LISTED.get(id(parameters))
    if found is None or found[0] is not parameters:
        declared, shared = parameters.get("properties", {}), parameters.get("$defs", {})
        listed = {name: frozenset(_listed(schema, shared)) for name, schema in declared.items()}
        if len(_LISTED) >= MAX_SCHEMAS:
            _LISTED.clear()
        found = _LISTED[id(parameters)] = (parameters, listed)
    return found[1]


def _listed(schema: Any, shared: Mapping[str, Any], depth: int = 8) -> Iterator[str]:
    if isinstance(schema, Mapping):
        listed = schema.get("enum")
        for value in (schema.get("const"), schema.get("default"), *(listed if isinstance(listed, list) else ())):
            if isinstance(value, str | int | float):
                yield from vouched_forms(value)
        reference = str(schema.get("$ref", ""))
        if reference.startswith("#/$defs/") and depth:
            yield from _listed(shared.get(reference.removeprefix("#/$defs/")), shared, depth - 1)
        for keyword, inner in schema.items():  # as `vouched_values` goes: what is told of a new schema is what vouches
            if keyword in NAMED and isinstance(inner, Mapping):
                yield from _listed(list(inner.values()), shared, depth)
            elif keyword not in HOLDING_VALUES:
                yield from _listed(inner, shared, depth)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _listed(inner, shared, depth)
