"""Finds what may be an address for whoever reads a text, beside the addresses that can also vouch.

Used only to distrust: hosts in other scripts or with other dots, which browsers take for what they look like, and hosts
without a name. Ordinary prose has dots as well, and scripts without spaces have them inside a row of letters. So a host
has a last label of ASCII letters, or of others where what follows or how it is written says that it is one.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from towpath_tas.core.provenance.value_matching import is_pointers, pointer_spans, pointers

_LETTER = r"\w\u0300-\u036f\u0900-\u0963\u0966-\u0e4e"  # with the vowels of Indic scripts and of Thai, which are marks
_LABEL = rf"[{_LETTER}-]{{1,63}}"
_FOREIGN_LAST = rf"(?=[\w-]{{0,62}}[^\x00-\x7f])[^\W\d_][{_LETTER}-]{{1,62}}"
_PATH = r"(?:/[^\s<>\"'`)\]}]*|[?#][^\s<>\"'`)\]}]+)"
_PORT_OR_PATH = rf"(?::\d{{1,5}}(?!\d){_PATH}?|{_PATH})"
_HOSTS_WITHOUT_NAMES = re.compile(
    rf"(?<![\w.-])(?:(?:\d{{1,3}}\.){{3}}\d{{1,3}}|localhost|\[(?:[0-9a-f]{{0,4}}:){{2,8}}[0-9a-f.]{{0,15}}(?:%\w{{1,20}})?\])"
    rf"{_PORT_OR_PATH}",
    re.IGNORECASE,
)
_BEGINS = r"(?<![\w@.-])(?=[\w-])"  # and not at each of a row of marks, which is no beginning
_FOREIGN_HOSTS = re.compile(  # every part has a maximum length, so that no text makes the search slow
    rf"{_BEGINS}(?:{_LABEL}\.){{1,8}}{_FOREIGN_LAST}{_PORT_OR_PATH}?"
    rf"|{_BEGINS}(?:{_LABEL}[.\u3002\uff0e\uff61]){{1,8}}"
    rf"(?:[a-z\uff21-\uff3a\uff41-\uff5a]{{2,63}}(?![\w-]){_PORT_OR_PATH}?|{_FOREIGN_LAST}{_PORT_OR_PATH})",
    re.IGNORECASE,
)
_AFTER_HOST = re.compile(r"[/?#:]")
_ENDS = ".,;:!?\u3002\uff0e\uff61"


def possible_pointers(text: str) -> Iterator[str]:
    """Yield the addresses in *text*, and what may be one and is no part of them."""
    yield from pointers(text)
    found = [*_hosts(text)]
    if not found:
        return
    known = [*pointer_spans(text)]
    for one in found:
        before = bisect_right(known, (one.start(), len(text))) - 1
        if before < 0 or known[before][1] < one.end():
            piece = one.group().rstrip(_ENDS)
            yield piece
            host = _AFTER_HOST.split(piece, 1)[0]
            if one.re is _FOREIGN_HOSTS and host != piece:
                yield host


def may_be_pointers(text: str) -> bool:
    """Return whether *text* consists only of what may be addresses."""
    if is_pointers(text):
        return True
    rest = _HOSTS_WITHOUT_NAMES.sub(" ", text)
    if not text.isascii():
        rest = _FOREIGN_HOSTS.sub(lambda host: host.group() if _is_prose(host.group()) else " ", rest)
    return rest != text and (not rest.strip() or is_pointers(rest))


def _hosts(text: str) -> Iterator[re.Match[str]]:
    yield from _HOSTS_WITHOUT_NAMES.finditer(text)
    if not text.isascii():
        yield from (one for one in _FOREIGN_HOSTS.finditer(text) if not _is_prose(one.group()))


def _is_prose(host: str) -> bool:
    """Return whether the dot of a *host* without a port or path seems to end a sentence, or to shorten a word."""
    last = host.rpartition(".")[2]
    return last.isalpha() and len(last) > 2 and last.istitle() and not last.isascii()
