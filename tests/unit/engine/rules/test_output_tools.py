"""Parts of outputs and searches in them: what is read in a row is the whole text, and answers stay small."""

import time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.tools.internal_tools import MAX_OUTPUT_READ
from towpath_engine.rules.output_tools import (
    LEAST_ROOM,
    StoredOutput,
    apply_output_tool,
    part_of_output,
)
from towpath_engine.rules.tool_result import ContentMissingError, InternalToolError
from towpath_engine.state.limits import json_bytes

ID = str(UUID(int=7))


def ask(tool: str, whole: str, context_limit: int = 32_768, **args: Any) -> Any:
    stored = StoredOutput(tool="page.read", step=3, status="succeeded", data=whole.encode())
    asked = {"execution_id": ID, **args}
    return apply_output_tool(tool, asked, part_of_output(tool, asked, stored, context_limit)).result


def read(text: str, **args: Any) -> Any:
    return ask("output_read", text, **args)


def search(text: str, wanted: str, **args: Any) -> Any:
    return ask("output_search", text, text=wanted, **args)


TEXTS = st.text(st.sampled_from('aBé€😀\n"\x00'), max_size=80)


@given(TEXTS, st.integers(1, 40), st.integers(0, 3_000))
def test_parts_that_are_read_in_a_row_are_the_whole_text(text: str, limit: int, context_limit: int) -> None:
    found, offset = [], 0
    while offset is not None:
        part = read(text, limit=limit, offset=offset, context_limit=context_limit)
        assert part["offset"] == offset and part["bytes"] == len(text.encode())
        assert len(part["text"].encode()) <= max(limit, 4) and (part["text"] or not text)
        found.append(part["text"])
        offset = part["next_offset"]
    assert "".join(found) == text


@given(TEXTS, st.integers(0, 200))
def test_a_part_begins_with_the_character_at_its_offset(text: str, offset: int) -> None:
    data = text.encode()
    if offset > len(data):
        with pytest.raises(InternalToolError) as raised:
            read(text, offset=offset)
        assert raised.value.code == "offset_unknown"
        return
    part = read(text, offset=offset)
    assert data[part["offset"] :].decode() == part["text"] and offset - 3 <= part["offset"] <= offset


def test_an_answer_fits_into_the_context_whole_whatever_it_holds() -> None:
    for text in ("x" * 90_000, "\x00" * 90_000, '"' * 90_000, "€" * 90_000):
        for limit in (0, 5_000, 32_768):
            for part in (
                read(text, limit=MAX_OUTPUT_READ, context_limit=limit),
                search(text, text[:2], context_limit=limit),
            ):
                assert json_bytes(part) <= max(limit, LEAST_ROOM + 500) and part["next_offset"] is not None


@given(TEXTS, st.text(st.sampled_from("abBé€"), min_size=1, max_size=3), st.booleans(), st.integers(1, 5))
def test_every_match_is_found_once_where_it_is(text: str, wanted: str, ignore: bool, most: int) -> None:
    found: list[int] = []
    offset = 0
    while offset is not None:
        answer = search(text, wanted, ignore_case=ignore, offset=offset, max_matches=most)
        assert len(answer["matches"]) <= most
        for match in answer["matches"]:
            at = text.encode()[match["offset"] :].decode()[: len(wanted)]
            assert (at.lower() == wanted.lower()) if ignore else at == wanted
            assert at in match["text"]
        found += [match["offset"] for match in answer["matches"]]
        offset = answer["next_offset"]
    assert len(found) == (text.lower().count(wanted.lower()) if ignore else text.count(wanted))
    assert found == sorted(set(found))


def test_a_search_takes_time_in_proportion_to_the_text() -> None:
    began = time.process_time()
    for text in ("a" * 4_000_000, "é" + "a" * 4_000_000, "İ" * 2_000_000):
        for ignore in (True, False):
            assert search(text, "a" * 500 + "b", ignore_case=ignore)["matches"] == []
    assert time.process_time() - began < 5


def test_a_letter_that_has_two_in_lower_case_counts_as_one() -> None:
    letters = "".join(map(chr, range(0x110000)))
    assert [letter for letter in letters if len(letter.lower()) != 1] == ["İ"]
    (match,) = search("é in İZMİR", "izmir", ignore_case=True)["matches"]
    assert match["offset"] == len("é in ".encode())


def test_who_returned_the_output_is_said() -> None:
    part = read("hello")
    assert part == {
        "execution_id": ID,
        "tool": "page.read",
        "step": 3,
        "status": "succeeded",
        "bytes": 5,
        "offset": 0,
        "next_offset": None,
        "text": "hello",
    }


@pytest.mark.parametrize(
    "args", [{}, {"execution_id": "7"}, {"execution_id": ID, "offset": -1}, {"execution_id": ID, "limit": 48_001}]
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(InternalToolError) as raised:
        apply_output_tool("output_read", args, None)
    assert raised.value.code == "arguments_invalid"


def test_what_the_run_does_not_have_is_refused_and_what_did_not_come_is_asked_for_again() -> None:
    with pytest.raises(InternalToolError) as raised:
        apply_output_tool("output_read", {"execution_id": ID}, part_of_output("output_read", {}, None, 1_000))
    assert raised.value.code == "output_unknown"
    with pytest.raises(ContentMissingError):
        apply_output_tool("output_read", {"execution_id": ID}, None)
