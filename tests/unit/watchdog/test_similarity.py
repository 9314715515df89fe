"""When two calls are other words for the same thing, and when they name different things of a list."""

from typing import Any

import pytest

from towpath_watchdog.core.similarity import leaves, rephrased

WORDS = ["invoice", "acme", "march", "paid"]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (WORDS, WORDS[::-1], True),
        (WORDS, [*WORDS[2:], *WORDS[:2]], True),
        (WORDS, ["Paid", "march", "ACME", "invoice"], True),
        (WORDS, [*WORDS, "please"], True),
        (["acme", "please", "paid"], ["paid", "acme"], True),
        (["paid"], ["paid", "acme"], False),  # twice as much is asked for
        (WORDS, ["invoice", "acme", "april", "paid"], False),  # another entry in the place of one
        (["a.txt", "b.txt", "c.txt"], ["c.txt", "a.txt", "b.txt"], True),
        (["a.txt", "b.txt", "c.txt"], ["b.txt", "c.txt", "d.txt"], False),  # work on a list, some at a time
        (["a.txt", "b.txt", "c.txt"], ["a.txt", "b.txt", "c.txt", "d.txt"], False),  # no plain word was added
        ([1, 2, 3], [3, 2, 1], True),
        ([1, 2, 3], [2, 3, 4], False),
        (["bill of acme for march"], ["the bill of acme for march"], True),  # texts are compared in their places
        ([{"name": "acme"}, {"name": "bolt"}], [{"name": "bolt"}, {"name": "acme"}], False),  # no list of words
        ([], ["paid"], False),
        (["paid", ["acme", "march"]], ["paid", ["march", "acme"]], True),
    ],
)
def test_c6_lists_are_alike_where_their_entries_are(one: list[Any], other: list[Any], alike: bool) -> None:
    for left, right in ((one, other), (other, one)):
        assert rephrased(leaves({"words": left, "in": "notes"}), leaves({"words": right, "in": "notes"})) is alike


def test_c6_another_argument_that_names_another_thing_counts_beside_a_list() -> None:
    left, right = {"words": WORDS, "year": "2025"}, {"words": WORDS[::-1], "year": "2026"}
    assert not rephrased(leaves(left), leaves(right))


def test_c6_each_list_of_a_call_has_to_be_alike() -> None:
    left, right = {"words": WORDS, "not": ["draft", "old"]}, {"words": WORDS[::-1], "not": ["draft", "void"]}
    assert not rephrased(leaves(left), leaves(right))
    assert rephrased(leaves(left), leaves({**right, "not": ["old", "draft"]}))
