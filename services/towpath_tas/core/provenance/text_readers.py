"""Who may know the texts of an output, by what its tool declares.

A declaration is obeyed to the letter: readers that it looks for and does not find are nobody, and a text that it does
not speak of is undeclared, which is something else than public. Readers are compared as destinations are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from towpath_contracts.tools.readers import ANYBODY, OutputReaders
from towpath_tas.core.provenance.value_leaves import ValueLeaf, ValueSource, covers, leaves
from towpath_tas.core.provenance.value_matching import (
    addressed,
    is_pointers,
    keeps_case,
    listed,
    lowered,
    same_forms,
    unhidden,
    vouched_forms,
)

MAX_READERS = 1_000
"""Readers of one text; one that names more may be known to nobody: a group is named as a group."""

MAX_NAME = 320
"""Characters of a reader's name; what is longer is text, and nobody's name."""


@dataclass(frozen=True, slots=True)
class TextReaders:
    """Who may know a text: `names` as they are shown, `forms` what they are compared by; `public` is everybody."""

    names: tuple[str, ...] = ()
    forms: frozenset[str] = frozenset()
    public: bool = False

    def admits(self, value: object) -> bool:
        """Return whether the destination *value* is a reader; a list of addresses is, where each of them is."""
        if self.public or not self.forms.isdisjoint(same_forms(value)):
            return True
        parts = listed(value) if isinstance(value, str) and is_pointers(value) else []
        return len(parts) > 1 and not any(self.forms.isdisjoint(same_forms(part)) for part in parts)


NOBODY = TextReaders()
ANYONE = TextReaders(public=True)


@dataclass(frozen=True, slots=True)
class SeenText:
    """Texts that one call returned and that have the same readers (None: undeclared), prepared for searching."""

    source: ValueSource
    letters: str
    words: frozenset[str]
    readers: TextReaders | None = None


def meet(found: Sequence[TextReaders]) -> TextReaders:
    """Return who may know a text that has all of these readers; everybody where there are none."""
    closed = [one for one in found if not one.public]
    if not closed:
        return ANYONE
    fewest = min(closed, key=lambda one: (len(one.names), one.names))
    return readers_of(name for name in fewest.names if all(other.admits(name) for other in closed))


def readers_of(values: Iterable[object]) -> TextReaders:
    """Return the readers that *values* name. None of them can name everybody: only a declaration does."""
    named = (value for value in values if len(str(value)) <= MAX_NAME and unhidden(str(value)) != ANYBODY)
    few = list(islice(named, MAX_READERS + 1))
    if len(few) > MAX_READERS:
        return NOBODY
    names = {addressed(value) for value in few}
    forms = frozenset(form for value in few for form in vouched_forms(value))
    return TextReaders(tuple(sorted({name if keeps_case(name) else lowered(name) for name in names})), forms)


class TextsByReaders:
    """Texts of one output, by the readers that its parts have; these are told apart by identity, which is cheap."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[TextReaders | None, list[str]]] = {}

    def add(self, readers: TextReaders | None, text: str) -> None:
        self._found.setdefault(id(readers), (readers, []))[1].append(text)

    def groups(self) -> Iterable[tuple[TextReaders | None, Sequence[str]]]:
        return self._found.values()


@dataclass(slots=True)
class CallDeclaration:
    """What a tool declares about the readers of its output, with the arguments *args* of one call."""

    parts: tuple[OutputReaders, ...] = ()
    args: Any = None
    _of_args: dict[tuple[str, ...], list[object]] = field(default_factory=dict)

    def texts(self, result: Any) -> Iterator[tuple[ValueLeaf, TextReaders | None]]:
        """Yield all values of *result* and names of members, with their readers; None is undeclared."""
        return self._texts(result, (), None)

    def loose_text(self) -> TextReaders | None:
        """Return the readers of a text that is no output of the declared shape, such as a failure's message."""
        if not self.parts:
            return None
        return meet([self._resolve(part, None) for part in self.parts])

    def _texts(
        self, value: Any, names: tuple[str, ...], readers: TextReaders | None
    ) -> Iterator[tuple[ValueLeaf, TextReaders | None]]:
        if isinstance(value, list | tuple):
            for inner in value:
                yield from self._texts(inner, names, readers)
            return
        own = [part for part in self.parts if _is_at(part.of, names)]
        if own:
            readers = meet([self._resolve(part, value) for part in own])
        if isinstance(value, Mapping):
            for name, inner in value.items():
                below = (*names, str(name))
                yield ValueLeaf("", below, name), readers
                yield from self._texts(inner, below, readers)
        elif value is not None or names:
            yield ValueLeaf("", names, value), readers

    def _resolve(self, part: OutputReaders, value: Any) -> TextReaders:
        if part.anybody:
            return ANYONE
        found: list[object] = [*part.names]
        for path in part.fields:
            found.extend(_values_at(value, tuple(path.split("."))))
        if part.args not in self._of_args:
            given = (_values_at(self.args, tuple(path.split("."))) for path in part.args)
            self._of_args[part.args] = [one for values in given for one in values]
        return readers_of([*found, *self._of_args[part.args]])


KNOWN_TO_ALL = CallDeclaration((OutputReaders(anybody=True),))
"""Of what adds no restriction of its own."""

KNOWN_TO_NOBODY = CallDeclaration((OutputReaders(),))


def _is_at(path: str, names: tuple[str, ...]) -> bool:
    pattern = tuple(path.split(".")) if path else ()
    return len(pattern) == len(names) and covers(pattern, names)


def _values_at(value: Any, names: tuple[str, ...]) -> Iterator[object]:
    """Yield the texts and numbers at a path of *value* and beneath; lists on the way are gone through."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _values_at(inner, names)
    elif not names:
        yield from (
            leaf.value
            for leaf in leaves(value)
            if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and leaf.value != ""
        )
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if names[0] in {"*", name}:
                yield from _values_at(inner, names[1:])
