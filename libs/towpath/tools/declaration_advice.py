"""Suggests what a tool should declare, from its name, its description and its schemas; no model is asked.

Words decide, and every suggestion says which: a person who knows the tool reads the reasons and corrects them. Where
words are silent the strict side stays: what does not plainly read is irreversible, and a writer whose destinations
can't be told keeps every argument as one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import ToolSpec


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


READING = _listed(
    "get list search find read fetch lookup look check show describe count query view retrieve browse inspect"
    " calculate compute convert compare validate verify summarize estimate preview"
)
WRITING = _listed(
    "send create add post update set write append insert upload put patch move rename share invite schedule"
    " reschedule reply forward publish submit start stop run execute change edit modify assign close merge make"
    " approve reject enable disable install deploy transfer pay buy purchase charge refund reserve book delete"
    " remove cancel replace reset register subscribe unsubscribe checkout"
)
DESTROYING = _listed("delete remove cancel destroy drop purge clear erase revoke wipe terminate uninstall")
SPENDING = _listed("pay transfer buy purchase charge refund reserve book withdraw invest payment transaction money")
CREDENTIALS = _listed("password passwords secret token credential credentials passphrase otp")

_CHANGING = (WRITING | DESTROYING | SPENDING) - _listed("payment transaction money")
_ALSO_THINGS = _listed(
    "post update share invite schedule transfer charge refund reserve purchase book change set start stop run move"
    " reply forward publish merge close make patch"
)
_BEFORE_THINGS = _listed("a an the of all any each every this that these those its your my their last latest new next")
_NO_READING = frozenset({("check", "out"), ("get", "rid")})
"""First words of names that only look like reading."""

IDENTIFYING = _listed("id ids uuid key slug")
DESTINATIONS = _listed(
    "recipient recipients to cc bcc address addresses email emails url urls uri link links host hostname"
    " domain endpoint webhook channel channels room user users username account accounts iban phone path paths"
    " file filename folder directory participant participants attendee attendees invitee invitees member"
    " members owner group team repo repository branch bucket database table queue topic destination target"
    " receiver beneficiary payee vendor"
)
CONTENTS = _listed(
    "body text message content contents subject title description note notes comment summary amount date time"
    " start end query limit offset page format language currency priority status reason recurring type count"
)
"""Last words of arguments that say what, when or how much: no destinations, also where the tool is named by them."""

FETCHED = _listed("url urls uri link links endpoint webhook host hostname domain")
"""What a tool that only reads tells to somebody else by reading there."""

RECORDED = _listed(
    "id ids uuid iban account amount balance price total date time timestamp created modified size sender"
    " recipient recipients owner participants email address recurring filename"
)
"""Fields that a service itself keeps: what it numbers, dates, counts and addresses."""

WRITTEN_BY_OTHERS = _listed(
    "mail mails email emails inbox message messages chat post posts comment comments review reviews page"
    " webpage web site issue issues ticket tickets document documents file files feed news"
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_POINTING = re.compile(
    r"\b(?:recipients?|e-?mail address(?:es)?|url|link|iban|phone number|channel|(?:ids?|name|path) of the)\b",
    re.IGNORECASE,
)
_DEEPEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What one field of a declaration should be, and the words that this rests on."""

    field: str
    value: Any
    reason: str


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name: `mail.sendTo_user2` is mail, send, to, user."""
    return tuple(word.lower() for word in _WORD.findall(name))


def advise(spec: ToolSpec, output: JsonObject | None = None) -> tuple[Advice, ...]:
    """Return what *spec* should declare; *output* is the JSON Schema of its results, where one is known.

    A field that is not named is best left as it is when undeclared: the strictest.
    """
    reading = reads(spec)
    found = [reading] if reading is not None else []
    sinks = dict(_fetched(spec) if reading is not None else destinations(spec))
    if sinks:
        reasons = "; ".join(f"{path}: {why}" for path, why in sinks.items())
        found.append(Advice(field="sinks", value=tuple(sinks), reason=reasons))
    if reading is None:
        found += hazards(spec)
    fields = dict(recorded(output)) if output is not None else {}
    if fields:
        reason = "the service itself numbers, dates, counts or addresses these; look whether strangers fill one in"
        found.append(Advice(field="trusted_fields", value=tuple(fields), reason=reason))
    return tuple(found)


def changing_words(text: str) -> tuple[str, ...]:
    """Return the words of a name or description that say that something is changed, but for those that name a thing.

    The refund of "get_refund" and "the refund" is a thing, that of "find_and_refund" is done.
    """
    found, before = [], ""
    for word in words_of(text):
        is_thing = before in _BEFORE_THINGS or not READING.isdisjoint(_stems(before))
        if any(stem in _CHANGING and not (is_thing and stem in _ALSO_THINGS) for stem in _stems(word)):
            found.append(word)
        before = word
    return tuple(dict.fromkeys(found))


def reads(spec: ToolSpec) -> Advice | None:
    """Say that the tool only reads, if its name says so, or its description where the name has no verb.

    A word anywhere in either that says that something is changed comes first: who finds and deletes does not only find.
    """
    name = spec.name.rpartition(".")[2]
    words = words_of(name)
    if changing_words(name) or changing_words(spec.description) or words[:2] in _NO_READING:
        return None
    verb = words[0] if words else ""
    if verb in READING:
        return Advice(field="effect_class", value="pure", reason=f"its name begins with {verb!r}")
    first = (words_of(spec.description) or ("",))[0]
    if not READING.isdisjoint(_stems(first)):
        return Advice(field="effect_class", value="pure", reason=f"its description begins with {first!r}")
    return None


def _stems(word: str) -> tuple[str, ...]:
    return (word, word.removesuffix("s"), word.removesuffix("es"))


def destinations(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    """Yield the paths of arguments that say to whom, where, or to which existing thing, each with the reason."""
    hidden = set(spec.system_params)
    named = set(words_of(spec.name.rpartition(".")[2]))
    for path, schema in _members(spec.parameters, of=spec.parameters):
        if path.partition(".")[0] in hidden:
            continue
        if why := _points(words_of(path.rpartition(".")[2]), named, schema):
            yield path, why


def _points(words: tuple[str, ...], named: set[str], schema: Mapping[str, Any]) -> str:
    last = words[-1] if words else ""
    if last in IDENTIFYING:
        return "names an existing thing"
    if schema.get("format") in {"email", "uri", "url", "hostname"}:
        return f"has the format {schema['format']}"
    if last in CONTENTS:
        return ""
    for word in reversed(words):
        if word in DESTINATIONS:
            return f"{word!r} says where or to whom"
    if words and named.issuperset(words):
        return "the tool is named by what it names"
    said = _POINTING.search(str(schema.get("description", "")))
    return f"its description says {said.group().lower()!r}" if said is not None else ""


def _fetched(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    for path, schema in _members(spec.parameters, of=spec.parameters):
        words = words_of(path.rpartition(".")[2])
        if (words and words[-1] in FETCHED) or schema.get("format") in {"uri", "url", "hostname"}:
            yield path, "whoever is read from there is told what stands in it"


def hazards(spec: ToolSpec) -> list[Advice]:
    """Return the hazards that the words of the name speak of."""
    words = words_of(spec.name.rpartition(".")[2])
    by = (("destroy", DESTROYING), ("spend", SPENDING), ("credentials", CREDENTIALS))
    found = {hazard: next((word for word in words if word in known), "") for hazard, known in by}
    named = tuple(hazard for hazard, word in found.items() if word)
    if not named:
        return []
    reason = "; ".join(f"{hazard}: its name says {found[hazard]!r}" for hazard in named)
    return [Advice(field="hazards", value=named, reason=reason)]


def recorded(output: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the paths of the fields of a result that the service itself keeps."""
    for path, schema in _members(output, of=output):
        last = (words_of(path.rpartition(".")[2]) or ("",))[-1]
        simple = "properties" not in schema and schema.get("type") != "object"
        if simple and last in RECORDED:
            yield path, f"{last!r}"


def _members(
    schema: Any, path: str = "", *, of: Mapping[str, Any], depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every named member below *schema* with its path; lists and alternatives are looked through."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    reference = str(schema.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        yield from _members(of.get("$defs", {}).get(reference.removeprefix("#/$defs/")), path, of=of, depth=depth + 1)
    for name, inner in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else str(name)
        if isinstance(inner, Mapping):
            yield below, inner
            yield from _members(inner, below, of=of, depth=depth + 1)
    for inner in (schema.get("items"), *(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
        yield from _members(inner, path, of=of, depth=depth + 1)
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from _members(schema["additionalProperties"], f"{path}.*" if path else "*", of=of, depth=depth + 1)
