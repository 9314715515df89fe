"""Decides when the origin of values has to be looked up, and describes it in denials.

What a run has seen is read only where a rule names it or a person has to decide. For a tool that only reads and
declares no sink it is read only for rules that ask for more than sinks.
"""

import functools
import re
from collections.abc import Iterable

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import Denial, ToolSpec
from towpath_tas.core.provenance.call_values import (
    QUOTED_INPUTS,
    UNTRUSTED,
    CallProvenance,
    TracedValue,
    has_sinks,
    tool_properties,
)

_TEXT = re.compile(  # a comment, or a text of CEL: raw ones end at the first quote, whatever stands before it
    r"(?P<comment>//[^\r\n]*)"
    r"|\b[bB]?[rR][bB]?(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\r\n]*\"|'[^'\r\n]*')"
    r"|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*'"
)
_NAMED = re.compile(r"\borigin\b(?:\s*\.\s*([A-Za-z_]\w*))?")
_ASKED_FOR = re.compile(r"\bhas\s*\(\s*origin\b")
WHOLE = ""
"""Stands for `origin` itself among the members that a condition names."""

MEMBERS = frozenset(CallProvenance(values=()).context())
"""All members of `origin` that conditions may use."""

_WITHOUT_READING = frozenset({"hazards", "writes"})
_OF_SINKS = frozenset({"worst_sink", "sinks", "worst_pointer", "pointers"})

MAX_NAMED_VALUES = 3
"""Values named in a denial; a model corrects them one by one anyway."""


@functools.lru_cache(maxsize=4_096)
def origin_members(condition: str) -> frozenset[str]:
    """Return the members of `origin` that *condition* names; `WHOLE` if it uses `origin` itself.

    So does one that asks whether a member is there: what was not read is not there, and that is no answer.
    """
    bare = _TEXT.sub(lambda found: " " if found["comment"] else '""', condition)
    named = frozenset(_NAMED.findall(bare))
    return named | {WHOLE} if _ASKED_FOR.search(bare) else named


def unknown_members(condition: str) -> frozenset[str]:
    """Return the members of `origin` in *condition* that don't exist: such a condition would never be clear."""
    return origin_members(condition) - MEMBERS - {WHOLE}


def needs_knowledge(conditions: Iterable[str | None], spec: ToolSpec) -> bool:
    """Return whether one of *conditions* can't be evaluated without what the run has seen."""
    named = frozenset[str]().union(*(origin_members(text) for text in conditions if text is not None))
    free = _WITHOUT_READING if has_sinks(spec) else _WITHOUT_READING | _OF_SINKS
    return not named <= free


def origin_without_reading(spec: ToolSpec) -> JsonObject:
    """Return what is known of `origin` without reading: conditions that use the rest are unclear."""
    known = _WITHOUT_READING if has_sinks(spec) else _WITHOUT_READING | _OF_SINKS
    return {
        name: value
        for name, value in CallProvenance(values=(), **tool_properties(spec)).context().items()
        if name in known
    }


def with_untrusted_values(denial: Denial, origin: CallProvenance, hidden: Iterable[str]) -> Denial:
    """Name the untrusted values; those of *hidden* arguments, which the system fills in, by place only."""
    doubtful = origin.untrusted_values()
    if not doubtful:
        return denial
    details = "; ".join(_describe_value(one, set(hidden)) for one in doubtful[:MAX_NAMED_VALUES])
    reason = f"{denial.reason}: {details}"
    suggestion = (
        "Use values that the task itself names or that a system of record returned whole; otherwise respond and ask "
        "for them."
    )
    return denial.model_copy(update={"reason": reason, "suggestion": suggestion})


def _describe_value(one: TracedValue, hidden: set[str]) -> str:
    if one.arg in hidden:
        return f"{one.path} is not vouched for"
    piece = f" ({one.piece[:100]})" if one.piece else ""
    if one.source is not None and one.source.tool == QUOTED_INPUTS:
        return f"{one.path}{piece} comes only from what the task quotes"
    if one.label == UNTRUSTED and one.source is not None:
        return f"{one.path}{piece} comes only from what {one.source.tool} returned in step {one.source.step}"
    return f"{one.path}{piece} comes from nowhere that is known"
