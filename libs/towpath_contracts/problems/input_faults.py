"""What pydantic found wrong with an input, as entries of a problem or as one line; never the values of the input.

An input may be wrong in more places than anybody reads, and each costs microseconds and a hundred bytes to say: so a
hundred are listed, and the rest are counted. pydantic gives all of them or none, so of an input that is wrong in
thousands of places a short sample is validated once more, and its faults stand for the others.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from towpath_contracts.problems.foreign_fields import meant_field, pair_fields, unknown_field
from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import REGISTRY, ProblemDetail
from towpath_contracts.text import counted

MAX_LISTED = 100
"""Faults that are listed; more help nobody, and their list is bounded like every answer."""

MAX_BUILT = 2_000
"""Faults that pydantic is asked for: it takes about 10 ms to say them."""

MAX_PART_CHARS = 128
"""Characters of one part of a pointer: an unknown field may have any name."""

SAMPLE_ITEMS = 20
"""Of each list of an input that is wrong in too many places, so many are looked at again."""

SAMPLE_FIELDS = 100
"""Of each of its objects, so many."""

_OF_THE_WHOLE = frozenset({"missing", "too_short", "value_error", "assertion_error"})
"""Kinds of faults that a sample may have and its input not."""

_Place = tuple[int | str, ...]


class FaultList(NamedTuple):
    """The faults that are listed, and how many there are."""

    details: tuple[ProblemDetail, ...]
    total: int

    @property
    def summary(self) -> str:
        """The one that there is, or how many there are, and how many of them are not listed."""
        left_out = self.total - len(self.details)
        if not left_out:
            return tell_faults(self.details)
        return f"{counted(self.total, 'problem')}, {left_out} of them not listed"

    def within(self, part: str) -> "FaultList":
        """Return them as faults of what the input is a part of."""
        moved = (one.model_copy(update={"pointer": f"/{part}{one.pointer}"}) for one in self.details)
        return FaultList(tuple(moved), self.total)


def list_faults(
    error: ValidationError,
    again: Callable[[], ValidationError | None] | None = None,
    kind: type[BaseModel] | None = None,
) -> FaultList:
    """List what *error* says, as far as it is listed; *again* validates a sample, where it says too much.

    With *kind*, of which the input was to be, an unknown field is told with the one that may have been meant.
    """
    count = error.error_count()
    if count > MAX_BUILT:
        sampled = again() if again is not None else None
        if sampled is None or sampled.error_count() > MAX_BUILT:
            return FaultList((), count)
        entries = (entry for entry in _entries(sampled) if entry["type"] not in _OF_THE_WHOLE)
        return FaultList(_listed(entries, kind), count)
    details = details_of(error, kind)
    return FaultList(details, len(details) if count <= MAX_LISTED else count)


def faults_of_sample(kind: TypeAdapter[Any] | type[BaseModel], value: Any) -> Callable[[], ValidationError | None]:
    """Return what validates the beginning of *value*, parsed JSON, as *kind*, and returns what is wrong with it."""

    def again() -> ValidationError | None:
        few = _sample(value)
        try:
            kind.validate_python(few) if isinstance(kind, TypeAdapter) else kind.model_validate(few)
        except ValidationError as error:
            return error
        return None

    return again


def _sample(value: Any) -> Any:
    if isinstance(value, list):
        return [_sample(one) for one in value[:SAMPLE_ITEMS]]
    if isinstance(value, dict):
        return {name: _sample(one) for name, one in islice(value.items(), SAMPLE_FIELDS)}
    return value


def _entries(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_input=False, include_context=False))


def details_of(
    errors: ValidationError | Iterable[Any], kind: type[BaseModel] | None = None
) -> tuple[ProblemDetail, ...]:
    """List what is wrong with an input, each problem once with its JSON pointer; values are not repeated.

    *errors* is what pydantic raised, or the list that it gives of it. At most MAX_LISTED are listed. With *kind*, of
    which the input was to be, each of the first SUGGESTED unknown fields is told with the one that may have been meant,
    and of the others each that stands for a missing one.
    """
    return _listed(_entries(errors) if isinstance(errors, ValidationError) else errors, kind)


def _listed(entries: Iterable[Any], kind: type[BaseModel] | None) -> tuple[ProblemDetail, ...]:
    written = list(entries)
    unknown, meant = _unknown_fields(written, kind)
    found: dict[ProblemDetail, None] = {}
    for entry in written:
        detail = unknown.get(_place_of(entry)) or entry_message(entry)
        pointer = "".join(f"/{str(part)[:MAX_PART_CHARS]}" for part in entry["loc"])
        found[ProblemDetail(pointer=pointer, code=str(entry["type"]), detail=detail)] = None
        if len(found) == MAX_LISTED:
            break
    twice = {"".join(f"/{part}" for part in place) for place in meant}
    return tuple(one for one in found if one.code != "missing" or one.pointer not in twice)


def _unknown_fields(entries: Iterable[Any], kind: type[BaseModel] | None) -> tuple[dict[_Place, str], set[_Place]]:
    """Return what is said of unknown fields, by their places, and the places of the missing ones that were meant.

    Those are not told as well: who mends the name has mended both.
    """
    absent: defaultdict[_Place, set[str]] = defaultdict(set)
    unknown: list[_Place] = []
    for entry in entries:
        if entry["type"] == "missing":
            absent[tuple(entry["loc"][:-1])].add(str(entry["loc"][-1]))
        elif entry["type"] == "extra_forbidden":
            unknown.append(_place_of(entry))
    told: dict[_Place, str] = {}
    meant: set[_Place] = set()
    for *place, word in unknown[:SUGGESTED]:
        told[*place, word], own = _unknown_field(tuple(place), str(word), kind, sorted(absent[tuple(place)]))
        meant |= {(*place, own)} if own in absent[tuple(place)] else set()
    others: defaultdict[_Place, list[str]] = defaultdict(list)
    for *place, word in unknown[SUGGESTED:MAX_LISTED]:
        others[tuple(place)].append(str(word))
    for at, words in others.items():
        for word, own in pair_fields(words, [name for name in absent[at] if (*at, name) not in meant]).items():
            told[*at, word], _ = unknown_field(word, (own,))
            meant.add((*at, own))
    return told, meant


def _unknown_field(
    place: _Place, word: str, kind: type[BaseModel] | None, absent: Sequence[str]
) -> tuple[str, str | None]:
    """Return what is said of the field *word*, and the one that was meant by it, if one was."""
    models = _models_at(kind, place) if kind is not None else []
    known = sorted({field for one in models for field in one.model_fields})
    if known:
        return unknown_field(word, known, _field_that_has(word, models))
    # of its neighbours only those are known that are missing, and no list of them says what there is
    detail, own = unknown_field(word, absent)
    return (detail, own) if own is not None else (f"there is no field {word!r}", None)


def _place_of(entry: Any) -> _Place:
    """Return where a fault is, as far as its name is told."""
    return (*entry["loc"][:-1], _name_of(entry)) if entry["loc"] else ()


def _name_of(entry: Any) -> str:
    return str(entry["loc"][-1])[:MAX_PART_CHARS]


def _models_at(kind: type[BaseModel], place: Iterable[int | str]) -> list[type[BaseModel]]:
    """Return what may stand at *place* in an input of *kind*; indices and names are passed over."""
    models = [kind]
    for part in place:
        fields = [one.model_fields[part].annotation for one in models if part in one.model_fields]
        models = [found for annotation in fields for found in _models_in(annotation)] if fields else models
    return models


def _field_that_has(name: str, models: Iterable[type[BaseModel]]) -> str | None:
    """Return where in one of *models* something stands that has a field *name*, in words; None where nothing has."""
    for one, field in ((one, field) for model in models for one, field in model.model_fields.items()):
        known = {found for inner in _models_in(field.annotation) for found in inner.model_fields}
        own = name if name in known else meant_field(name, known)
        if own is not None:
            place = f"an entry of {one!r}" if get_origin(field.annotation) in {tuple, list} else repr(one)
            return place if own == name else f"{place}, as {_as_written(own, field.annotation)}"
    return None


def _as_written(own: str, annotation: Any) -> str:
    """Return how the field *own* is named; what is true or false with that: the word had another value before."""
    kinds = {one.model_fields[own].annotation for one in _models_in(annotation) if own in one.model_fields}
    return f"`{own}: true`" if kinds == {bool} else repr(own)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def entry_message(entry: Any) -> str:
    """Return what one entry of a ValidationError says by itself: of a field that is missing or unknown its name too.

    What pydantic calls the exception is left out.
    """
    if entry["type"] == "missing" and entry["loc"]:
        return f"{str(entry['loc'][-1])!r} is missing: add it"
    if entry["type"] == "extra_forbidden":
        return f"there is no field {_name_of(entry)!r}"
    message = str(entry["msg"])
    return message.removeprefix("Value error, ") if entry["type"] == "value_error" else message


def located_message(entry: Any, whole: str) -> str:
    """Return what one entry says, behind its place in the input; *whole* is what the input itself is called."""
    place = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "missing" and place:
        return f"{place} is missing"
    if entry["type"] == "extra_forbidden":
        return f"{place}: there is no such field"
    return f"{place or whole}: {entry_message(entry)}"


def tell_faults(details: Sequence[ProblemDetail]) -> str:
    """Return what a problem says of its *details* in one line: the only one with its place, or how many there are."""
    return summary_of(details) if len(details) == 1 else counted(len(details), "problem")


def summary_of(details: Iterable[ProblemDetail]) -> str:
    """Return all problems in one line for people, each once; a pointer says where what no file and line says."""
    lines = (
        one.detail if is_located(one.detail) or not one.pointer else f"{one.pointer}: {one.detail}" for one in details
    )
    return join_faults(lines)


def join_faults(lines: Iterable[str]) -> str:
    """Return *lines* as one, each once; what ends in a question needs no semicolon."""
    told = ""
    for line in dict.fromkeys(lines):
        told += line if not told else f" {line}" if told.endswith("?") else f"; {line}"
    return told


_LOCATED = re.compile(r"[^:\n]+:\d+: ")
"""How a text begins that names a file and a line."""

UNNAMED = frozenset({"agents", "rules", "kind", "key", "name"})
"""Fields of which all that is said names what it is about; so do sentences that have a code of the registry."""


def is_located(detail: str) -> bool:
    """Return whether *detail* begins with a file and a line: a pointer would say the same place in other words."""
    return _LOCATED.match(detail) is not None


def name_field(detail: str, pointer: str, code: str = "") -> str:
    """Return *detail* behind the field that *pointer* leads to, unless it says by itself what it is about."""
    named = [one for one in pointer.split("/")[1:] if not one.isdecimal()]
    if not named or code in REGISTRY or named[-1] in UNNAMED or names_word(detail, named[-1]):
        return detail
    return f"{named[-1]}: {detail}"


def names_word(text: str, word: str) -> bool:
    """Return whether *text* has *word* as a whole one."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def option_fault(option: str, detail: str, code: str = "") -> ProblemDetail:
    """Return what is wrong with an option such as --nats-port: its pointer leads into the options as one object.

    The text names the option as it is typed.
    """
    told = detail if detail.startswith(option) else f"{option}: {detail}"
    return ProblemDetail(pointer=f"/{option.lstrip('-').replace('-', '_')}", code=code, detail=told)


_LINE = re.compile(r"^line (\d+): ")
"""How the tool-access service names a place: it gets the text of a policy and not its file."""

_TAKES_IT = re.compile(r"(towpath [a-z -]+ )FILE\b")
"""A command that takes the file."""

_DECLARED = re.compile(r":\d+$")
"""How the line of a program ends that declares a policy: nobody sees the text that was made of it."""


def locate_fault(source: str, said: str, pointer: str = "") -> str:
    """Return what was *said* of a place in a policy with the name of its file: `policy.yaml:4: …` for `line 4: …`.

    With the *pointer* of the place the text names the field.
    """
    is_declared = _DECLARED.search(source) is not None
    said = _TAKES_IT.sub(lambda command: command[1] + source, said)
    line = _LINE.match(said)
    begin = line.end() if line else 0
    said = said[:begin] + name_field(said[begin:], pointer)
    at_line, count = _LINE.subn(lambda at: f"{source}: " if is_declared else f"{source}:{at[1]}: ", said)
    return at_line if count else f"{source}: {said}"


WRONG_TYPES = {
    **dict.fromkeys(
        ("tuple_type", "list_type", "set_type", "frozen_set_type"),
        "a list belongs here: [first, second], or in YAML a dash before each entry",
    ),
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a mapping of keys and values belongs here"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number belongs here"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number belongs here"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false belongs here"),
    "string_type": "a text belongs here; quote it",
    **dict.fromkeys(
        ("uuid_parsing", "uuid_type"), "a whole id belongs here, such as 0192f3c4-5d6e-7f80-9a1b-2c3d4e5f6a7b"
    ),
}
"""What is said of a file that a person wrote, by the kind of the fault."""

_LETTERS = re.compile(r"^String should match pattern '\^\[a-zA-Z0-9\]\[a-zA-Z0-9(\S*)\]\{0,(\d+)\}\$'$")

_COUNT = re.compile(
    r"^(?:Tuple|List|Set|Frozenset|Dictionary) should have at (least|most) (\d+) items? after validation"
)


def in_plain_words(details: Iterable[ProblemDetail]) -> tuple[ProblemDetail, ...]:
    """Return *details* in the words of who writes files, where pydantic has those of who writes programs."""
    return tuple(one.model_copy(update={"detail": _plain(one)}) for one in details)


def _plain(one: ProblemDetail) -> str:
    name = _LETTERS.match(one.detail)
    if name is not None:
        longest = int(name[2]) + 1
        return (
            f"a name belongs here: letters, digits and {' '.join(name[1])}, beginning with a letter or digit, "
            f"at most {longest} characters"
        )
    if count := _COUNT.match(one.detail):
        belong = "belongs" if count[2] == "1" else "belong"
        return f"at {count[1]} {counted(int(count[2]), 'entry', 'entries')} {belong} here"
    return plain_bound(WRONG_TYPES.get(one.code, one.detail))


_BOUNDS = (("less than or equal to", "at most"), ("greater than or equal to", "at least"))
"""How pydantic says a bound, and how people do."""


def plain_bound(said: str) -> str:
    """Return in plain words what pydantic *said* of a value that is out of its bounds; all else as it is."""
    for words, plain in _BOUNDS:
        said = said.replace(words, plain)
    return re.sub(r"^Input should be ", "it has to be ", said)


MAX_NAMED = 3
"""Problems of an unreadable message that are named; the first ones say what kind of message it was."""


def describe_validation_error(error: ValidationError) -> str:
    """Say in one bounded line what is wrong with a message: where and why, and never the values that it holds."""
    count = error.error_count()
    if count > MAX_BUILT:
        return f"{count} problems"
    found = _entries(error)
    named = [f"{_where(one['loc'])}: {_why(one)}" for one in found[:MAX_NAMED]]
    more = f" (and {len(found) - MAX_NAMED} more)" if len(found) > MAX_NAMED else ""
    return "; ".join(named) + more


def _where(parts: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:40] for part in parts[:6]) or "message"


def _why(one: Any) -> str:
    """Where the words may quote a value of the message, its kind has to do."""
    return str(one["type"]) if one["type"] in _QUOTING else str(one["msg"])[:120]


_QUOTING = frozenset({"value_error", "assertion_error", "union_tag_invalid", "json_invalid"})
