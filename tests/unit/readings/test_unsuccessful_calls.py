"""How many calls of a run were refused and have failed is said in a sentence each."""

from towpath_readings.unsuccessful_calls import summaries_of_unsuccessful


def test_nothing_is_said_where_all_calls_succeeded() -> None:
    assert summaries_of_unsuccessful([], []) == []


def test_the_first_of_each_kind_is_told_and_the_others_are_counted() -> None:
    assert summaries_of_unsuccessful(["a: no"], ["b: broke", "c: broke"]) == [
        "1 call was refused: a: no",
        "2 calls failed, first: b: broke",
    ]
    assert summaries_of_unsuccessful(["a: no", "d: no"], []) == ["2 calls were refused, first: a: no"]
    assert summaries_of_unsuccessful([], ["b: broke"]) == ["1 call failed: b: broke"]
