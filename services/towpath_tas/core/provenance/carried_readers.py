"""Who may know what a call carries: the readers of every text that its values were copied from.

Copies are found as elsewhere in this folder: whole values, sentences, addresses; and the other way round whole fields
of what was read inside a longer text. Each source only takes readers away. What is undeclared, or was not looked at,
leaves nobody: then every sink is a leak.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.readers import ANYBODY
from towpath_tas.core.provenance.copied_pieces import MAX_PIECES, MIN_COPIED, sentences
from towpath_tas.core.provenance.possible_pointers import possible_pointers
from towpath_tas.core.provenance.search_budget import PER_FIELD, PER_HIT, SearchBudget, SearchBudgetSpentError
from towpath_tas.core.provenance.spoken_text import grows
from towpath_tas.core.provenance.text_readers import NOBODY, SeenText, TextReaders, meet
from towpath_tas.core.provenance.trusted_text import SEPARATOR, TrustedText, is_short_number
from towpath_tas.core.provenance.value_leaves import ValueSource
from towpath_tas.core.provenance.value_matching import (
    MIN_HIDDEN,
    addressed,
    pointers,
    same_forms,
    unhidden,
    unhidden_forms,
    without_scheme,
)

MIN_FIELD = 6
"""Letters and digits, both among them, that a whole field must have to count as copied where it stands in a text."""

MAX_HEADS = 200_000
"""Characters of a call whose beginnings of words are kept in a set to look for fields."""

READER_MEMBERS = frozenset({"readers", "readers_known", "confidential", "leaks"})
"""The members of `origin` that are about readers."""

NOBODY_WORD = "nobody"
"""The only reader of what nobody may know, or of which that is not known."""

NO_FORMS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedText:
    """A text that a call carries in the value at `path`, and that not everybody may know; `piece` is what was found.

    `readers` is None where nobody has said who may know it.
    """

    path: str
    arg: str
    piece: str
    source: ValueSource
    readers: TextReaders | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkValue:
    """A destination of a call; of flags only `true` is one, such as that of an argument `public`."""

    path: str
    arg: str
    value: Any

    @property
    def text(self) -> str:
        """The value as rules and denials show it."""
        return "true" if self.value is True else str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedReaders:
    """The texts that a call carries and that not everybody may know, and the `sinks` that it goes to.

    `whole`: everything that the run has seen, and everything in the call, was looked at.
    """

    carried: tuple[CarriedText, ...] = ()
    sinks: tuple[SinkValue, ...] = ()
    whole: bool = True

    @property
    def known(self) -> bool:
        """Whether somebody has said who may know everything that the call carries."""
        return self.whole and all(one.readers is not None for one in self.carried)

    @property
    def confidential(self) -> bool:
        """Whether only some may know something of it."""
        return not self.whole or any(one.readers is not None for one in self.carried)

    def names(self) -> tuple[str, ...]:
        """Return who may know all of it: names, or one word, so that no question about all of them is idle."""
        common = meet([one.readers for one in self.carried if one.readers is not None]) if self.known else NOBODY
        return (ANYBODY,) if common.public else common.names or (NOBODY_WORD,)

    def leaks(self) -> tuple[SinkValue, ...]:
        """Return the sinks that may not know something of what the call carries."""
        if not self.known:
            return self.sinks
        return tuple(
            sink
            for sink in self.sinks
            if not all(one.readers is not None and one.readers.admits(sink.value) for one in self.carried)
        )

    def context(self) -> JsonObject:
        """Return what conditions see of it in `origin`."""
        return {
            "readers": list(self.names()),
            "readers_known": self.known,
            "confidential": self.confidential,
            "leaks": list(dict.fromkeys(sink.text for sink in self.leaks())),
        }

    def audited(self) -> JsonObject:
        """Return what the audit keeps: no reader and no destination, only which arguments would leak."""
        told = sorted({sink.arg for sink in self.leaks()})
        return {"readers_known": self.known, "confidential": self.confidential, "leaks": told}

    def without(self, sink: SinkValue) -> tuple[CarriedText, ...]:
        """Return the carried texts that *sink* may not know."""
        return tuple(one for one in self.carried if one.readers is None or not one.readers.admits(sink.value))


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is looked for in the outputs, as `letters`, or as a number by its `forms`."""

    text: str
    letters: str
    forms: frozenset[str] = NO_FORMS


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of the call, in which fields of the outputs are looked for, but for its `own` addresses."""

    path: str
    arg: str
    letters: str
    own: frozenset[str] = NO_FORMS


@dataclass(slots=True)
class ReaderSearch:
    """Finds what the values of one call were copied from, within the budget of the call."""

    outputs: Sequence[SeenText]
    task: TrustedText
    inputs: Mapping[str, object]
    budget: SearchBudget
    whole: bool = True
    found: dict[int, CarriedText] = field(default_factory=dict)
    _texts: list[_Text] = field(default_factory=list)

    def carried(self) -> tuple[CarriedText, ...]:
        """Return what was found, in the order of the outputs; looks for whole fields first."""
        try:
            self._look_for_fields()
        except SearchBudgetSpentError:
            self.whole = False
        return tuple(self.found[place] for place in sorted(self.found))

    def look(self, path: str, arg: str, value: Any) -> None:
        """Look for one *value* that the task does not say."""
        try:
            for piece in self._pieces(value):
                for place, output in self._open_outputs():
                    if self._is_in(piece, output):
                        self._add(place, path, arg, piece.text)
        except SearchBudgetSpentError:
            self.whole = False
        if isinstance(value, str):
            self.whole = self.whole and not grows(value)
            self._texts.append(_Text(path, arg, _joined(value)))

    def look_around(self, path: str, arg: str, value: Any) -> None:
        """Look at the only sink of the call: it is told nothing by being named, but perhaps by what stands beside."""
        own = frozenset(unhidden(without_scheme(part)) for part in (addressed(value), *pointers(value)))
        self.whole = self.whole and not grows(value)
        self._texts.append(_Text(path, arg, _joined(value), own))

    def _open_outputs(self) -> Iterator[tuple[int, SeenText]]:
        """Yield the outputs that may still take readers away: of undeclared ones, the first that is found suffices."""
        undeclared = any(one.readers is None for one in self.found.values())
        for place, output in enumerate(self.outputs):
            closed = undeclared if output.readers is None else output.readers.public
            if not closed and place not in self.found:
                yield place, output

    def _add(self, place: int, path: str, arg: str, piece: str) -> None:
        output = self.outputs[place]
        self.found[place] = CarriedText(path=path, arg=arg, piece=piece, source=output.source, readers=output.readers)

    def _is_in(self, piece: _Piece, output: SeenText) -> bool:
        self.budget.take(len(output.letters) + PER_HIT)
        return (bool(piece.letters) and piece.letters in output.letters) or not piece.forms.isdisjoint(output.words)

    def _pieces(self, value: Any) -> Iterator[_Piece]:
        if isinstance(value, bool) or value is None or is_short_number(value):
            return
        text = str(value)
        for letters in unhidden_forms(without_scheme(text) or text):
            if len(letters) >= MIN_HIDDEN:
                yield _Piece(text, letters, NO_FORMS if isinstance(value, str) else same_forms(value))
        if not isinstance(value, str):
            return
        parts = dict.fromkeys(
            (*possible_pointers(text), *(one for one in sentences(text) if len(unhidden(one)) >= MIN_COPIED))
        )
        said: list[str] = []
        for place, part in enumerate(parts):
            if place == MAX_PIECES:
                self.whole = False
                return
            if part == text or any(part in one for one in said):  # the host of a link that the task says
                continue
            if self._is_said(part):
                said.append(part)
            else:
                yield from (_Piece(part, letters) for letters in unhidden_forms(without_scheme(part)))

    def _is_said(self, part: str) -> bool:
        """Return whether the caller says *part*, in the task or as one of its inputs."""
        return self.task.holds(part, budget=self.budget) or any(form in self.inputs for form in same_forms(part))

    def _look_for_fields(self) -> None:
        """Look for whole fields of the outputs inside the texts of the call."""
        joined = SEPARATOR.join(text.letters for text in self._texts)
        heads = {joined[at : at + MIN_FIELD] for at in range(min(len(joined), MAX_HEADS) - MIN_FIELD + 1)}
        short = len(joined) <= MAX_HEADS  # else every field is searched, as far as the budget reaches
        if not heads:
            return
        for place, output in tuple(self._open_outputs()):
            self.budget.take(len(output.letters))
            for letters in dict.fromkeys(output.letters.split(SEPARATOR)):
                self.budget.take(PER_FIELD)
                if short and letters[:MIN_FIELD] not in heads:
                    continue
                if _is_telling(letters) and self._is_carried(place, letters, joined):
                    break

    def _is_carried(self, place: int, letters: str, joined: str) -> bool:
        self.budget.take(len(joined))
        if letters not in joined or self.task.reveals(letters, self.budget):
            return False
        if any(form.startswith("t:") and unhidden(form[2:]) == letters for form in self.inputs):
            return False
        text = next((one for one in self._texts if letters in one.letters and letters not in one.own), None)
        if text is not None:
            self._add(place, text.path, text.arg, letters)
        return text is not None


def _joined(text: str) -> str:
    return SEPARATOR.join(unhidden_forms(text))


def _is_telling(letters: str) -> bool:
    """Return whether a field is no word that stands in many texts by chance."""
    if len(letters) >= MIN_COPIED:
        return True
    mixed = any(map(str.isdigit, letters)) and any(map(str.isalpha, letters))
    return len(letters) >= MIN_FIELD and (mixed or letters.isdigit())
