"""Where the values of a call come from: the task, a system of record, untrusted output, or an unknown place.

A value is trusted only as a whole: the text of the task contains it, or a field of a system of record equals it. It
stays trusted if untrusted output contains it too. What was not seen counts as unknown, never as trusted. What this
can't detect (paraphrase, derived values, encodings, side channels) is listed in docs/tool-access.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_tas.core.provenance.value_matching import (
    MIN_HIDDEN,
    TrustedText,
    is_pointers,
    pointers,
    same_forms,
    unhidden,
    without_scheme,
    words,
)

FIXED, TASK, RECORD, UNKNOWN, UNTRUSTED = "fixed", "task", "record", "unknown", "untrusted"
LABELS = (FIXED, TASK, RECORD, UNKNOWN, UNTRUSTED)
"""Labels of where a value comes from, best first. `fixed` is a value that the tool's schema lists, or an empty one."""

MAX_LEAVES = 500
"""Values of one call that are examined; more count as untrusted."""

MAX_PIECES = 200
"""Parts of one text that are searched in untrusted output; a text with more is untrusted."""

MIN_COPIED = 16
"""Letters and digits that a sentence must have to count as copied and not as a coincidence."""

MAX_RUN_CHARS = 4_000_000
"""Characters of tool output that are kept of one run; what comes after makes it incomplete."""

_BETWEEN = re.compile("[,;]")
"""Separators of lists of addresses; with any other, programs differ on where an address ends."""

MAX_SHOWN = 50
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where a value was seen: `tool` is empty for the task."""

    tool: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedValue:
    """One value of a call, and where it comes from: `arg` is the argument that contains it.

    `piece` is the part of a longer text that decided; `pointers` are the labels of everything in it that is an address.
    """

    path: str
    arg: str
    label: str
    sink: bool = False
    source: ValueSource | None = None
    piece: str = ""
    pointers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: str
    names: tuple[str, ...]
    value: Any


@dataclass(slots=True)
class _Output:
    """Text that one call returned, prepared for searching."""

    source: ValueSource
    letters: str
    words: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProvenance:
    """Where every value of one call comes from, and what its tool may do with them.

    `whole`: nothing of the run was too large to be read; `looked`: the tool has sinks.
    """

    values: tuple[TracedValue, ...]
    args: tuple[str, ...] = ()
    whole: bool = True
    looked: bool = True
    writes: bool = True
    hazards: tuple[str, ...] = ()

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
            "sinks": sorted(set(sinks), key=LABELS.index),
            "pointers": sorted(set(pointed), key=LABELS.index),
            "args": {name: worst(found) for name, found in args.items()},
            "whole": self.whole,
            "writes": self.writes,
            "hazards": list(self.hazards),
        }

    def shown(self) -> tuple[JsonObject, ...]:
        """Return what a person who decides sees: sinks first, then the worst, without the values."""
        ranked = sorted(self.values, key=lambda one: (not one.sink, -LABELS.index(one.label)))
        return tuple(_shown(one) for one in ranked[:MAX_SHOWN])

    def untrusted_values(self) -> tuple[TracedValue, ...]:
        """Return the values that are not trusted, sinks first."""
        return tuple(
            sorted(
                (one for one in self.values if one.label in {UNKNOWN, UNTRUSTED} or UNTRUSTED in one.pointers),
                key=lambda one: (not one.sink, -LABELS.index(one.label)),
            )
        )


@dataclass(slots=True)
class RunProvenance:
    """What the platform itself has seen in one run. It only grows."""

    whole: bool = True
    chars: int = 0
    _trusted_texts: list[TrustedText] = field(default_factory=list)
    _inputs: dict[str, ValueSource] = field(default_factory=dict)
    _record_values: dict[str, ValueSource] = field(default_factory=dict)
    _outputs: list[_Output] = field(default_factory=list)
    _records: list[_Output] = field(default_factory=list)

    def add_task(self, text: str, inputs: Any = None) -> None:
        """Add the caller's own text, which is trusted for what it contains, and *inputs*, each trusted as a whole."""
        self._trusted_texts.append(TrustedText(text))
        for leaf in _leaves(inputs):
            for form in same_forms(leaf.value):
                self._inputs.setdefault(form, ValueSource())

    def add_output(self, source: ValueSource, result: Any, *, trusted: bool, fields: Sequence[str] = ()) -> None:
        """Add what a tool returned: trusted as a whole, or only at the paths *fields*."""
        patterns = [tuple(path.split(".")) for path in fields]
        untrusted: list[str] = []
        vouched: list[str] = []
        for leaf in _leaves(result, keys=True):
            if leaf.value is None or isinstance(leaf.value, bool):
                continue
            if self.chars > MAX_RUN_CHARS:
                self.whole = False
                break
            self.chars += len(str(leaf.value))
            if trusted or any(_covers(pattern, leaf.names) for pattern in patterns):
                for form in same_forms(leaf.value):
                    self._record_values.setdefault(form, source)
                vouched.append(str(leaf.value))
            else:
                untrusted.append(str(leaf.value))
        self._add_searchable(self._outputs, source, untrusted)
        self._add_searchable(self._records, source, vouched)

    def add_untrusted(self, source: ValueSource, text: str) -> None:
        """Add untrusted text, such as the error message of a tool."""
        self.chars += len(text)
        self._add_searchable(self._outputs, source, [text])

    def mark_incomplete(self) -> None:
        """Record that something of the run could not be read completely."""
        self.whole = False

    def trace_value(
        self, path: str, arg: str, value: Any, *, sink: bool = False, fixed: frozenset[str] = NONE
    ) -> TracedValue:
        """Return where one *value* of *arg* comes from; *fixed* are the `same_forms` that the tool's schema lists."""
        label, source = self._label_of(value, fixed, exact=sink)
        if isinstance(value, str) and label in {None, UNTRUSTED}:
            return self._parts(TracedValue(path=path, arg=arg, label=label or UNKNOWN, sink=sink, source=source), value)
        found = label or UNKNOWN
        pointed = (found,) if isinstance(value, str) and is_pointers(value) else ()
        return TracedValue(path=path, arg=arg, label=found, sink=sink, source=source, pointers=pointed)

    def origin(self, spec: ToolSpec, args: Mapping[str, Any]) -> CallProvenance:
        """Return where every value of a call of *spec* with *args* comes from."""
        declared = spec.parameters.get("properties", {})
        names = frozenset(
            (*_property_names(spec.parameters), *(() if declared else args))
        )  # without declared properties, names are data
        shared = spec.parameters.get("$defs", {})
        fixed = {name: frozenset(_fixed(declared.get(name), shared)) for name in args}
        sinks = None if spec.sinks is None else [tuple(path.split(".")) for path in spec.sinks]
        values: list[TracedValue] = []
        for leaf in _leaves(args, keys=True, known=names):
            if len(values) == MAX_LEAVES:
                rest = TracedValue(path="…", arg=leaf.names[0], label=UNTRUSTED, sink=True, pointers=(UNTRUSTED,))
                values.append(rest)
                break
            sink = spec.effect_class is not EffectClass.PURE
            if sinks is not None:
                sink = any(_covers(pattern, leaf.names) for pattern in sinks)
            arg = leaf.names[0]
            values.append(self.trace_value(leaf.path, arg, leaf.value, sink=sink, fixed=fixed[arg]))
        return CallProvenance(values=tuple(values), args=tuple(args), whole=self.whole, **tool_properties(spec))

    def _label_of(
        self, value: Any, fixed: frozenset[str], *, exact: bool = False
    ) -> tuple[str | None, ValueSource | None]:
        if value is None or isinstance(value, bool) or value == "":
            return FIXED, None
        forms = same_forms(value, named=exact)
        if any(trusted.names(value) if exact else trusted.holds(value) for trusted in self._trusted_texts):
            return TASK, ValueSource()
        for form in forms:
            if form in self._inputs:
                return TASK, ValueSource()
        for form in forms:
            if form in self._record_values:
                return RECORD, self._record_values[form]
        if not forms.isdisjoint(fixed):
            return FIXED, None
        if exact and any(trusted.holds(value) for trusted in self._trusted_texts):
            return None, None  # a short number in the task that does not name what it is used for
        source = self._untrusted_source(value)
        return (None, None) if source is None else (UNTRUSTED, source)

    def _parts(self, traced: TracedValue, text: str) -> TracedValue:
        """Examine a text that is not trusted as a whole: the addresses in it, and its sentences."""
        pointed: list[str] = []
        suspect: tuple[ValueSource | None, str] | None = None
        for piece in pointers(text):
            label, source = self._label_of(piece, NONE)
            if len(pointed) == MAX_PIECES:
                pointed.append(UNTRUSTED)
                suspect = suspect or (source, f"more than {MAX_PIECES} addresses")
                break
            pointed.append(label or UNKNOWN)
            if label == UNTRUSTED:
                suspect = suspect or (source, piece)
        traced = replace(traced, pointers=tuple(pointed))
        if traced.label == UNTRUSTED:
            return traced
        suspect = suspect or self._copied(text)
        if suspect is not None:
            return replace(traced, label=UNTRUSTED, source=suspect[0], piece=suspect[1])
        listed = [item.strip() for item in _BETWEEN.split(text)] if pointed and is_pointers(text) else []
        known = [self._label_of(item, NONE, exact=traced.sink)[0] if is_pointers(item) else None for item in listed]
        return replace(traced, label=worst(label or UNKNOWN for label in known)) if known else traced

    def _copied(self, text: str) -> tuple[ValueSource, str] | None:
        for place, piece in enumerate(dict.fromkeys(_sentences(text))):
            letters = unhidden(piece)
            if place == MAX_PIECES:
                return None
            if len(letters) >= MIN_COPIED:
                source = next((output.source for output in self._outputs if letters in output.letters), None)
                if source is not None and not any(trusted.holds(piece) for trusted in self._trusted_texts):
                    return source, piece
        return None

    def _untrusted_source(self, value: Any) -> ValueSource | None:
        text = str(value)
        letters = unhidden(without_scheme(text)) or unhidden(text) or text
        short = len(letters) < MIN_HIDDEN
        names = same_forms(value)
        if isinstance(value, str):
            names = words(text) if short else NONE
        # An address inside a longer field of a record may come from whoever wrote that text.
        pointing = bool(self._records) and isinstance(value, str) and not short and is_pointers(value)
        outputs = [*self._outputs, *self._records] if pointing else self._outputs
        for output in outputs:
            if (not short and letters in output.letters) or not names.isdisjoint(output.words):
                return output.source
        return None

    @staticmethod
    def _add_searchable(outputs: list[_Output], source: ValueSource, texts: Sequence[str]) -> None:
        if texts:
            known = frozenset(word for text in texts for word in words(text))
            outputs.append(_Output(source, "\0".join(unhidden(text) for text in texts), known))


def has_sinks(spec: ToolSpec) -> bool:
    """Return whether any argument of this tool can be a sink."""
    return bool(spec.sinks) if spec.sinks is not None else spec.effect_class is not EffectClass.PURE


def tool_properties(spec: ToolSpec) -> dict[str, Any]:
    """Return the properties of the tool in a `CallProvenance`."""
    writes = spec.effect_class is not EffectClass.PURE
    return {"looked": has_sinks(spec), "writes": writes, "hazards": tuple(str(hazard) for hazard in spec.hazards)}


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
    return shown


def _leaves(
    value: Any, path: str = "", names: tuple[str, ...] = (), *, keys: bool = False, known: frozenset[str] = frozenset()
) -> Iterator[_Leaf]:
    """Yield every value inside *value*; with *keys* also names of members that are data, not in *known*."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else str(name)
            if keys and name not in known:
                yield _Leaf(f"{below} (name)", (*names, str(name)), name)
            yield from _leaves(inner, below, (*names, str(name)), keys=keys, known=known)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{place}]", names, keys=keys, known=known)
    elif value is not None or names:
        yield _Leaf(path, names, value)


def _covers(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    if len(pattern) > len(names):
        return False
    return all(wanted in {"*", name} for wanted, name in zip(pattern, names, strict=False))


def _first(path: str) -> str:
    return path.partition(" ")[0].partition(".")[0].partition("[")[0]


def _property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        listed = schema.get("properties")
        if isinstance(listed, Mapping):
            yield from map(str, listed)
        for inner in schema.values():
            yield from _property_names(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _property_names(inner)


def _fixed(schema: Any, shared: Mapping[str, Any], depth: int = 8) -> Iterator[str]:
    """Yield the forms of all values that *schema* itself lists: enums, constants, defaults."""
    if isinstance(schema, Mapping):
        listed = schema.get("enum")
        for value in (schema.get("const"), schema.get("default"), *(listed if isinstance(listed, list) else ())):
            if isinstance(value, str | int | float):
                yield from same_forms(value)
        reference = str(schema.get("$ref", ""))
        if reference.startswith("#/$defs/") and depth:
            yield from _fixed(shared.get(reference.removeprefix("#/$defs/")), shared, depth - 1)
        for inner in schema.values():
            yield from _fixed(inner, shared, depth)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _fixed(inner, shared, depth)


def _sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part.strip() for part in line.replace("? ", ". ").replace("! ", ". ").split(". ") if part.strip())
