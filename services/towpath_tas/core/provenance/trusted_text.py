"""Finds values in a text that vouches: what the caller wrote of the task, and what people have stated.

The text is read once into sets of its words, numbers, links and phone numbers, so that most values that it does not
contain cost one look into a set, however long it is. Only what passes that is searched, and each hit is looked at.
"""

import re
from array import array
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from towpath_tas.core.provenance.search_budget import PER_HIT, SearchBudget
from towpath_tas.core.provenance.value_matching import (
    MAX_NEEDLE,
    addressed,
    bare,
    keeps_case,
    links,
    lowered,
    number_forms,
    phone,
    plain,
    same_forms,
    text_forms,
    unhidden_forms,
    unmarked,
    uppered,
    vouched_links,
)

SEPARATOR = "\0\ufdd0\0"
"""Stands between texts that were put together: no value crosses it. Its middle is no character and means nothing."""

_RUN = re.compile(r"\w+")
_BEGINS = re.compile(r"(?:^|[^\w.+%\-@/\\#])[#@]?\Z")
_ENDS = re.compile(r"(?![\w@/\\%+\-])(?![.:]\w)(?!,\d)")
_QUOTES = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_POINTING = re.compile(r"[@/\\]")
_BEGINS_ALONE = re.compile(rf"(?:^|[\s({{\[<\0])[{_QUOTES}]?[#@]?\Z")
_MAIL_BEGINS = re.compile(r"(?:^|[\s(<])(?:[\w-]+:|[\w.+%'-]+@[\w.-]+[,;])\Z")
"""What stands before an address or a path that is not a part of a longer one."""

_ENDS_ALONE = re.compile(rf"[)\]}}>{_QUOTES}.,;:!?]*(?:[\s\0]|\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What a program may take for the end of a destination."""

MAX_BEFORE = 200
"""Characters before an address that are looked at."""

_QUOTED = re.compile(r"(?<![^\s(\[{<,;:=\0])([\"'`])((?:(?!\1)[^\0]|(?<=\w)'(?=\w)){1,500})\1(?![\w/\\@])")

_UNSEPARATED = re.compile(r"[^ -]+")
_MAX_GAP = 2
_CHAIN = re.compile(r"[0-9](?:[\s().\-/]{0,3}[0-9])*")
_MAX_CHAIN = 60
_NO_PHONE_AFTER = re.compile(r"[\w.+%\-@/\\#(]")
_DIGIT_BEFORE, _DIGIT_AFTER = re.compile(r"\d[\s().\-/]{0,3}\Z|\d,\Z"), re.compile(r"[\s().\-/]{0,3}\d")
_SHORT_NUMBER = re.compile(r"\d{1,3}")
_SHORT_FORM = re.compile(r"n:[0-9]{1,3}")
_CALLED = re.compile(
    r"(?:[\"'`#]|\b(?:id|no|nr|number|key|row|item|file|mail|e-mail|email|event|order|ticket|account|user|channel"
    r"|transaction)[\s:.#\"'`]{0,4}(?:is\s+|of\s+)?[\"'`#]?)(\d{1,3})(?![\w.,]\w|\w)"
)


class TrustedText:
    """A trusted text: a value is trusted if the text contains it as a whole, not as a part of a longer name."""

    def __init__(self, text: str) -> None:
        self._text = plain(text)
        self._lowered = lowered(self._text)
        self._words = frozenset(_RUN.findall(self._lowered))
        self._called = frozenset(_CALLED.findall(self._lowered))
        self._forms = frozenset(
            (
                *number_forms(self._text),
                *_phones(self._text),
                *(form for link in frozenset(links(self._text)) for form in vouched_links(link)),
            )
        )
        self._quoted = [
            found.span(2)
            for found in _QUOTED.finditer(self._text)
            if "/" in found.group(2)[:2] or "\\" in found.group(2)[:4]
        ]
        """Quoted paths: each is vouched for as a whole only, as it may have spaces."""
        self._unseparated = uppered(self._text.replace(" ", "").replace("-", ""))
        self._places: array[int] | None = None
        self._letters: str | None = None

    def holds(self, value: object, *, named: bool = False, budget: SearchBudget | None = None) -> bool:
        """Return whether the text contains *value*; *named* as in `same_forms`.

        Raises SearchBudgetSpentError.
        """
        if isinstance(value, int | float | Decimal):
            return not same_forms(value).isdisjoint(self._forms)
        wanted, budget = addressed(value) if named else bare(value), budget or SearchBudget()
        if not wanted or SEPARATOR in wanted:
            return False
        if len(wanted) > MAX_NEEDLE:
            budget.take(len(self._text))
            return wanted in self._text
        forms = text_forms(wanted)
        return (
            not forms.isdisjoint(self._forms)
            or self._contains(unmarked(wanted), budget)
            or any(self._contains_account(form[2:], budget) for form in forms if form.startswith("a:"))
        )

    def names(self, value: object, *, budget: SearchBudget | None = None) -> bool:
        """Return whether the text names *value* as a destination: a short number must be introduced as one, or quoted.

        "file 13" and "ID '13'" name it; "June 13" does not mean a file. Marks without a letter or digit must be quoted.
        """
        if is_short_number(value):
            return not self._called.isdisjoint((bare(value), *(form[2:] for form in same_forms(value))))
        if isinstance(value, str) and _CONTROL.search(value):
            return False
        if isinstance(value, str) and not any(map(str.isalnum, value)):
            # Bullets and dashes stand in most tasks, and mean everything, the root or the home as an argument.
            marks = bare(value)
            return bool(marks) and any(f"{quote}{marks}{quote}" in self._text for quote in "\"'`")
        return self.holds(value, named=True, budget=budget)

    def reveals(self, letters: str, budget: SearchBudget) -> bool:
        """Return whether these `unhidden` letters stand in the text in a row. Raises SearchBudgetSpentError."""
        if self._letters is None:
            budget.take(len(self._text))
            self._letters = SEPARATOR.join(
                form for text in self._text.split(SEPARATOR) for form in unhidden_forms(text)
            )
        budget.take(len(self._letters))
        return letters in self._letters

    def _contains(self, wanted: str, budget: SearchBudget) -> bool:
        low = lowered(wanted)
        if not self._words.issuperset(_RUN.findall(low)):
            return False  # all words of what is contained as a whole are whole words of the text
        text, wanted = (self._text, wanted) if keeps_case(wanted) else (self._lowered, low)
        fits = self._stands_alone if _POINTING.search(wanted) else _stands_apart
        return any(fits(text, at, at + len(wanted)) for at in _places_of(wanted, text, budget))

    def _stands_alone(self, text: str, begin: int, end: int) -> bool:
        """Return whether an address or path there is no part of a longer one, nor of a quoted one with spaces."""
        before = text[max(0, begin - MAX_BEFORE) : begin]
        alone = _BEGINS_ALONE.search(before) or ("@" in text[begin:end] and _MAIL_BEGINS.search(before))
        if not alone or not _ENDS_ALONE.match(text, end):
            return False
        return _stands_apart(text, begin, end) and not any(
            first < begin + 1 and end <= last and (first, last) != (begin, end) for first, last in self._quoted
        )

    def _contains_account(self, account: str, budget: SearchBudget) -> bool:
        """Return whether the text has this account number, with up to two spaces or hyphens between its characters."""
        for at in _places_of(account, self._unseparated, budget):
            places = self._unseparated_places()[at : at + len(account)]
            begin, end = places[0], places[-1] + 1
            alone = not self._text[begin - 1 : begin].isalnum() and not self._text[end : end + 1].isalnum()
            if alone and all(place - before <= 1 + _MAX_GAP for before, place in pairwise(places)):
                return True
        return False

    def _unseparated_places(self) -> "array[int]":
        """Return where each character of `_unseparated` stands in the text."""
        if self._places is None:
            places = array("I")
            for found in _UNSEPARATED.finditer(self._text):
                places.extend(range(*found.span()))
            self._places = places
        return self._places


def is_short_number(value: object) -> bool:
    """Return whether *value* is a number of up to three digits, in any spelling."""
    read = [form for form in same_forms(value) if form.startswith("n:")]
    return _SHORT_NUMBER.fullmatch(bare(value)) is not None or (bool(read) and all(map(_SHORT_FORM.fullmatch, read)))


def _stands_apart(text: str, begin: int, end: int) -> bool:
    return _BEGINS.search(text[max(0, begin - 2) : begin]) is not None and _ENDS.match(text, end) is not None


def _places_of(wanted: str, text: str, budget: SearchBudget) -> Iterator[int]:
    budget.take(len(text))
    at = text.find(wanted)
    while at >= 0:
        budget.take(PER_HIT)
        yield at
        at = text.find(wanted, at + 1)


def _phones(text: str) -> Iterator[str]:
    """Yield the forms of the phone numbers in *text*: digits that are no part of a longer row of digits."""
    for found in _CHAIN.finditer(text):
        begin, end = found.span()
        if end - begin > _MAX_CHAIN or not _ENDS.match(text, end):
            continue
        for _ in range(2):
            if begin and text[begin - 1] in "+(":
                begin -= 1
        if begin and _NO_PHONE_AFTER.match(text, begin - 1):
            continue
        if _DIGIT_BEFORE.search(text[max(0, begin - 4) : begin]) or _DIGIT_AFTER.match(text, end):
            continue
        digits, written = re.sub(r"[^0-9]", "", found.group()), text[begin:end]
        if digits and digits in {phone(written), phone(written.lstrip("("))}:
            yield f"p:{digits}"
