"""Where the values of a call come from: the task, a system of record, untrusted output, or an unknown place.

A value is trusted only as a whole: the text of the task contains it, or a field of a system of record equals it. It
stays trusted if untrusted output contains it too. What was not seen counts as unknown, never as trusted. What this
can't detect (paraphrase, derived values, encodings, side channels) is listed in docs/provenance.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_tas.core.provenance import copied_pieces
from towpath_tas.core.provenance.call_values import (
    FIXED,
    RECORD,
    TASK,
    UNKNOWN,
    UNTRUSTED,
    CallProvenance,
    TracedValue,
    listed_values,
    property_names,
    tool_properties,
    worst,
)
from towpath_tas.core.provenance.carried_readers import CarriedReaders, ReaderSearch, SinkValue
from towpath_tas.core.provenance.copied_pieces import MAX_PIECES, MIN_COPIED, MIN_SENTENCE_WORDS, long_pieces
from towpath_tas.core.provenance.possible_pointers import may_be_pointers, possible_pointers
from towpath_tas.core.provenance.search_budget import (
    FAR,
    MAX_AT_ONCE,
    MAX_LEAVES,
    MAX_READER_SETS,
    MAX_RUN_CHARS,
    MAX_SEARCHED,
    PER_LEAF,
    PER_READ,
    PER_REVEALED,
    SearchBudget,
    SearchBudgetSpentError,
)
from towpath_tas.core.provenance.spoken_text import grows
from towpath_tas.core.provenance.text_readers import NOBODY, CallDeclaration, SeenText, TextReaders, TextsByReaders
from towpath_tas.core.provenance.trusted_text import SEPARATOR, TrustedText, is_short_number
from towpath_tas.core.provenance.value_leaves import ValueSource, covers, leaves
from towpath_tas.core.provenance.value_matching import (
    MIN_HIDDEN,
    addressed,
    is_one_address,
    is_pointers,
    listed,
    needles,
    revealed,
    same_forms,
    unhidden_forms,
    vouched_forms,
    words,
)

CUT = "…"
"""The place of the values that are not examined, as there are more."""

NONE: frozenset[str] = frozenset()
UNDECLARED = CallDeclaration()


@dataclass(slots=True)
class RunProvenance:
    """What the platform itself has seen in one run. It only grows; `below_chars` are of `texts` alone."""

    whole: bool = True
    chars: int = 0
    task_chars: int = 0
    below_chars: int = 0
    _task: list[str] = field(default_factory=list)
    _read_task: tuple[int, TrustedText] = field(default_factory=lambda: (0, TrustedText("")))
    inputs: dict[str, ValueSource] = field(default_factory=dict)
    record_values: dict[str, ValueSource] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    outputs: list[SeenText] = field(default_factory=list)
    records: list[SeenText] = field(default_factory=list)
    texts: list[SeenText] = field(default_factory=list)
    reader_sets: set[TextReaders] = field(default_factory=set)

    def add_task(self, text: str, inputs: Any = None) -> None:
        """Add the caller's own text, which is trusted for what it contains, and *inputs*, each trusted as a whole."""
        self._task.append(text)
        self.task_chars += len(text)
        for leaf in leaves(inputs):
            for form in vouched_forms(leaf.value):
                self.inputs.setdefault(form, ValueSource())

    def add_output(
        self,
        source: ValueSource,
        result: Any,
        *,
        trusted: bool,
        fields: Sequence[str] = (),
        readers: CallDeclaration = UNDECLARED,
    ) -> None:
        """Add what a tool returned: trusted as a whole, or only at the paths *fields*; *readers* may know it."""
        patterns = [tuple(path.split(".")) for path in fields]
        untrusted, vouched = TextsByReaders(), TextsByReaders()
        met: set[tuple[type, Any, int, bool]] = set()
        for leaf, known in readers.texts(result):
            if self.chars > MAX_RUN_CHARS:
                self.whole = False
                break
            self.chars += PER_LEAF
            if leaf.value is None or isinstance(leaf.value, bool):
                continue
            self.chars += len(str(leaf.value))
            named = any(covers(pattern, leaf.names) for pattern in patterns)
            key = (type(leaf.value), leaf.value, id(known), named)
            if key in met:
                continue
            met.add(key)
            if not trusted and not named:
                untrusted.add(known, str(leaf.value))
            elif not self._is_own(leaf.value, named=named):
                for form in vouched_forms(leaf.value):
                    self.record_values.setdefault(form, source)
                vouched.add(known, str(leaf.value))
        self._add_searchable(self.outputs, source, untrusted.groups())
        self._add_searchable(self.records, source, vouched.groups())

    def add_arguments(self, args: Any, *, reads: bool) -> None:
        """Add what the agent itself gave a call that ran; *reads*: the call of a tool that only reads.

        It does not become a record by coming back: not what was written, in no record, and not what was asked for, in
        the output of a tool that may repeat its question. A field that a tool names is no repetition.
        """
        own = self.asked if reads else self.written
        for leaf, _ in UNDECLARED.texts(args):
            if self.chars > MAX_RUN_CHARS:
                self.whole = False
                return  # nor is any later output added
            self.chars += PER_LEAF
            if leaf.value is None or isinstance(leaf.value, bool) or is_short_number(leaf.value):
                continue
            self.chars += len(str(leaf.value))
            own.update(revealed(leaf.value))
            if isinstance(leaf.value, str):
                for piece in possible_pointers(leaf.value):
                    own.update(revealed(piece))

    def _is_own(self, value: Any, *, named: bool) -> bool:
        """Return whether the agent itself gave *value* to a call, and no record had returned it before that."""
        forms = revealed(value)
        own = not forms.isdisjoint(self.written) or (not named and not forms.isdisjoint(self.asked))
        return own and not any(form in self.record_values for form in same_forms(value))

    def add_untrusted(self, source: ValueSource, text: str, readers: TextReaders | None = None) -> None:
        """Add untrusted text, such as the error message of a tool."""
        self.chars += len(text)
        self._add_searchable(self.outputs, source, [(readers, [text])])

    def mark_incomplete(self) -> None:
        """Record that something of the run could not be read completely."""
        self.whole = False

    def origin(self, spec: ToolSpec, args: Mapping[str, Any], *, readers: bool = False) -> CallProvenance:
        """Return where every value of a call of *spec* with *args* comes from; with *readers* also who may know it."""
        declared = spec.parameters.get("properties", {})
        names = frozenset(
            (*property_names(spec.parameters), *(() if declared else args))
        )  # without declared properties, names are data
        fixed = listed_values(spec.parameters)
        sinks = None if spec.sinks is None else [tuple(path.split(".")) for path in spec.sinks]
        search = _CallSearch(self)
        values: list[TracedValue] = []
        found: list[Any] = []
        for leaf in leaves(args, keys=True, known=names):
            if len(values) == MAX_LEAVES:
                values.append(_unseen(CUT, leaf.names[0], sink=True))
                found.append(CUT)
                break
            sink = spec.effect_class is not EffectClass.PURE
            if sinks is not None:
                sink = any(covers(pattern, leaf.names) for pattern in sinks)
            arg = leaf.names[0]
            values.append(search.trace(leaf.path, arg, leaf.value, sink=sink, fixed=fixed.get(arg, NONE)))
            found.append(leaf.value)
        return CallProvenance(
            values=tuple(values),
            args=tuple(args),
            whole=self.whole,
            carried=search.carried(values, found) if readers else None,
            too_costly=search.unseen * (self.chars + self.task_chars) > FAR * MAX_SEARCHED,
            **tool_properties(spec),
        )

    def takes_long(self, args_chars: int) -> bool:
        """Return whether `origin` may take longer than other tasks should wait, for arguments of this length."""
        return self.search_work(args_chars) > MAX_AT_ONCE

    def search_work(self, args_chars: int) -> int:
        """Return about how much work `origin` is for arguments of this length."""
        unread = self.task_chars if self._read_task[0] != len(self._task) else 0
        seen, searches = self.chars + self.below_chars + self.task_chars, 1 + args_chars // MIN_COPIED
        return seen * searches + unread * PER_READ + args_chars * PER_REVEALED

    def task_text(self) -> TrustedText:
        """Return all that was added to the task, read once for many values."""
        count, _ = self._read_task
        if count != len(self._task):
            texts = list(self._task)
            self._read_task = len(texts), TrustedText(SEPARATOR.join(texts))
        return self._read_task[1]

    def _add_searchable(
        self, outputs: list[SeenText], source: ValueSource, texts: Iterable[tuple[TextReaders | None, Sequence[str]]]
    ) -> None:
        kept: dict[TextReaders | None, list[str]] = {}
        for readers, found in texts:
            kept.setdefault(self._kept(readers), []).extend(found)
        split = [self._seen(source, found, readers) for readers, found in kept.items()]
        self.texts += split
        if len(split) == 1:
            outputs += split
        elif split:  # where a value comes from does not depend on readers: one search suffices for all parts
            letters = SEPARATOR.join(one.letters for one in split)
            outputs.append(SeenText(source, letters, frozenset[str]().union(*(one.words for one in split))))

    def _seen(self, source: ValueSource, texts: Sequence[str], readers: TextReaders | None) -> SeenText:
        """Prepare texts for searching; what they become may be longer than they are, and counts as such."""
        known = frozenset(word for text in texts for word in words(text))
        letters = SEPARATOR.join(form for text in texts for form in unhidden_forms(text))
        self.chars += max(0, len(letters) - sum(len(text) + len(SEPARATOR) for text in texts))
        if any(grows(text) for text in texts):
            self.whole = False
        return SeenText(source, letters, known, readers)

    def _kept(self, readers: TextReaders | None) -> TextReaders | None:
        if readers is None or readers in self.reader_sets:
            return readers
        if len(self.reader_sets) >= MAX_READER_SETS:
            return NOBODY
        self.reader_sets.add(readers)
        return readers


def _unseen(path: str, arg: str, *, sink: bool) -> TracedValue:
    return TracedValue(path=path, arg=arg, label=UNTRUSTED, sink=sink, pointers=(UNTRUSTED,))


class _CallSearch:
    """Traces the values of one call, within one budget; a value that it has more than once is traced once.

    `unseen` counts the values for which nothing of the budget was left.
    """

    def __init__(self, known: RunProvenance) -> None:
        self._known = known
        self._task = known.task_text()
        self.unseen = 0
        self._budget = SearchBudget()
        self._traced: dict[tuple[type, Any, bool, frozenset[str]], TracedValue] = {}

    def trace(self, path: str, arg: str, value: Any, *, sink: bool, fixed: frozenset[str]) -> TracedValue:
        """Return where one *value* of *arg* comes from; *fixed* are the forms of values that the schema lists."""
        key = (type(value), value, sink, fixed)
        traced = self._traced.get(key)
        if traced is None:
            try:
                self._budget.take(PER_REVEALED * len(str(value)))
                traced = self._traced[key] = self._trace(value, sink=sink, fixed=fixed)
            except SearchBudgetSpentError:
                self.unseen += 1
                return _unseen(path, arg, sink=sink)
        return replace(traced, path=path, arg=arg)

    def carried(self, values: Sequence[TracedValue], found: Sequence[Any]) -> CarriedReaders:
        """Return who may know the *values*, which are those *found*; what the task says, everybody may."""
        search = ReaderSearch(self._known.texts, self._task, self._known.inputs, self._budget)
        traced = tuple(zip(values, found, strict=True))
        sinks = tuple(
            SinkValue(path=one.path, arg=one.arg, value=value)
            for one, value in traced
            if one.sink and not (value is None or value is False or value == "")
        )
        for one, value in traced:
            if one.label in {FIXED, TASK}:
                continue
            if one.sink and len(sinks) == 1 and isinstance(value, str) and is_one_address(addressed(value)):
                search.look_around(one.path, one.arg, value)
            else:
                search.look(one.path, one.arg, value)
        return CarriedReaders(
            carried=search.carried(),
            sinks=sinks,
            whole=self._known.whole and search.whole and all(one.path != CUT for one in values),
        )

    def _trace(self, value: Any, *, sink: bool, fixed: frozenset[str]) -> TracedValue:
        label, source = self._label_of(value, fixed, exact=sink)
        in_task = label is None and sink and is_short_number(value) and self._task.holds(value)
        traced = TracedValue(path="", arg="", label=label or UNKNOWN, sink=sink, source=source, in_task=in_task)
        if isinstance(value, str) and label in {None, UNTRUSTED}:
            return self._parts(traced, value)
        return replace(traced, pointers=(traced.label,) if isinstance(value, str) and is_pointers(value) else ())

    def _label_of(
        self, value: Any, fixed: frozenset[str], *, exact: bool = False
    ) -> tuple[str | None, ValueSource | None]:
        if value is None or isinstance(value, bool) or value == "":
            return FIXED, None
        forms = same_forms(value, named=exact)
        task, budget, known = self._task, self._budget, self._known
        if task.names(value, budget=budget) if exact else task.holds(value, budget=budget):
            return TASK, ValueSource()
        if any(form in known.inputs for form in forms):
            return TASK, ValueSource()
        for form in forms:
            if form in known.record_values:
                return RECORD, known.record_values[form]
        if not forms.isdisjoint(fixed):
            return FIXED, None
        if exact and is_short_number(value) and task.holds(value):
            return None, None  # in the task, which does not name with it what it is used for here
        source = self._untrusted_source(value)
        return (None, None) if source is None else (UNTRUSTED, source)

    def _parts(self, traced: TracedValue, text: str) -> TracedValue:
        """Examine a text that is not trusted as a whole: the addresses in it, and its sentences."""
        pointed: list[str] = []
        suspect: tuple[ValueSource | None, str] | None = None
        for piece in possible_pointers(text):
            label, source = (traced.label, traced.source) if piece == text else self._label_of(piece, NONE)
            if len(pointed) == MAX_PIECES:
                pointed.append(UNTRUSTED)
                suspect = suspect or (source, f"more than {MAX_PIECES} addresses")
                break
            pointed.append(label or UNKNOWN)
            if label == UNTRUSTED:
                suspect = suspect or (source, piece)
        traced = replace(traced, pointers=tuple(pointed))
        pointing = suspect is not None
        if traced.label != UNTRUSTED:
            suspect = suspect or self._copied(text)
            if suspect is not None:
                traced = replace(traced, label=UNTRUSTED, source=suspect[0], piece=suspect[1])
        if traced.label == UNTRUSTED:
            return replace(traced, brief=not pointing and self._is_brief(text))
        items = listed(text) if pointed and is_pointers(text) else []
        if len(items) == 1:
            return traced
        known = [self._label_of(item, NONE, exact=traced.sink)[0] if is_pointers(item) else None for item in items]
        return replace(traced, label=worst(label or UNKNOWN for label in known)) if known else traced

    def _is_brief(self, text: str) -> bool:
        """Return whether only words of an untrusted text were copied, no number and no sentence."""
        if any(form.startswith("n:") for form in same_forms(text)):
            return False
        for place, number in enumerate(copied_pieces.numbers_inside(text)):
            if place == MAX_PIECES or self._label_of(number, NONE)[0] not in {TASK, RECORD}:
                return False
        return self._copied(text, MIN_SENTENCE_WORDS) is None

    def _copied(self, text: str, least_words: int = 1) -> tuple[ValueSource, str] | None:
        """Return the first piece of *text* with so many words that was copied, and from where, or None."""
        outputs = [*self._known.outputs, *self._known.records]  # of a record, too, only a whole field vouches
        if not outputs:
            return None
        for piece, letters in long_pieces(text):
            if not letters:
                return outputs[0].source, piece
            if least_words == 1 or copied_pieces.word_count(piece) >= least_words:
                source = next((output.source for output in outputs if self._in(letters, output)), None)
                if source is not None and not self._is_vouched(piece):
                    return source, piece
        return None

    def _is_vouched(self, piece: str) -> bool:
        said = self._task.holds(piece, budget=self._budget)
        return said or not same_forms(piece).isdisjoint(self._known.record_values)

    def _in(self, letters: str, output: SeenText) -> bool:
        self._budget.take(len(output.letters))
        return letters in output.letters

    def _untrusted_source(self, value: Any) -> ValueSource | None:
        text = str(value)
        wanted = needles(text)
        short = all(len(letters) < MIN_HIDDEN for letters in wanted)
        names = same_forms(value)
        if isinstance(value, str):
            names = words(text) if short else NONE
        # An address inside a longer field of a record may come from whoever wrote that text.
        pointing = bool(self._known.records) and isinstance(value, str) and not short and may_be_pointers(value)
        outputs = [*self._known.outputs, *self._known.records] if pointing else self._known.outputs
        if outputs and grows(text):
            return outputs[0].source  # copies of it may not be found
        for output in outputs:
            if any(self._in(letters, output) for letters in wanted if not short) or not names.isdisjoint(output.words):
                return output.source
        return None
