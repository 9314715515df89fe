"""Decides when two values are the same, and finds addresses in texts, in whatever form they were written.

To trust, values must be equal but for spelling that changes no meaning: the case of ASCII letters in a mail address,
spaces in an account number. No other letters are ever taken for each other, as many look alike and name other hosts:
so nothing here that vouches uses `lower`, digits of a regex or `re.IGNORECASE`, which go beyond ASCII. To distrust, it
is enough that one could be the other in disguise. So the two use different normal forms.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache, wraps
from typing import TypeVar

from towpath_contracts.text import normalized
from towpath_tas.core.provenance.spoken_text import readings, spoken_parts

MIN_HIDDEN = 4
"""Shorter values are searched as whole words only: three letters occur in every text by chance."""

MAX_NEEDLE = 500
"""A longer value is compared literally, without word boundaries and normal forms."""

MAX_NAMED = 200
"""Characters of a name and an address together; what is longer is text."""

MAX_DIGITS = 40
"""Digits of a number; a longer row of digits is text."""

LONG = 4_096
"""A value that is longer is kept in its plain form for a while: it is asked for several times in one call."""

KEPT = 2_048
"""Values of at most MAX_NAMED characters whose forms are kept for a while: states, names and addresses come again."""

R = TypeVar("R")

_BETWEEN = re.compile("[,;]")
"""Separators of lists of addresses; with any other, programs differ on where an address ends."""

_SPACE = re.compile(r"\s+")
_UNWORDED = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?<![\w.,-])-?[0-9]+(?:[.,][0-9]+)*(?![\w-])")
_ONE_NUMBER = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)*")
_ACCOUNT = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{8,30}")
_PHONE = re.compile(r"(?:\+\(?|(?=\(\+?[0-9]{1,5}\))\(\+?)[0-9][0-9\s().\-/]{5,40}[0-9]|[0-9][0-9\s()\-/]{5,40}[0-9]")
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
_HOST = r"(?P<host>(?:[\w-]+\.)+[A-Za-z]{2,})"
_URL = re.compile(rf"(?:(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://)?{_HOST}(?P<rest>(?::[0-9]+)?(?:[/?#][^\s\\]*)?)")
_ANY_URL = re.compile(rf"(?:[a-z][a-z0-9+.-]{{0,20}}://)?(?:[^/\s@]*@)?{_HOST}(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
_POINTERS = (
    re.compile(  # every part begins at a boundary and has a maximum length, so that no text makes the search slow
        r"(?<![\w.+%'-])[\w.+%'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"  # a mail address
        r"|(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://[^\s<>\"'`)\]}]+"  # a link
        r"|(?<![\w@.-])(?:[\w-]{1,63}\.){1,8}[a-z]{2,63}(?:/[^\s<>\"'`)\]}]*)?"  # a host, perhaps with a path
        r"|(?<![^\W_])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![^\W_])"  # an account number
        r"|(?<![^\W_])[A-Z]{1,3}\d{6,20}(?![^\W_])"  # the number of a document: a passport, an order
        r"|(?<![\w.,-])[+(]?\d(?:[\s().\-/]?\d){6,40}(?![\w-])",  # a phone number, or any other long number
        re.IGNORECASE,
    )
)
_DATE = re.compile(
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9](?:[ T-][0-9][0-9]?)?|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4}(?: [0-9][0-9]?)?"
)
_FILE = re.compile(r"[^/@:]+\.(?:txt|pdf|docx?|xlsx?|pptx?|csv|json|ya?ml|xml|html?|png|jpe?g|gif|log|eml|ics|md|py)")
_SCHEME = re.compile(r"^\s*(?!localhost:)[a-z][a-z0-9+.-]{0,20}:(?://)?(?:www\.)?(?=\S)|^\s*www\.(?=\S)", re.IGNORECASE)
_LINK_ENDS = re.compile(r"[)\]}>\"'`\u201d\u2019\u00bb.,;:!?]*(?:[\s\0]|\Z)")
_INTO_ASCII = re.compile("([\u212a\u037e\u1fef])")
"""The letters that NFC replaces by ASCII ones: the sign of kelvin, the Greek question mark, varia."""

_VOUCHED_SCHEMES = {"": ("", "https"), "https": ("", "https"), "http": ("", "http", "https")}
"""The schemes that a link vouches for: without one as well, and never for plain HTTP that it does not name."""


def kept_if_short(of_text: Callable[[str], R]) -> Callable[[str], R]:
    """Return *of_text*, which keeps what it has returned of short texts: a text has one form, whoever asks for it."""
    keeping = lru_cache(maxsize=KEPT)(of_text)

    @wraps(of_text)
    def keeping_short(text: str) -> R:
        return keeping(text) if len(text) <= MAX_NAMED else of_text(text)

    return keeping_short


def lowered(text: str) -> str:
    """Return *text* with its ASCII letters in lower case, and every other letter as it is."""
    return text.lower() if text.isascii() else _text(_data(text).lower())


def uppered(text: str) -> str:
    """Return *text* with its ASCII letters in upper case, and every other letter as it is."""
    return text.upper() if text.isascii() else _text(_data(text).upper())


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:  # the case methods of bytes change ASCII letters only
    return data.decode("utf-8", "surrogatepass")


def plain(text: str) -> str:
    """Return *text* in Unicode form NFC with single spaces; letters keep their case, and none becomes an ASCII one."""
    return _plain(text) if len(text) <= LONG else _plain_once(text)


def _plain(text: str) -> str:
    if not text.isascii():
        parts = _INTO_ASCII.split(text)
        parts[::2] = (normalized("NFC", part) for part in parts[::2])
        text = "".join(parts)
    return _SPACE.sub(" ", text).strip()


_plain_once = lru_cache(maxsize=8)(_plain)


def same_forms(value: object, *, named: bool = True) -> frozenset[str]:
    """Return the normal forms of *value*, which something asks for: it is vouched for by a value with one of them.

    *named*: it is used as an address, so "Ann <ann@example.com>" is the same as the address alone.
    """
    if isinstance(value, int | float | Decimal):
        return frozenset(numbers(str(value)))
    return _forms_of_named(str(value)) if named else text_forms(bare(value))


@kept_if_short
def _forms_of_named(value: str) -> frozenset[str]:
    text, mail = bare(value), addressed(value)
    return text_forms(text) if mail == text else text_forms(text) | text_forms(mail)


def vouched_forms(value: object) -> frozenset[str]:
    """Return the normal forms of everything that a trusted *value* vouches for.

    They are more than its own: a link vouches for itself without a scheme and over HTTPS.
    """
    forms = same_forms(value)
    links = [form.removeprefix("u:") for form in forms if form.startswith("u:")]
    return forms.union(*(vouched_links(link) for link in links))


def vouched_links(link: str) -> Iterator[str]:
    """Yield the forms of all links that *link* vouches for; it begins with its scheme, which may be empty."""
    scheme, _, rest = link.partition(":")
    return (f"u:{other}:{rest}" for other in _VOUCHED_SCHEMES[scheme])


@kept_if_short
def text_forms(text: str) -> frozenset[str]:
    """Return the normal forms of a text that is `bare`: as text, account, phone number, link and number."""
    if len(text) > MAX_NEEDLE:
        return frozenset({f"t:{text}"})
    forms = {f"t:{text if keeps_case(text) else lowered(unmarked(text))}"}
    account = uppered(re.sub(r"[\s-]", "", text))
    if _ACCOUNT.fullmatch(account):
        forms.add(f"a:{account}")
    if digits := phone(text):
        forms.add(f"p:{digits}")
    url = _URL.fullmatch(text)
    if url is not None:
        forms.add(f"u:{_link(url)}")
    if _ONE_NUMBER.fullmatch(text):
        forms.update(numbers(text))
    return frozenset(forms)


def bare(value: object) -> str:
    """Return a value without a pair of quotes around it: a single quote begins something else."""
    text = plain(str(value))
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1].strip() if quoted else text


def unmarked(text: str) -> str:
    """Return the name of a channel or person without its mark: "#general" is "general"."""
    return text[1:] if _MARKED.fullmatch(text) else text


def addressed(value: object) -> str:
    """Return the address of "Ann <ann@example.com>", else the value as it is.

    Only a plain name may precede the bracket: anything more could be used as the address instead.
    """
    text, whole = bare(value), str(value).strip()
    named = _NAMED.fullmatch(plain(whole)) if len(whole) <= MAX_NAMED and len(whole.splitlines()) == 1 else None
    return text if named is None or _POINTERS.search(named.group("name")) else named.group("mail")


def phone(text: str) -> str:
    """Return the digits of a phone number, else an empty string.

    Dots count as separators only after `+` or an area code in brackets: 192.168.1.12 is no phone number.
    """
    digits = re.sub(r"[^0-9]", "", text) if _PHONE.fullmatch(text) and not _NO_PHONE.search(text) else ""
    return digits if len(digits) >= _MIN_PHONE else ""


def number_forms(text: str) -> Iterator[str]:
    """Yield the forms of all numbers in *text*."""
    for found in dict.fromkeys(_NUMBER.findall(text)):
        yield from numbers(found)


def numbers(text: str) -> Iterator[str]:
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


def links(text: str) -> Iterator[str]:
    """Yield the web links in *text*, each as scheme, colon and the rest; none is a part of a longer one."""
    for found in _POINTERS.finditer(text):
        piece = found.group().rstrip(".,;:!?")
        url = _URL.fullmatch(piece)
        if url is not None and "@" not in piece and _LINK_ENDS.match(text, found.end()):
            yield _link(url)


def _link(url: re.Match[str]) -> str:
    """Return a web link without `www.` and a last slash; the path keeps its case, as servers distinguish it.

    It has no other scheme, no user and no backslash: with those, programs differ on the host.
    """
    scheme, rest = lowered(url.group("scheme") or ""), url.group("rest").removesuffix("/")
    return f"{scheme}:{lowered(url.group('host')).removeprefix('www.')}{rest}"


def keeps_case(text: str) -> bool:
    """Paths and keys depend on case; names and addresses do not."""
    return "/" in text or "\\" in text


def pointers(text: str) -> Iterator[str]:
    """Yield the addresses in *text*: mail addresses, links and their hosts, account and other long numbers."""
    for found in _POINTERS.finditer(text):
        piece = found.group().rstrip(".,;:!?")
        if _DATE.fullmatch(piece) or _FILE.fullmatch(lowered(piece)):
            continue
        yield piece
        url = _ANY_URL.fullmatch(piece)
        if url is not None and "@" not in piece and url.group("host") != piece:
            yield url.group("host")


def pointer_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the addresses in *text* begin and end."""
    return (found.span() for found in _POINTERS.finditer(text))


def is_pointers(text: str) -> bool:
    """Return whether *text* consists of addresses only."""
    return bool(text.strip()) and not _WORD.search(_POINTERS.sub(" ", text))


def is_one_address(text: str) -> bool:
    """Return whether *text* is one address and nothing else, however a program parts lists of them."""
    return is_pointers(text) and len(_POINTERS.findall(text)) == 1 and len(listed(text)) == 1


def listed(text: str) -> list[str]:
    """Return the items of a list of addresses."""
    return [item.strip() for item in _BETWEEN.split(text)]


def unhidden(text: str) -> str:
    """Return *text* in a form that reveals disguise: escapes read, no case, no accents, nothing between the letters."""
    return _letters(readings(text)[0])


@kept_if_short
def unhidden_forms(text: str) -> tuple[str, ...]:
    """Return the form of *text* that reveals disguise, and the one that takes no escape in it for one."""
    return tuple(dict.fromkeys(map(_letters, readings(text))))


def _letters(text: str) -> str:
    return "".join(_UNWORDED.sub("", part) for part in spoken_parts(text))


def without_scheme(text: str) -> str:
    """Return *text* without a prefix such as `https://www.` or `mailto:`."""
    return _SCHEME.sub("", text, count=1)


@kept_if_short
def words(text: str) -> frozenset[str]:
    """Return the words and numbers of *text* in revealed form, for values too short to be searched inside words."""
    found: set[str] = set()
    for reading in readings(text):
        for part in spoken_parts(reading):
            found.update(_WORD.findall(part))
            found.update(number_forms(part))
    return frozenset(found)


def revealed(value: object) -> frozenset[str]:
    """Return forms of *value* of which another spelling of it has one too; they are compared, never searched."""
    numbers = frozenset(form for form in same_forms(value) if form.startswith("n:"))
    if not isinstance(value, str):
        return numbers
    return numbers | {f"t:{letters}" for letters in needles(value)}


@kept_if_short
def needles(text: str) -> tuple[str, ...]:
    """Return the letters by which a text is found wherever it was seen; what has no letters is its own needle."""
    found = unhidden_forms(without_scheme(text))
    return tuple(filter(None, found if found[0] else (*unhidden_forms(text), *found))) or (text,)
