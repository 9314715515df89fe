"""Cuts a text into the pieces that could have been copied from what somebody else wrote.

A piece is a sentence, or a row of short ones or of lines that is too long for a list: a sentence that was broken into
lines is still one, and so is a text in sentences of two words.
Pieces with few letters occur in every text by chance and are left out. Both limits are counted and not guessed from
the language: the same text is cut in the same way everywhere.
"""

import re
from collections.abc import Iterator
from itertools import islice

from towpath_contracts.text import normalized
from towpath_tas.core.provenance.value_matching import unhidden, unhidden_forms

MAX_PIECES = 200
"""Parts of one text that are searched in untrusted output; a text with more is untrusted."""

MIN_COPIED = 16
"""Letters and digits that a sentence must have to count as copied and not as a coincidence."""

MIN_SENTENCE_WORDS = 4
"""Words that a copied sentence must have to count as one; in fewer words stands a name, a place, an item of a list."""

MAX_LIST_WORDS = 12
"""Words that a copied list may have; more together are a text, however it is broken into lines or short sentences."""

WORD_LETTERS = 10
"""Letters that count as a word at least, so that a text without spaces has words too."""

MAX_SHORT_DIGITS = 3
"""Digits of a number that may be copied: a count, a room, an hour."""

UNSPACED_LETTERS = 2
"""Letters that count as a word in scripts that put no spaces between words."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""

_BREAK = re.compile("[.?!] |[\u3002\uff01\uff1f\uff61\uff0e\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_TIME = r"[0-2]?\d:[0-5]\d(?::[0-5]\d)?"
_YEAR = r"(?:19|20)\d\d"
_DAY = rf"(?:{_YEAR}-[01]?\d-[0-3]?\d|[0-3]?\d[./][01]?\d[./]{_YEAR}|[01]?\d/[0-3]?\d/{_YEAR})"
_MOMENT = re.compile(rf"(?<![^\W_])(?:{_DAY}(?:[ T]{_TIME})?|{_TIME})(?![^\W_])(?![.,:/-]\d)")
_COUNTED = re.compile(r"\d(?:[\W_]?\d)*")


def sentences(text: str) -> Iterator[str]:
    return (part.strip() for part in _BREAK.split(text) if part.strip())


def word_count(text: str) -> int:
    """Return how many words *text* has, at least as many as so many letters make."""
    words = max(len(_WORD.findall(text)), len(unhidden(text)) // WORD_LETTERS)
    return words + len(_UNSPACED.findall(text)) // UNSPACED_LETTERS


def numbers_inside(text: str) -> Iterator[str]:
    """Yield the numbers in *text* that may be an amount or a code: of four digits or more, or with a fraction.

    Dates and times are none. Single marks between digits don't part a number.
    """
    left = _MOMENT.sub(" ", normalized("NFKC", text))
    for found in dict.fromkeys(_COUNTED.findall(left)):
        if len(found) > MAX_SHORT_DIGITS or "." in found or "," in found:
            yield found


def long_pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield every piece of *text* that is long enough, once, and what of it is compared.

    Of a text with too many pieces to be searched the last one says so, with nothing to compare.
    """
    found, rows = dict.fromkeys(sentences(text)), dict.fromkeys(_long_lists(text))
    for piece in (*islice(found, MAX_PIECES), *islice(rows, MAX_PIECES)):
        yield from ((piece, letters) for letters in unhidden_forms(piece) if len(letters) >= MIN_COPIED)
    if max(len(found), len(rows)) > MAX_PIECES:
        yield f"more than {MAX_PIECES} sentences", ""


def _long_lists(text: str) -> Iterator[str]:
    """Yield the shortest rows of sentences and lines, from every one on, with more words than a list may have."""
    parts = [(begin, end, word_count(text[begin:end])) for begin, end in _spans(text) if _WORD.search(text, begin, end)]
    for first, (begin, *_) in enumerate(parts):
        words = 0
        for last in range(first, len(parts)):
            words += parts[last][2]
            if words > MAX_LIST_WORDS:
                if last > first:  # one alone is a sentence
                    yield text[begin : parts[last][1]].strip()
                break
        else:
            return


def _spans(text: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for found in _BREAK.finditer(text):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(text)
