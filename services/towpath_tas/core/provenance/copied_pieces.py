"""Cuts a text into the pieces that could have been copied from what somebody else wrote.

A piece is a sentence, or a row of lines too long for a list: a sentence that was broken into lines is still one.
Pieces with few letters occur in every text by chance and are left out. Both limits are counted and not guessed from
the language: the same text is cut in the same way everywhere.
"""

import re
from collections.abc import Iterator
from itertools import islice

from towpath_tas.core.provenance.value_matching import unhidden

MAX_PIECES = 200
"""Parts of one text that are searched in untrusted output; a text with more is untrusted."""

MIN_COPIED = 16
"""Letters and digits that a sentence must have to count as copied and not as a coincidence."""

MIN_SENTENCE_WORDS = 4
"""Words that a copied sentence must have to count as one; in fewer words stands a name, a place, an item of a list."""

MAX_LIST_WORDS = 12
"""Words that a copied list may have; lines that have more together are a text, however it is broken into lines."""

_WORD = re.compile(r"\w\S*")


def sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part.strip() for part in line.replace("? ", ". ").replace("! ", ". ").split(". ") if part.strip())


def long_pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield every piece of *text* that is long enough, once, and what of it is compared.

    Of a text with too many sentences to be searched the last one says so, with nothing to compare.
    """
    found = dict.fromkeys(sentences(text))
    for piece in (*islice(found, MAX_PIECES), *islice(_long_lists(text), MAX_PIECES)):
        letters = unhidden(piece)
        if len(letters) >= MIN_COPIED:
            yield piece, letters
    if len(found) > MAX_PIECES:
        yield f"more than {MAX_PIECES} sentences", ""


def _long_lists(text: str) -> Iterator[str]:
    """Yield the shortest rows of lines, from every line on, that have more words than a list that may be copied."""
    lines = [line for line in text.splitlines() if _WORD.search(line)]
    for first in range(len(lines)):
        words = 0
        for last in range(first, len(lines)):
            words += len(_WORD.findall(lines[last]))
            if words > MAX_LIST_WORDS:
                if last > first:  # a line alone is a sentence, or several
                    yield " ".join(lines[first : last + 1])
                break
        else:
            return
