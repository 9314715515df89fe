"""Decides when the origin of values has to be looked up, and describes it in denials.

What a run has seen is read only where a rule names it or a person has to decide. For a tool that only reads and
declares no sink it is read only for rules that ask for more than sinks.
"""

import functools
import re
from collections.abc import Collection, Iterable

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import Denial, ToolSpec
from towpath_tas.core.provenance.call_values import (
    EARLIER_TURNS,
    QUOTED_INPUTS,
    UNTRUSTED,
    CallProvenance,
    TracedValue,
    has_sinks,
    is_looked_at,
    tool_properties,
)
from towpath_tas.core.provenance.carried_readers import READER_MEMBERS, CarriedReaders, CarriedText, SinkValue

_TEXT = re.compile(  # a comment, or a text of CEL: raw ones end at the first quote, whatever stands before it
    r"(?P<comment>//[^\r\n]*)"
    r"|\b[bB]?[rR][bB]?(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\r\n]*\"|'[^'\r\n]*')"
    r"|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*'"
)
_NAMED = re.compile(r"\borigin\b(?:\s*\.\s*([A-Za-z_]\w*))?")
_ASKED_FOR = re.compile(r"\bhas\s*\(\s*origin\b")
_ANY_LEAKS = re.compile(r"\bsize\s*\(\s*origin\s*\.\s*leaks\s*\)\s*(?:>\s*0|==\s*0|!=\s*0|>=\s*1|<\s*1)(?![\w.])")
WHOLE = ""
"""Stands for `origin` itself among the members that a condition names."""

MEMBERS = frozenset(CallProvenance(values=(), carried=CarriedReaders()).context())
"""All members of `origin` that conditions may use."""

_WITHOUT_READING = frozenset({"hazards", "writes"})
_OF_SINKS = frozenset({"worst_sink", "sinks", "leaks"})
_OF_POINTERS = frozenset({"worst_pointer", "pointers"})

_NOT_READ = {
    QUOTED_INPUTS: ("the task quotes it", "what the task quotes"),
    EARLIER_TURNS: ("it was answered earlier", "what was answered earlier in the conversation"),
}
"""What no tool of the run has returned, by its source: as an event, and as a place."""

MAX_NAMED_READERS = 5
MAX_NAMED_VALUES = 3
"""Values named in a denial; a model corrects them one by one anyway."""

UNLOOKED = "not all that the call may carry could be looked at"


@functools.lru_cache(maxsize=4_096)
def origin_members(condition: str) -> frozenset[str]:
    """Return the members of `origin` that *condition* names; `WHOLE` if it uses `origin` itself.

    So does one that asks whether a member is there: what was not read is not there, and that is no answer.
    """
    bare = _without_texts(condition)
    named = frozenset(_NAMED.findall(bare))
    return named | {WHOLE} if _ASKED_FOR.search(bare) else named


def _without_texts(condition: str) -> str:
    return _TEXT.sub(lambda found: " " if found["comment"] else '""', condition)


def unknown_members(condition: str) -> frozenset[str]:
    """Return the members of `origin` in *condition* that don't exist: such a condition would never be clear."""
    return origin_members(condition) - MEMBERS - {WHOLE}


def names_readers(conditions: Iterable[str]) -> bool:
    """Return whether one of *conditions* asks who may know what a call carries."""
    return any(not (READER_MEMBERS | {WHOLE}).isdisjoint(origin_members(text)) for text in conditions)


def answers(origin: JsonObject, conditions: Iterable[str]) -> bool:
    """Return whether a recorded *origin* has all that *conditions* name.

    Of leaks it has the arguments, not the destinations, so only how many there are, none or some, is an answer.
    """
    conditions = tuple(conditions)
    if any("leaks" in origin_members(_ANY_LEAKS.sub(" ", _without_texts(text))) for text in conditions):
        return False
    named = frozenset[str]().union(*map(origin_members, conditions))
    return (MEMBERS if WHOLE in named else named) <= origin.keys()


def needs_knowledge(conditions: Iterable[str | None], spec: ToolSpec) -> bool:
    """Return whether one of *conditions* can't be evaluated without what the run has seen."""
    named = frozenset[str]().union(*(origin_members(text) for text in conditions if text is not None))
    return not named <= _known_without_reading(spec)


def _known_without_reading(spec: ToolSpec) -> frozenset[str]:
    of_sinks = frozenset[str]() if has_sinks(spec) else _OF_SINKS
    return _WITHOUT_READING | of_sinks | (frozenset() if is_looked_at(spec) else _OF_POINTERS)


def origin_without_reading(spec: ToolSpec) -> JsonObject:
    """Return what is known of `origin` without reading: conditions that use the rest are unclear."""
    known = _known_without_reading(spec)
    return {
        name: value
        for name, value in CallProvenance(values=(), carried=CarriedReaders(), **tool_properties(spec))
        .context()
        .items()
        if name in known
    }


def with_origin_told(
    denial: Denial, conditions: Collection[str], origin: CallProvenance, hidden: Iterable[str]
) -> Denial:
    """Say what of *origin* the *conditions* of the denying rule ask about."""
    named = frozenset[str]().union(*map(origin_members, conditions))
    if origin.carried is not None and not named.isdisjoint(READER_MEMBERS):
        denial = with_leaks(denial, origin.carried, hidden)
    return denial if named <= READER_MEMBERS | _WITHOUT_READING else with_untrusted_values(denial, origin, hidden)


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


def with_leaks(denial: Denial, carried: CarriedReaders, hidden: Iterable[str]) -> Denial:
    """Name what the call carries to whom; values of *hidden* arguments, which the system fills in, by place only."""
    unseen, leaks = set(hidden), carried.leaks()
    if not leaks and not carried.confidential and carried.known:
        return denial
    details = [_describe_leak(sink, carried, unseen) for sink in leaks[:MAX_NAMED_VALUES]]
    if not leaks:
        details = [_describe_carried(text) for text in carried.carried[:MAX_NAMED_VALUES]]
    suggestion = (
        "Send it only to those who may know it, or leave that text out; otherwise respond and say what is missing."
    )
    reason = f"{denial.reason}: {'; '.join(details) or UNLOOKED}"
    return denial.model_copy(update={"reason": reason, "suggestion": suggestion})


def _describe_leak(sink: SinkValue, carried: CarriedReaders, hidden: set[str]) -> str:
    goes = sink.path if sink.arg in hidden else f"{sink.text[:100]} ({sink.path})"
    texts = carried.without(sink) or carried.carried
    if not texts:
        return f"{UNLOOKED}, and it goes to {goes}"
    return f"{_describe_carried(texts[0])}, and goes to {goes}"


def _describe_carried(text: CarriedText) -> str:
    read = f"it was read with {text.source.tool} in step {text.source.step}"
    if text.source.tool in _NOT_READ:
        read = _NOT_READ[text.source.tool][0]
    if text.readers is None:
        return f"nobody has said who may know {text.path} ({read})"
    names = ", ".join(text.readers.names[:MAX_NAMED_READERS])
    more = len(text.readers.names) - MAX_NAMED_READERS
    return f"{text.path} may be known to {names or 'nobody'}{f' and {more} more' if more > 0 else ''} only ({read})"


def _describe_value(one: TracedValue, hidden: set[str]) -> str:
    if one.arg in hidden:
        return f"{one.path} is not vouched for"
    piece = f" ({one.piece[:100]})" if one.piece else ""
    if one.source is not None and one.source.tool in _NOT_READ:
        return f"{one.path}{piece} comes only from {_NOT_READ[one.source.tool][1]}"
    if one.label == UNTRUSTED and one.source is not None:
        return f"{one.path}{piece} comes only from what {one.source.tool} returned in step {one.source.step}"
    return f"{one.path}{piece} comes from nowhere that is known"
