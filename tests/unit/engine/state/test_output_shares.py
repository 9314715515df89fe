"""What prompts show of outputs: newest first, fair within a step, and never more than the context limit."""

from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from towpath_contracts.decisions.request import CutOutput, FullToolOutput
from towpath_contracts.tools.previews import OutputPreview, text_bytes
from towpath_engine.state.output_shares import (
    LEAST_SHOWN,
    cut_output,
    cut_text,
    divide_outputs,
    fair_shares,
    shown_values,
)

ID = UUID(int=7)


def output(text: str, step: int = 1, number: int = 1) -> FullToolOutput:
    return FullToolOutput(execution_id=UUID(int=number), tool="t", step=step, status="succeeded", text=text)


SIZES = st.lists(st.integers(0, 50_000), max_size=12)


@given(SIZES, st.integers(0, 100_000))
def test_shares_are_max_min_fair(sizes: list[int], room: int) -> None:
    shares = fair_shares(sizes, room)
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= room or not sizes
    if sum(sizes) <= room:
        assert shares == sizes
        return
    assert room - sum(shares) < len(sizes), "nothing is wasted but what can't be divided"
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert max(cut) - min(cut) <= 1, "those that are cut have the same"
    assert all(share <= max(cut) + 1 for share in shares), "nobody has more than one that is cut"


TEXTS = st.lists(
    st.tuples(st.integers(1, 4), st.text(st.sampled_from("aé€😀"), min_size=0, max_size=12), st.integers(1, 400)),
    max_size=8,
)


@given(TEXTS, st.integers(0, 8_000))
def test_outputs_never_exceed_the_limit_and_show_how_they_begin_and_end(
    drawn: list[tuple[int, str, int]], limit: int
) -> None:
    made = [(step, text * times) for step, text, times in sorted(drawn, key=lambda one: -one[0])]
    outputs = [output(text, step, number) for number, (step, text) in enumerate(made)]
    shown, hidden, size = divide_outputs(outputs, limit)
    assert sum(text_bytes(one.text) for one in shown) == size <= limit
    assert sorted(one.execution_id for one in (*shown, *hidden)) == sorted(one.execution_id for one in outputs)
    for one in shown:
        one.text.encode()  # no half character
        whole = made[one.execution_id.int][1]
        if one.cut is None:
            assert one.text == whole
            continue
        tail = one.text[len(one.text) - one.cut.tail_chars :]
        assert one.text.startswith(whole[: one.cut.head_chars]) and whole.endswith(tail)
        assert f"of {one.cut.size} bytes" in one.text and str(one.execution_id) in one.text
        assert one.cut.size == len(whole.encode())


@given(TEXTS, st.integers(0, 8_000), st.integers(0, 8_000))
@example([(1, "aéaé", 51)], 0, 301)
@example([(1, "éaaé€", 34)], 0, 301)
def test_what_is_cut_twice_shows_as_much_as_what_is_cut_at_once(
    drawn: list[tuple[int, str, int]], first: int, second: int
) -> None:
    for _, text, times in drawn:
        one = output(text * times)
        most, least = max(first, second, LEAST_SHOWN), max(min(first, second), LEAST_SHOWN)
        twice = cut_output(cut_output(one, most), least)
        assert text_bytes(twice.text) <= max(least, 0) or twice.cut is None
        assert twice.text.count("bytes are shown") <= 1
        once = cut_output(one, least)
        assert (twice.cut is None) == (once.cut is None)
        assert abs(text_bytes(twice.text) - text_bytes(once.text)) < 8, "but for a character at either cut"
        if twice.cut is not None:
            tail = twice.text[len(twice.text) - twice.cut.tail_chars :]
            assert one.text.startswith(twice.text[: twice.cut.head_chars]) and one.text.endswith(tail)


def test_two_large_results_of_one_step_have_the_same_room() -> None:
    shown, hidden, size = divide_outputs([output("a" * 20_000, 1, 1), output("b" * 20_000, 1, 2)], 32_768)
    assert [text_bytes(one.text) for one in shown] == [16_384, 16_384]
    assert (hidden, size) == ([], 32_768)


def test_a_small_result_beside_a_large_one_is_whole() -> None:
    shown, _, _ = divide_outputs([output("a" * 90_000, 1, 1), output("small", 1, 2)], 32_768)
    assert (text_bytes(shown[0].text), shown[1].text) == (32_768 - 5, "small")


def test_an_earlier_step_has_what_the_newest_one_leaves() -> None:
    shown, hidden, _ = divide_outputs(
        [output("n" * 1_000, 3, 3), output("o" * 5_000, 2, 2), output("x" * 9, 1, 1)], 2_000
    )
    assert [text_bytes(one.text) for one in shown] == [1_000, 990, 9]
    shown, hidden, _ = divide_outputs([output("n" * 1_000, 3, 3), output("o" * 5_000, 2, 2), output("x", 1, 1)], 1_200)
    assert [one.execution_id.int for one in shown] == [3]
    assert [one.execution_id.int for one in hidden] == [2, 1], "nothing older has room where something has none"


def test_a_large_result_does_not_take_small_older_ones_away() -> None:
    older = [output("o" * 300, step, step) for step in (3, 2, 1)]
    shown, hidden, size = divide_outputs([output("n" * 90_000, 4, 4), *older], 32_768)
    assert ([text_bytes(one.text) for one in shown[1:]], hidden, size) == ([300] * 3, [], 32_768)
    larger = [output("o" * 9_000, 3, 3), *older[1:]]
    shown, hidden, _ = divide_outputs([output("n" * 90_000, 4, 4), *larger], 32_768)
    assert text_bytes(shown[0].text) == 32_768 * 3 // 4, "it leaves a quarter, and no more"
    assert [text_bytes(one.text) for one in shown[1:]] == [8_192 - 600, 300, 300]


def test_of_too_many_results_in_one_step_the_first_have_previews() -> None:
    shown, hidden, _ = divide_outputs([output("a" * 5_000, 1, number) for number in range(10)], 1_000)
    assert [one.execution_id.int for one in shown] == [0, 1, 2]
    assert [one.execution_id.int for one in hidden] == [3, 4, 5, 6, 7, 8, 9]


def test_a_result_in_the_blob_store_is_shown_by_the_preview_that_was_recorded() -> None:
    preview = OutputPreview(head="h" * 600, tail="t" * 200, size=300_000)
    text, cut = cut_text(preview, 200_000, ID)
    assert text.startswith("h" * 600 + "\n[… 800 of 300000 bytes") and text.endswith("]\n" + "t" * 200)
    assert cut == CutOutput(size=300_000, head_chars=600, tail_chars=200)


def test_a_result_without_a_recorded_preview_is_named() -> None:
    text, _ = cut_text(OutputPreview(size=70_000), 32_768, ID)
    assert text.startswith("\n[… 0 of 70000 bytes") and str(ID) in text


def test_values_that_fit_together_stay_what_they_are() -> None:
    values = [(ID, {"a": 1}), (ID, "x" * 100)]
    assert shown_values(values, 1_000) == [{"a": 1}, "x" * 100]
    cut = shown_values([(ID, {"a": "y" * 5_000}), (ID, None)], 1_000)
    assert text_bytes(cut[0]) <= 1_000 and cut[0].startswith('{"a":"yyy') and cut[1] is None
