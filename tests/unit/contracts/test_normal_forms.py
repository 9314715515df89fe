"""Unicode normal forms: those of the library, in a time that grows with the length of a text."""

import time
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.networks.background import ascii_text
from towpath_contracts.text import NORMALIZED_AT_ONCE, normalized

FORMS: tuple[Literal["NFC", "NFKC", "NFKD"], ...] = ("NFC", "NFKC", "NFKD")
LETTERS = "ab é漢かｶहकﬁ①가각\u1100ㄱ\uffa1"
JOINING = "\u0301\u0315\u0316\u0323\u1161\u11a8\u3099\uff9e\u093f\u094d\u0f73\u0f71\u09c7\u09beㅏㄳ\uffc2"

MOST = NORMALIZED_AT_ONCE - 1
MARKS = st.text(st.sampled_from(JOINING), max_size=5) | st.text(st.sampled_from("\u0301\u0315\u0316"), max_size=MOST)
WORDS = st.lists(st.tuples(st.sampled_from(LETTERS), MARKS), max_size=80)


@given(WORDS)
def test_a_text_of_letters_has_the_form_that_the_library_gives_it(words: list[tuple[str, str]]) -> None:
    text = "".join(letter + marks for letter, marks in words)
    for form in FORMS:
        assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("before", range(NORMALIZED_AT_ONCE + 1))
def test_as_many_marks_as_are_put_in_order_at_once_are_in_order_wherever_they_stand(before: int) -> None:
    marks = "\u0315\u0316" * MOST
    for form in FORMS:
        for text in ("a" * before + "e" + marks[: MOST - 1] + "\u0301", "a" * before + "\u3131\u314f" * MOST):
            assert normalized(form, text) == unicodedata.normalize(form, text)


@given(st.text(st.sampled_from(f"{LETTERS}{JOINING}"), max_size=200))
def test_a_text_means_what_it_meant_so_texts_that_mean_different_things_stay_different(text: str) -> None:
    assert unicodedata.normalize("NFC", normalized("NFC", text)) == unicodedata.normalize("NFC", text)
    assert unicodedata.normalize("NFKD", normalized("NFKC", text)) == unicodedata.normalize("NFKD", text)


@pytest.mark.parametrize("marks", ["\u0315\u0316", "\u0f73", "\u0345\u0334"])
def test_a_letter_with_marks_without_end_takes_little(marks: str) -> None:
    text = "a" + marks * (200_000 // len(marks))
    began = time.thread_time()
    assert unicodedata.normalize("NFD", normalized("NFC", text[:20])) == unicodedata.normalize("NFD", text[:20])
    assert len(normalized("NFC", text)) >= len(text)
    assert ascii_text(text) == "a"
    assert time.thread_time() - began < 5  # the library alone takes half a minute for each
