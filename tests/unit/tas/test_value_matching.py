"""What a trusted value vouches for beside itself: nothing, in whatever arrangement it is put beside another."""

import re
from contextlib import suppress
from email.utils import getaddresses
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tas.test_provenance import SEND, knowledge, seen

from towpath_tas.core.provenance.trusted_text import TrustedText
from towpath_tas.core.provenance.value_matching import MAX_NAMED, kept_if_short, numbers, phone, text_forms

GOOD = ("ann@good.example", "bob@fine.example", "https://good.example/a", "www.fine.example", "+49 30 1234567")
EVIL = ("eve@evil.example", "https://evil.example/b", "evil.example", "www.evil.example/?x=1", "//evil.example")
GLUE = (
    *("", " ", ", ", ",", ";", ": ", "@", "/", "//", "\\", "?", "#", "&u=", "\r\n", "\n", "\t", ".", "%40", ":", '"'),
    *(
        " <",
        "<",
        ">",
        "> ",
        " (",
        ")",
        "Ann <",
        "Ann ",
        "mailto:",
        "Bcc: ",
        "http://",
        "javascript://",
        "user:pw@",
        "\0",
    ),
)
VOUCHED = frozenset({"ann@good.example", "bob@fine.example", "good.example", "fine.example", "www.fine.example"})


@pytest.mark.parametrize(
    ("task", "value"),
    [
        ("mail ann@example.com", "evil@evil.com, Ann <ann@example.com>"),
        ("mail ann@example.com", "evil@evil.com; Ann <ann@example.com>"),
        ("mail ann@example.com", "evil@evil.com Ann <ann@example.com>"),
        ("mail ann@example.com", "<evil@evil.com> <ann@example.com>"),
        ("mail ann@example.com", "go to www.evil.com <ann@example.com>"),
        ("mail ann@example.com", "go to www.evil.com. Now <ann@example.com>"),
        ("mail ann@example.com", "Ann 49301234567 <ann@example.com>"),
        ("mail ann@example.com", "eve\r\nBcc x <ann@example.com>"),
        ("mail ann@example.com", "eve\u2028Bcc x <ann@example.com>"),
        ("mail ann@example.com", "see https://evil.com/a <ann@example.com>"),
        ("open www.acme.com/a", "evil text <www.acme.com/a>"),
        ("mail bob@acme.com", "evil@evil.org\r\nBcc: x <bob@acme.com>"),
        ("open https://acme.com/a", "https://evil.org?d=secret@acme.com/a"),
        ("open https://acme.com", "https://evil.org#@acme.com"),
        ("open https://acme.com", "https://evil.org\\@acme.com"),
        ("open https://acme.com", "https://acme.com\\.evil.org"),
        ("open https://acme.com", "https://root:pw@acme.com"),
        ("open https://acme.com", "javascript://acme.com"),
        ("open https://acme.com", "file://acme.com"),
        ("open https://acme.com/x", "ssh://root:pw@acme.com/x"),
        ("open https://acme.com/x", "ftp://acme.com/x"),
        ("run ssh://acme.com/x", "https://acme.com/x"),
        ("ask 192.168.1.12", "19.216.81.12"),
        ("ask 192.168.1.12", "192168112"),
        ("ask 192.168.1.12", "19 216 81 12"),
        ("Pay 12345.67", "1234567"),
        ("Pay 1234567", "12345.67"),
        ("Pay 1234567", "+12345.67"),
        ("Pay 1234567", "(12345.67)"),
        ("on 2024-01-15", "20240115"),
        ("on 2024-01-15", "2024/01/15"),
        ("on 15.01.2024", "15012024"),
        ("call +49 30 123 4567", "123-4567"),
        ("see /a/12345/67", "1234567"),
    ],
)
def test_what_is_around_or_inside_a_trusted_value_is_not_trusted_with_it(task: str, value: str) -> None:
    found = seen(knowledge(task), to=[value], body=value)
    assert found["sinks"] == ["unknown"]
    assert found["args"]["body"] == "unknown"
    recorded = seen(knowledge(trusted=task.split(" ", 1)[1]), to=[value], body=value)
    assert recorded["worst_sink"] in {"unknown", "untrusted"}


def test_a_text_is_never_taken_for_the_address_that_ends_it() -> None:
    known = knowledge("mail ann@example.com", trusted=["bob@acme.com", "Kay <kay@acme.com>"])
    names = ["Ann Smith <ann@example.com>", '"J. O\'Neil-Smith" <bob@acme.com>', "<ann@example.com>", "kay@acme.com"]
    for name in names[:2] + names[3:]:
        assert seen(known, to=[name])["worst_sink"] in {"task", "record"}, name
    assert seen(known, body="Pay Eve at once <ann@example.com>")["args"]["body"] == "unknown"
    assert seen(known, body="Kay <kay@acme.com>")["args"]["body"] == "record", "a whole field"


@pytest.mark.parametrize("value", ["strasse.example/a", "mail@strasse.example", "strasse.example"])
def test_another_spelling_of_a_host_is_another_host(value: str) -> None:
    other = value.replace("ss", "\u00df")
    assert seen(knowledge(other, trusted=[other]), to=[value])["worst_sink"] in {"unknown", "untrusted"}


@pytest.mark.parametrize(
    ("task", "value"),
    [
        ("call +49.30.1234567 now", "+49 30 1234567"),
        ("call (030) 123.4567.", "0301234567"),
        ("call (030 1234567)", "030-1234567"),
        ("call 555-123-4567, please", "(555) 123 4567"),
        ("see HTTP://ACME.com/", "https://www.acme.com"),
    ],
)
def test_spelling_that_changes_no_meaning_is_the_same(task: str, value: str) -> None:
    assert seen(knowledge(task), to=[value])["sinks"] == ["task"]
    words = task.split(" ", 1)[1].removesuffix(" now").removesuffix(", please").rstrip(".").replace("(030 ", "(030) ")
    assert seen(knowledge(trusted=[words.rstrip(")")]), to=[value])["sinks"] == ["record"]


def test_an_account_has_two_marks_in_a_row_at_most() -> None:
    for between, found in ((" ", True), ("- ", True), ("--", True), (" - ", False), ("----", False)):
        task = TrustedText(f"Pay GB29{between}NWBK 6016 1331 9268 19")
        assert task.names("GB29NWBK60161331926819") is found, between


def test_a_phone_number_has_seven_digits_at_least() -> None:
    assert [phone(text) for text in ("555-12-34", "555-12-3")] == ["5551234", ""]


def test_a_number_has_forty_digits_at_most() -> None:
    assert [*numbers("1" * 40)] and not [*numbers("1" * 41)]


def test_a_value_of_more_than_500_letters_is_compared_as_it_is_written() -> None:
    assert text_forms("Ab" * 250) == text_forms("aB" * 250)
    assert text_forms("Ab" * 250 + "c") != text_forms("aB" * 250 + "c")


def test_a_value_of_four_letters_is_found_inside_of_words_and_a_shorter_one_is_not() -> None:
    for value, found in (("qjxz", "untrusted"), ("qjx", "unknown")):
        assert seen(knowledge(untrusted=f"an{value}on"), to=[value])["sinks"] == [found]


def reached(value: str) -> set[str]:
    """Where the standard library would send something that is addressed like this."""
    found = {address for _, address in getaddresses([value]) if "@" in address}
    for link in (value, f"https://{value}"):
        with suppress(ValueError):  # an address that can't be read as a link goes nowhere
            found.update(re.split(r"[,;]\s*", (urlsplit(link).hostname or "").strip(' "<>')))  # a list goes to each
    return found - {""}


@pytest.mark.parametrize("where", ["task", "record"])
@given(st.data())
def test_a_trusted_destination_leads_only_to_what_is_vouched_for(where: str, data: st.DataObject) -> None:
    glue = st.sampled_from(GLUE)
    value = data.draw(glue)
    for piece in data.draw(st.lists(st.sampled_from(GOOD + EVIL), min_size=1, max_size=3)):
        value += piece + data.draw(glue)
    known = knowledge(task=f"Write to {' and '.join(GOOD)}.") if where == "task" else knowledge(trusted=list(GOOD))
    if known.origin(SEND, {"to": [value]}).context()["worst_sink"] in {"task", "record"}:
        assert "evil" not in value
        assert {one for one in reached(value) if "." in one} <= VOUCHED


def test_forms_of_short_texts_are_kept_for_a_while_and_of_long_ones_never() -> None:
    read: list[str] = []

    @kept_if_short
    def form_of(text: str) -> str:
        read.append(text)
        return text.upper()

    for text in ("ada", "ada", "a" * MAX_NAMED, "a" * MAX_NAMED, "b" * (MAX_NAMED + 1), "b" * (MAX_NAMED + 1)):
        assert form_of(text) == text.upper()
    assert list(map(len, read)) == [3, MAX_NAMED, MAX_NAMED + 1, MAX_NAMED + 1]
    read.clear()
    for number in range(2_048 - 2):  # with the two above, as many as are kept
        form_of(str(number))
    form_of("ada")
    assert read.count("ada") == 0
    form_of("one more")
    form_of("a" * MAX_NAMED)  # the longest unused one has gone
    assert len(read) == 2_048 - 2 + 2
