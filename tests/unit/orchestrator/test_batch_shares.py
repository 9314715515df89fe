"""Whose facts make a batch: all that wait where one caller is alone, few of each and in turns where several are."""

from collections import deque

from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_orchestrator.app.commit.inbox import ENOUGH, FEW, LATELY, RecentBatchSizes, RecentCallerShares


def caller(item: str) -> str:
    return item[0]


def test_everybodys_oldest_comes_first_and_what_is_left_keeps_its_order() -> None:
    waiting = deque(["a1", "a2", "a3", "a4", "b1", "a5", "b2", "c1"])
    assert take_in_turns(waiting, 7, 3, caller) == ["a1", "b1", "c1", "a2", "b2", "a3"], "no more than three of one"
    assert list(waiting) == ["a4", "a5"]
    assert take_in_turns(waiting, 7, 3, caller) == ["a4", "a5"]
    assert take_in_turns(waiting, 7, 3, caller) == []


def test_whoever_gets_no_place_is_in_front_the_next_time() -> None:
    waiting = deque(["a1", "a2", "b1", "c1", "d1"])
    assert take_in_turns(waiting, 2, 2, caller) == ["a1", "b1"]
    waiting.extend(["b2", "e1"])
    assert take_in_turns(waiting, 3, 2, caller) == ["a2", "c1", "d1"]


def test_a_caller_alone_has_whole_batches() -> None:
    shares = RecentCallerShares()
    assert shares.most_of_one(500) is None
    shares.note_batch(["a"] * 200)
    assert shares.most_of_one(500) is None


def test_a_batch_takes_few_of_each_for_as_long_as_several_come() -> None:
    shares = RecentCallerShares()
    shares.note_batch(["a", "b"])
    for _ in range(LATELY - 1):
        assert shares.most_of_one(100) == FEW
        shares.note_batch(["a"] * FEW)
    assert shares.most_of_one(100) == FEW, "b counts for as many batches as it takes to come back"
    shares.note_batch(["a"] * FEW)
    assert shares.most_of_one(100) is None


def test_what_waits_is_taken_within_a_known_number_of_batches() -> None:
    shares = RecentCallerShares()
    shares.note_batch(["a", "b"])
    most = shares.most_of_one(1_024)
    assert most == 64
    assert most * LATELY >= 1_024


def test_a_run_that_is_alone_waits_for_no_others() -> None:
    sizes = RecentBatchSizes()
    for _ in range(100):
        assert not sizes.should_gather(1)
        sizes.note_batch(1)


def test_small_batches_of_several_runs_wait_for_more_and_those_that_are_large_enough_do_not() -> None:
    sizes = RecentBatchSizes()
    for size in (4, 5, 6, 4, 5, 5, 4, 6):
        sizes.note_batch(size)
    assert sizes.should_gather(4) and sizes.should_gather(ENOUGH - 1)
    assert not sizes.should_gather(ENOUGH)
    for _ in range(3):
        sizes.note_batch(1)
    assert not sizes.should_gather(1), "the others have ended, or wait for people"
