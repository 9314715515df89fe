"""Rewrites texts so that no disguise is left in them: escapes, accents, look-alike forms and invisible letters.

Used only to distrust. A text is handled in short parts, since one call of a library function keeps every other task of
the process waiting until it returns, and the time that some of them take grows with the square of the length.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

PART = 65_536
"""ASCII characters that are handled at once."""

FOREIGN_PART = 256
"""Other characters that are handled at once: marks are sorted, in a time that grows with the square of their number."""

MAX_GROWTH = 3
"""How many characters may on average become of one. A Korean syllable has up to three letters; some ligatures 18."""

GROWTH_FREE = 64
"""Characters beyond that, so that a short text may have a ligature."""

MAX_ESCAPES = 3
"""How often escapes are read one inside another."""

NEAR = 256
"""Characters before a cut among which a space is looked for."""

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_INVISIBLE = re.compile(  # what fonts show nothing of, and the mark that becomes a letter when case is ignored
    "[\u00ad\u0345\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


def readings(text: str) -> tuple[str, ...]:
    """Return *text* with its escapes read, and as it stands if that is another text: `%3f` may begin a number."""
    read = text
    for _ in range(MAX_ESCAPES):
        before = read
        if "%" in read:
            read = unquote(read)
        if "&" in read:
            read = _ENTITY.sub(lambda found: html.unescape(found.group()), read)
        if read == before:
            break
    return (text,) if read == text else (read, text)


def spoken_parts(text: str) -> Iterator[str]:
    """Yield *text* in parts, without case, accents split off, digits as ASCII ones, without invisible letters.

    One that would grow too long is left as it is but for its case.
    """
    if text.isascii():
        yield from map(str.lower, _parts(text, PART))
        return
    widened = _widened(text)
    for part in _parts(text, FOREIGN_PART) if widened is None else widened:
        yield _folded(part)


def grows(text: str) -> bool:
    """Return whether *text* is one that `spoken_parts` leaves as it is: copies of it may not be found."""
    return not text.isascii() and _widened(text) is None


def _widened(text: str) -> list[str] | None:
    parts = []
    for part in _parts(text, FOREIGN_PART):
        wide = unicodedata.normalize("NFKD", part)
        if len(wide) > MAX_GROWTH * len(part) + GROWTH_FREE:
            return None
        parts.append(wide)
    return parts


def _folded(text: str) -> str:
    text = _INVISIBLE.sub("", text).casefold()
    digits = set(_OTHER_DIGIT.findall(text))
    return text.translate({ord(one): str(unicodedata.digit(one)) for one in digits}) if digits else text


def _parts(text: str, size: int) -> Iterator[str]:
    """Cut *text* at spaces, where there are any, so that no short word and no number is cut."""
    begin = 0
    while len(text) - begin > size:
        end = begin + size
        near = min(NEAR, size // 2)
        space = max(text.rfind(mark, end - near, end) for mark in " \n\t")
        end = end if space < 0 else space + 1
        yield text[begin:end]
        begin = end
    yield text[begin:]
