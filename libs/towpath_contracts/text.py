"""Texts of bounded length, which previews in logs, prompts and views are made with, and their Unicode normal forms."""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

from towpath_contracts.canonical import canonical_json

ELLIPSIS = "…"

NORMALIZED_AT_ONCE = 32
"""Characters: the library sorts the marks behind a letter in a time that grows with the square of their number, and all
else of the process waits. No letter of a language has as many."""

_JOINING = ("\u1160", "\u11ff")
"""The first and the last of the Korean vowels and ends of syllables, which join what stands before them."""


HIDDEN_SIGNS = (
    "\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that show nothing wherever they stand, or change the order in which others are read, between brackets of a
regular expression. Whatever looks for such characters begins with these."""

HIDDEN = re.compile(f"[{HIDDEN_SIGNS}]|(?<![#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f")
"""Characters that show nothing, or change the order in which others are read; but for what makes a sign an emoji."""


SECRET_NAME = re.compile(r"passw|secret|token|(?:api|access|private)[_-]?key|credential|authorization", re.IGNORECASE)
"""Names of arguments and keys whose values stay out of texts."""

_UNSEEN = re.compile(r"(?<= ) |[^ -~]")
"""What may have to be escaped in JSON to be seen: a space after another stands inside a value."""

_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
"""Of Unicode: control and format characters, and those that nobody has given a look."""

_HIDDEN_SIGN = re.compile(f"[{HIDDEN_SIGNS}\ufe0f]")


_SENTENCE_ENDS = (".", "?", "!", "…")
"""A text that ends so gets no full stop: `did you mean 'support'?` is a whole sentence."""


def join_sentences(*texts: str) -> str:
    """Return *texts* one after the other, each with an end of its own; empty ones are left out."""
    told = [text.rstrip(" :;,") for text in texts if text]
    return " ".join(text if text.endswith(_SENTENCE_ENDS) else f"{text}." for text in told if text)


def visible_json(value: Any) -> str:
    """Return *value* as JSON in one line that reads back equal, where whatever can't be seen is escaped.

    Whoever decides by what is shown decides about this value and no other: two spaces, a line break or a character
    that shows nothing are not taken for less.
    """
    return _UNSEEN.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    if sign == " ":
        return "\\u0020"
    hidden = sign.isspace() or unicodedata.category(sign) in _UNSEEN_CATEGORIES or _HIDDEN_SIGN.fullmatch(sign)
    return json.dumps(sign)[1:-1] if hidden else sign


def name_hidden(text: str) -> str:
    """Return *text* with the characters named that show nothing, or change the order of others: ⟨U+202E⟩."""
    return HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def truncate(text: str, most: int) -> str:
    """Keep *text* within *most* characters: the first most-1 and one ellipsis when it is longer."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return *number* with *noun*, which has an s at its end where there is not one: `1 step`, `2 steps`, `0 entries`.

    *plural* is the form that no s makes.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def as_text(value: Any) -> str:
    """Return strings as they are and everything else as canonical JSON."""
    return value if isinstance(value, str) else canonical_json(value)


def unwrap_message(answer: Any) -> Any:
    """Return the text of an answer that is a message and no more, `{"message": "…"}`; any other answer as it is."""
    is_message = isinstance(answer, dict) and set(answer) == {"message"} and isinstance(answer["message"], str)
    return answer["message"] if is_message else answer


def sendable(text: str) -> str:
    """Return *text* as it can be sent: models, and their servers, may write half of a surrogate pair, shown as `?`."""
    return text.encode("utf-8", "replace").decode()


def stored_text(data: bytes) -> tuple[str, bool]:
    """Return the text of a result in the blob store, and whether it was a string: else it is the JSON as it is stored.

    A worker stored these bytes and may have stored anything: what only begins like a string is a text as it stands.
    """
    text = data.decode("utf-8", "replace")
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text, True
        return (value, True) if isinstance(value, str) else (text, False)
    return text, False


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return *text* in a Unicode normal form, in a time that grows with its length and no faster.

    Only of a row of marks that is longer than what is done at once the order is not that of the form: two such rows may
    mean the same and come out different, never the other way round.
    """
    if len(text) <= NORMALIZED_AT_ONCE or text.isascii():
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, part) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Cut *text* before the last of the next characters that joins nothing, or in the middle where all of them do."""
    begin, size = 0, len(text)
    while size - begin > NORMALIZED_AT_ONCE:
        most = begin + NORMALIZED_AT_ONCE
        end = next((place for place in range(most, begin, -1) if not _joins(text[place])), most)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _joins(character: str) -> bool:
    """Return whether *character* may join what stands before it, also as what NFKC makes of it: ㅏ, ﾞ."""
    (first, last), meant = _JOINING, unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(meant)[0] == "M" or first <= meant <= last
