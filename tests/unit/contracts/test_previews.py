"""Previews: never longer than they may be, cut between characters, and of a short text all of it.

The text of a stored result is what a string says, and of any other JSON its letters.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.text import stored_text
from towpath_contracts.tools.previews import (
    CARRIED_BYTES,
    OutputPreview,
    first_bytes,
    last_bytes,
    preview_of,
    recorded_preview,
    text_bytes,
)

TEXTS = st.text(st.sampled_from('aé€😀\n"\x00'), max_size=60)


@given(TEXTS, st.integers(0, 300))
def test_a_preview_has_at_most_the_bytes_that_it_may_have(text: str, most: int) -> None:
    preview = preview_of(text, most)
    assert text_bytes(preview.head) + text_bytes(preview.tail) <= most or preview.head == text
    assert preview.size == len(text.encode())
    assert text.startswith(preview.head) and text.endswith(preview.tail)


@given(TEXTS, st.integers(0, 300))
def test_the_beginning_and_the_end_are_the_longest_that_fit(text: str, most: int) -> None:
    fitting = [text[:end] for end in range(len(text) + 1) if len(text[:end].encode()) <= most]
    assert first_bytes(text, most) == max(fitting, key=len)
    ends = [text[start:] for start in range(len(text) + 1) if len(text[start:].encode()) <= most]
    assert last_bytes(text, most) == max(ends, key=len)


@given(TEXTS)
def test_a_text_that_is_short_enough_is_its_own_preview(text: str) -> None:
    preview = preview_of(text)
    assert (preview.text, preview.tail) == (text, "")


def test_a_long_text_is_shown_by_three_quarters_of_its_beginning_and_one_of_its_end() -> None:
    preview = preview_of("a" * 900 + "z" * 100, 400)
    assert (len(preview.head), len(preview.tail), preview.size) == (300, 100, 1_000)
    assert preview.text == "a" * 300 + "\n…\n" + "z" * 100


@pytest.mark.parametrize("text", ["x" * 90_000, '"' * 90_000, "\x00" * 90_000, "\x01é" * 50_000, "\x00" * 30_000])
def test_a_recorded_preview_is_carried_whatever_it_holds(text: str) -> None:
    preview = recorded_preview(text)
    assert preview.is_carried and len(preview.model_dump_json().encode()) <= CARRIED_BYTES + 60
    assert preview.size == len(text.encode()) and len(preview.head.encode()) > 10_000
    assert not OutputPreview(head="\x00" * 40_000).is_carried


@pytest.mark.parametrize(
    ("data", "text", "is_text"),
    [
        (b'"caf\xc3\xa9 \\u00e9\\n"', "café é\n", True),
        (b'{"a": [1.50, 1.50]}', '{"a": [1.50, 1.50]}', False),
        (b'{"a":1,"a":2}', '{"a":1,"a":2}', False),
        (b'"no end', '"no end', True),
        (b'"one" "two"', '"one" "two"', True),
        (b"\xff is no UTF-8", "\ufffd is no UTF-8", False),
        (b"", "", False),
    ],
)
def test_whatever_a_worker_has_stored_has_a_text(data: bytes, text: str, *, is_text: bool) -> None:
    assert stored_text(data) == (text, is_text)
