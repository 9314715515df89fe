"""Says what the declaration of a tool lacks, so that rules about where values come from (docs/provenance.md) can work.

What is undeclared is the strictest, so nothing here is unsafe as it stands, but for a claim of trust: it is what makes
a careful policy hold calls for no reason, or lets one pass that it should have held.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from towpath.tools.declaration_advice import WRITTEN_BY_OTHERS, advise, changing_words, words_of
from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import EffectClass, ToolSpec

_EFFECTS = 'effect_class="irreversible", or "idempotent" or "reconcilable", if it changes something'
_NO_SINKS = "sinks=[] if no argument says where something goes, else the names of those that do"
_DESCRIBE = "a docstring below its def, or description=, in the words of who calls it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationGap:
    """One thing that a declaration lacks: a stable code, what it comes to, and what to write."""

    tool: str
    code: str
    detail: str
    remedy: str


def lint_declaration(spec: ToolSpec, output: JsonObject | None = None) -> tuple[DeclarationGap, ...]:
    """Return what the declaration of *spec* lacks; *output* is the JSON Schema of its results, where one is known."""
    found = [*_of_effect(spec), *_of_sinks(spec), *_of_hazards(spec), *_of_records(spec, output)]
    if not spec.description.strip():
        found.append(
            ("description", "it has no description: neither a model nor a person knows what it does", _DESCRIBE)
        )
    return tuple(
        DeclarationGap(tool=spec.name, code=code, detail=detail, remedy=remedy) for code, detail, remedy in found
    )


_Found = Iterator[tuple[str, str, str]]


def _of_effect(spec: ToolSpec) -> _Found:
    reading = next((one for one in advise(spec) if one.field == "effect_class"), None)
    changes = changing_words(spec.name.rpartition(".")[2])
    if reading is not None and spec.effect_class is EffectClass.IRREVERSIBLE:
        detail = f"it counts as irreversible, with every argument guarded, though {reading.reason}"
        yield "effect_class", detail, 'effect_class="pure" if it changes nothing'
    if spec.effect_class is EffectClass.PURE and changes:
        detail = f"it is declared pure, though its name says {changes[0]!r}: rules about writers pass it over"
        yield "pure_writer", detail, _EFFECTS


def _of_sinks(spec: ToolSpec) -> _Found:
    advised = next((one for one in advise(spec) if one.field == "sinks"), None)
    writes = spec.effect_class is not EffectClass.PURE
    if spec.sinks is None and not writes:
        if advised is not None:
            detail = f"it reads what {', '.join(advised.value)} names, and is looked at by no rule about destinations"
            yield "sinks", detail, f"sinks={list(advised.value)}: {advised.reason}"
        return
    if spec.sinks is None:
        if not set(spec.parameters.get("properties", {})) - set(spec.system_params):
            return
        remedy = f"sinks={list(advised.value)}: {advised.reason}" if advised is not None else _NO_SINKS
        yield "sinks", "it declares no sinks, so every argument counts as a destination, texts and amounts too", remedy
        return
    missing = [path for path in (advised.value if advised is not None else ()) if not _covered(path, spec.sinks)]
    if missing:
        detail = f"{', '.join(missing)} looks like a destination and is declared as none"
        yield "sinks_missing", detail, f"sinks={[*spec.sinks, *missing]}, if it says where something goes"


def _covered(path: str, sinks: tuple[str, ...]) -> bool:
    """A sink covers all beneath it, and one beneath an argument says more than the argument does."""
    return any(f"{path}.".startswith(f"{sink}.") or f"{sink}.".startswith(f"{path}.") for sink in sinks)


def _of_hazards(spec: ToolSpec) -> _Found:
    advised = next((one for one in advise(spec) if one.field == "hazards"), None)
    missing = [one for one in (advised.value if advised is not None else ()) if one not in spec.hazards]
    if missing and spec.effect_class is not EffectClass.PURE and advised is not None:
        detail = f"{', '.join(missing)} is not declared, so rules about hazards pass it over"
        yield "hazards", detail, f"hazards={[*map(str, spec.hazards), *missing]}: {advised.reason}"


def _of_records(spec: ToolSpec, output: JsonObject | None) -> _Found:
    texts = sorted({*words_of(spec.name), *words_of(spec.description)} & WRITTEN_BY_OTHERS)
    if spec.trusted_output and texts:
        detail = f"all of its output counts as a record, though it speaks of {', '.join(texts)}, which others may write"
        yield "trusted_output", detail, "trusted_fields=[…] for what the service itself keeps"
    advised = next((one for one in advise(spec, output) if one.field == "trusted_fields"), None)
    if advised is not None and not spec.trusted_output and not spec.trusted_fields:
        detail = f"it returns {', '.join(advised.value)}, and nothing of its output counts as a record"
        yield "trusted_fields", detail, f"trusted_fields={list(advised.value)}: {advised.reason}"
