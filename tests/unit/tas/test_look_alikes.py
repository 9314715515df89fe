"""No letter is taken for another one where something is vouched for, whatever Unicode says about the two."""

import re
import string
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from tests.unit.tas.test_provenance import knowledge, seen

from towpath_tas.core.provenance import trusted_text, value_matching
from towpath_tas.core.provenance.trusted_text import TrustedText
from towpath_tas.core.provenance.value_matching import lowered, plain, same_forms, uppered, vouched_forms

ASCII = [chr(code) for code in range(128)]
VISIBLE = re.compile("[!-~]")
KEEPS_CASE = re.compile(r"(?<=[^/:]/).*")
SPOKEN = {
    "mail": "fisk@microsoft.com",
    "host": "bank.example/pay/Kim",
    "link": "https://bank.example/pay?k=1",
    "channel": "#ops-desk",
    "name": "Kim Fisk",
    "account": "GB29NWBK60161331926819",
    "phone": "+49 30 1234567",
    "number": "1250.75",
}


@cache  # not at import: every process of tests imports this
def foreign() -> list[str]:
    """Return all code points beyond ASCII."""
    return [chr(code) for code in range(128, sys.maxunicode + 1)]


def changed(change: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield every code point beyond ASCII that *change* makes something of that holds an ASCII one."""
    for one, other in zip(foreign(), change("\0".join(foreign())).split("\0"), strict=True):
        if other.isascii() or VISIBLE.search(other):
            yield one, other


def near() -> dict[str, str]:
    """Return every code point that some function of Unicode takes for ASCII ones, with these: letters, digits."""
    everything = "".join(foreign())
    found = dict.fromkeys(re.findall("[a-z0-9]", everything, re.IGNORECASE), "ksi")
    found |= {one: str(unicodedata.digit(one, "")) for one in re.findall(r"\d", everything)}
    for change in (str.lower, str.upper, str.casefold, nfc, nfkd, lambda text: nfkd(text).casefold()):
        for one, other in changed(change):
            found[one] = found.get(one, "") + other
    return found


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nfkd(text: str) -> str:
    return unicodedata.normalize("NFKD", text)


@cache
def others() -> dict[str, str]:
    """Return what is put in place of a letter, and the ASCII letters that it may be taken for."""
    kinds = {(unicodedata.category(one), one.isspace(), one.isalnum()): one for one in foreign()}
    return {**dict.fromkeys(kinds.values(), ""), **near(), **dict.fromkeys(ASCII, "")}


def replaced(value: str, other: str, like: str) -> Iterator[str]:
    """Yield *value* with one ASCII letter or digit replaced by *other*, unless that changes nothing that matters.

    One that is *like* no letter of the value replaces its last one, one of ASCII each of them.
    """
    exact = KEEPS_CASE.search(value)
    places = [place for place, letter in enumerate(value) if letter.isalnum()]
    close = [place for place in places if other.isascii() or value[place].casefold() in like.casefold()]
    for place in close or places[-1:]:
        letter = value[place]
        if letter != other and (letter.swapcase() != other or (exact and exact.start() <= place)):
            yield value[:place] + other + value[place + 1 :]


@pytest.mark.parametrize("kind", SPOKEN)
def test_a_text_vouches_for_no_value_with_another_letter(kind: str) -> None:
    text, forms = TrustedText(f"Please use {SPOKEN[kind]} for this."), vouched_forms(SPOKEN[kind])
    assert text.holds(SPOKEN[kind])
    assert not forms.isdisjoint(same_forms(SPOKEN[kind]))
    for other, like in others().items():
        for value in replaced(SPOKEN[kind], other, like):
            assert not text.holds(value, named=True), ascii(value)
            assert forms.isdisjoint(same_forms(value)), ascii(value)


def test_no_code_point_becomes_an_ascii_one_or_changes_its_case() -> None:
    """All code points at once, beside one of ASCII and alone: what the comparison is made of folds none of them."""
    everything = "".join([*ASCII, *foreign()])
    for change in (lowered, uppered, plain):
        assert not VISIBLE.search(change("\0".join(foreign()))), change
    assert lowered(everything) == everything.replace(string.ascii_uppercase, string.ascii_lowercase)
    assert uppered(everything) == everything.replace(string.ascii_lowercase, string.ascii_uppercase)


def test_patterns_that_vouch_read_ascii_digits_and_letters_only() -> None:
    everything = "".join(foreign())
    for module in (value_matching, trusted_text):
        for name in ("_NUMBER", "_ONE_NUMBER", "_ACCOUNT", "_CHAIN", "_SHORT_FORM"):
            pattern = getattr(module, name, None)
            assert pattern is None or not pattern.flags & re.IGNORECASE
            assert pattern is None or not pattern.search(everything), name
    assert not any(value_matching._URL.fullmatch(f"h{one}tp://bank.example") for one in others() if one not in "tT")
    assert not any(value_matching.phone(f"+49 30 123456{one}") for one in others() if not one.isascii())


@pytest.mark.parametrize(
    ("said", "same", "other"),
    [
        ("https://Bank.example/pay", ("https://bank.example/pay/", "bank.example/pay"), ("http://bank.example/pay",)),
        ("bank.example/pay", ("https://bank.example/pay", "www.bank.example/pay"), ("http://bank.example/pay",)),
        ("http://bank.example/pay", ("https://bank.example/pay", "HTTP://bank.example/pay", "bank.example/pay"), ()),
        ("bank.example:8443/a", (), ("bank.example/a", "http://bank.example:8443/a")),
        ("bank.example/@Ann", ("bank.example/@Ann",), ("bank.example/@ann",)),
    ],
)
def test_scheme_host_and_path_of_a_link_are_compared_apart(
    said: str, same: tuple[str, ...], other: tuple[str, ...]
) -> None:
    never = ("ftp://bank.example/pay", "https://bank.example:444/pay", "https://eve@bank.example/pay", "//bank.example")
    for known, word in ((knowledge(f"Open {said}, please"), "task"), (knowledge(trusted=[said]), "record")):
        assert [seen(known, to=[one])["sinks"] for one in (said, *same)] == [[word]] * (1 + len(same))
        for one in (*other, *never, "https://bank.example/Pay", "https://bank.example/pa"):
            assert seen(known, to=[one])["worst_sink"] in {"unknown", "untrusted"}, one


def test_a_short_number_is_no_better_a_destination_in_another_spelling() -> None:
    known = knowledge("What happens on June 13? Then delete file 14.")
    assert {seen(known, to=[one])["worst_sink"] for one in (13, 13.0, "13.0", "+13", "013")} == {"unknown"}
    assert {seen(known, to=[one])["worst_sink"] for one in (14, 14.0, "14")} == {"task"}


def test_a_host_that_goes_on_in_another_script_vouches_for_no_shorter_one() -> None:
    assert seen(knowledge("see foo.co\u043c"), to=["foo.co"])["worst_sink"] == "unknown"
