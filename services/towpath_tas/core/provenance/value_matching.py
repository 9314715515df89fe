"""Decides when two values are the same, and when a text contains a value, in whatever form it was written.

To trust, values must be equal but for spelling that changes no meaning (case of a mail address, spaces in an account
number). To distrust, it is enough that one could be the other in disguise. So the two use different normal forms.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from urllib.parse import unquote

MIN_HIDDEN = 4
"""Shorter values are searched as whole words only: three letters occur in every text by chance."""

MAX_NEEDLE = 500
"""A longer value is compared literally, without word boundaries and normal forms."""

MAX_NAMED = 200
"""Characters of a name and an address together; what is longer is text."""

MAX_DIGITS = 40
"""Digits of a number; a longer row of digits is text."""

_SPACE = re.compile(r"\s+")
_UNWORDED = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?<![\w.,-])-?\d+(?:[.,]\d+)*(?![\w-])")
_ONE_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_ACCOUNT = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{8,30}")
_PHONE = re.compile(r"(?:\+\(?|(?=\(\+?\d{1,5}\))\(\+?)\d[\d\s().\-/]{5,40}\d|\d[\d\s()\-/]{5,40}\d")
_MIN_PHONE = 7
_NO_PHONE = re.compile(  # a dotted quad, a decimal number, a date: there the marks between digits mean something
    r"^\D?\d{1,3}(?:\.\d{1,3}){3}$|^\D?\d+\.\d+$"
    r"|(?<!\d)(?:\d{4}[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:0?[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])[-./ ](?:0?[1-9]|[12]\d|3[01])[-./ ]\d{4})(?!\d)"
)
_NAMED = re.compile(  # a plain display name and one mail address
    r"(?P<quote>\"?)(?P<name>[^\W_][\w'-]*\.?(?: [^\W_][\w'-]*\.?){0,5})(?P=quote) ?"
    r"<(?P<mail>[\w.+%'-]+@[\w-]+(?:\.[\w-]+)*)>"
)
_MARKED = re.compile(r"[#@][\w-]+")
_HOST = r"(?P<host>(?:[\w-]+\.)+[a-z]{2,})"
_URL = re.compile(rf"(?:https?://)?{_HOST}(?P<rest>(?::\d+)?(?:[/?#][^\s\\]*)?)", re.IGNORECASE)
_ANY_URL = re.compile(rf"(?:[a-z][a-z0-9+.-]{{0,20}}://)?(?:[^/\s@]*@)?{_HOST}(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
_POINTERS = (
    re.compile(  # every part begins at a boundary and has a maximum length, so that no text makes the search slow
        r"(?<![\w.+%'-])[\w.+%'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"  # a mail address
        r"|(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://[^\s<>\"'`)\]}]+"  # a link
        r"|(?<![\w@.-])(?:[\w-]{1,63}\.){1,8}[a-z]{2,63}(?:/[^\s<>\"'`)\]}]*)?"  # a host, perhaps with a path
        r"|(?<![^\W_])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![^\W_])"  # an account number
        r"|(?<![\w.,-])[+(]?\d(?:[\s().\-/]?\d){6,40}(?![\w-])",  # a phone number, or any other long number
        re.IGNORECASE,
    )
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[ T-]\d\d?)?|\d{1,2}[./]\d{1,2}[./]\d{4}(?: \d\d?)?")
_FILE = re.compile(
    r"[^/@:]+\.(?:txt|pdf|docx?|xlsx?|pptx?|csv|json|ya?ml|xml|html?|png|jpe?g|gif|log|eml|ics|md|py)", re.IGNORECASE
)
_SCHEME = re.compile(r"^\s*[a-z][a-z0-9+.-]{0,20}:(?://)?(?:www\.)?(?=\S)|^\s*www\.(?=\S)", re.IGNORECASE)
_SHORT_NUMBER = re.compile(r"\d{1,3}")
_CALLED = (
    r"\b(?:id|no|nr|number|key|row|item|file|mail|e-mail|email|event|order|ticket|account|user|channel|transaction)"
)
_PHONE_BEFORE = r"(?<![\w.+%\-@/\\#(])[+(]{0,2}"
_EDGE_BEFORE = r"(?<![\w.+%\-@/\\#])[#@]?"
_EDGE_AFTER = r"(?![\w@/\\%+\-])(?![.:]\w)(?!,\d)"
_LOOSE = r"[\s().\-/]{0,3}"


def plain(text: str) -> str:
    """Return *text* in Unicode form NFC with single spaces; letters keep their case."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


def same_forms(value: object, *, named: bool = True) -> frozenset[str]:
    """Return the normal forms of *value*: values with a common form are the same.

    *named*: it is used as an address, so "Ann <ann@example.com>" is the same as the address alone.
    """
    if isinstance(value, int | float | Decimal):
        return frozenset(_numbers(str(value)))
    text = _bare(value)
    mail = _addressed(value) if named else text
    return _forms(text) if mail == text else _forms(text) | _forms(mail)


def _forms(text: str) -> frozenset[str]:
    if len(text) > MAX_NEEDLE:
        return frozenset({f"t:{text}"})
    forms = {f"t:{_folded(_unmarked(text))}"}
    bare = re.sub(r"[\s-]", "", text).upper()
    if _ACCOUNT.fullmatch(bare):
        forms.add(f"a:{bare}")
    if digits := _phone(text):
        forms.add(f"p:{digits}")
    url = _URL.fullmatch(text)
    if url is not None:
        forms.add(f"u:{_link(url)}")
    if _ONE_NUMBER.fullmatch(text):
        forms.update(_numbers(text))
    return frozenset(forms)


def _bare(value: object) -> str:
    """Return a value without a pair of quotes around it: a single quote begins something else."""
    text = plain(str(value))
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1].strip() if quoted else text


def _unmarked(text: str) -> str:
    """Return the name of a channel or person without its mark: "#general" is "general"."""
    return text[1:] if _MARKED.fullmatch(text) else text


def _addressed(value: object) -> str:
    """Return the address of "Ann <ann@example.com>", else the value as it is.

    Only a plain name may precede the bracket: anything more could be used as the address instead.
    """
    text, whole = _bare(value), str(value).strip()
    named = _NAMED.fullmatch(plain(whole)) if len(whole) <= MAX_NAMED and len(whole.splitlines()) == 1 else None
    return text if named is None or _POINTERS.search(named.group("name")) else named.group("mail")


def _phone(text: str) -> str:
    """Return the digits of a phone number, else an empty string.

    Dots count as separators only after `+` or an area code in brackets: 192.168.1.12 is no phone number.
    """
    digits = re.sub(r"\D", "", text) if _PHONE.fullmatch(text) and not _NO_PHONE.search(text) else ""
    return digits if len(digits) >= _MIN_PHONE else ""


class TrustedText:
    """A trusted text: a value is trusted if the text contains it as a whole, not as a part of a longer name."""

    def __init__(self, text: str) -> None:
        self._text = plain(text)
        self._forms = frozenset((*_number_forms(self._text), *(f"u:{_link(found)}" for found in _links(self._text))))

    def holds(self, value: object, *, named: bool = False) -> bool:
        """Return whether the text contains *value*; *named* as in `same_forms`."""
        if isinstance(value, int | float | Decimal):
            return not same_forms(value).isdisjoint(self._forms)
        wanted = _addressed(value) if named else _bare(value)
        if len(wanted) > MAX_NEEDLE:
            return wanted in self._text
        return bool(wanted) and (
            _written(self._text, _unmarked(wanted)) or any(self._says(form) for form in _forms(wanted))
        )

    def names(self, value: object) -> bool:
        """Return whether the text names *value* as a destination: a short number must be introduced as one, or quoted.

        "file 13" and "ID '13'" name it; "June 13" does not mean a file.
        """
        bare = _bare(value)
        if isinstance(value, bool) or not _SHORT_NUMBER.fullmatch(bare):
            return self.holds(value, named=True)
        called = rf"(?:[\"'`#]|{_CALLED}[\s:.#\"'`]{{0,4}}(?:is\s+|of\s+)?[\"'`#]?){re.escape(bare)}(?![\w.,]\w|\w)"
        return re.search(called, self._text, re.IGNORECASE) is not None

    def _says(self, form: str) -> bool:
        kind, _, body = form.partition(":")
        if kind == "a":
            return _spaced(self._text, body)
        return _phoned(self._text, body) if kind == "p" else form in self._forms


def _number_forms(text: str) -> Iterator[str]:
    for found in _NUMBER.finditer(text):
        yield from _numbers(found.group())


def _written(text: str, wanted: str) -> bool:
    flags = re.NOFLAG if _keeps_case(wanted) else re.IGNORECASE
    return _boundary(wanted, flags).search(text) is not None


@lru_cache(maxsize=512)
def _boundary(wanted: str, flags: re.RegexFlag) -> re.Pattern[str]:
    return re.compile(_EDGE_BEFORE + re.escape(wanted) + _EDGE_AFTER, flags)


def _spaced(text: str, account: str) -> bool:
    pattern = r"(?<![^\W_])" + r"[\s-]{0,2}".join(map(re.escape, account)) + r"(?![^\W_])"
    return re.search(pattern, text, re.IGNORECASE) is not None


def _phoned(text: str, digits: str) -> bool:
    """Return whether *text* contains a phone number with these digits that is no part of a longer number."""
    for found in re.finditer(_PHONE_BEFORE + _LOOSE.join(digits) + _EDGE_AFTER, text):
        before, after = text[max(0, found.start() - 4) : found.start()], text[found.end() : found.end() + 4]
        part = re.search(r"\d[\s().\-/]{0,3}$|\d,$", before) or re.match(r"[\s().\-/]{0,3}\d", after)
        if part is None and digits in {_phone(found.group()), _phone(found.group().lstrip("("))}:
            return True
    return False


def _links(text: str) -> Iterator[re.Match[str]]:
    for found in _POINTERS.finditer(text):
        url = _URL.fullmatch(found.group().rstrip(".,;:!?"))
        if url is not None and "@" not in found.group():
            yield url


def _link(url: re.Match[str]) -> str:
    """Return a web link without `http://`, `www.` and a last slash; the path keeps its case, as servers distinguish it.

    It has no other scheme, no user and no backslash: with those, programs differ on the host.
    """
    rest = url.group("rest").removesuffix("/")
    return url.group("host").lower().removeprefix("www.") + rest


def _keeps_case(text: str) -> bool:
    """Paths and keys depend on case; names and addresses do not."""
    return ("/" in text or "\\" in text) and "@" not in text


def _folded(text: str) -> str:
    return text if _keeps_case(text) else text.lower()  # not `casefold`, which would merge two hosts: ß is not ss


def _numbers(text: str) -> Iterator[str]:
    """Yield the readings of a number: 1,200.50 and 1.200,50 are both read both ways."""
    if len(text) > MAX_DIGITS:
        return
    for written in {text.replace(",", ""), text.replace(".", "").replace(",", ".")} if "," in text else {text}:
        try:
            number = Decimal(written)
        except InvalidOperation:
            continue
        if number.is_finite() and abs(number.adjusted()) < MAX_DIGITS:
            yield "n:0" if number == 0 else f"n:{number.normalize():f}"


def pointers(text: str) -> Iterator[str]:
    """Yield the addresses in *text*: mail addresses, links and their hosts, account and other long numbers."""
    for found in _POINTERS.finditer(text):
        piece = found.group().rstrip(".,;:!?")
        if _DATE.fullmatch(piece) or _FILE.fullmatch(piece):
            continue
        yield piece
        url = _ANY_URL.fullmatch(piece)
        if url is not None and "@" not in piece and url.group("host") != piece:
            yield url.group("host")


def is_pointers(text: str) -> bool:
    """Return whether *text* consists of addresses only."""
    return bool(text.strip()) and not _WORD.search(_POINTERS.sub(" ", text))


def unhidden(text: str) -> str:
    """Return *text* in a form that reveals disguise: no case, no accents, nothing between the letters."""
    return _UNWORDED.sub("", _spoken(text))


def without_scheme(text: str) -> str:
    """Return *text* without a prefix such as `https://www.` or `mailto:`."""
    return _SCHEME.sub("", text, count=1)


def words(text: str) -> frozenset[str]:
    """Return the words and numbers of *text* in revealed form, for values too short to be searched inside words."""
    spoken = _spoken(text)
    return frozenset((*_WORD.findall(spoken), *_number_forms(spoken)))


def _spoken(text: str) -> str:
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = html.unescape(text)
    return unicodedata.normalize("NFKD", text).casefold()
