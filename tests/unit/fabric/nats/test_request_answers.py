"""The answer cache of the request loop is bounded in number and in bytes."""

from uuid import UUID

from tests.support.decider.decisions import RUN
from tests.support.engine.machine import respond

from towpath_contracts.facts import DecisionMadeFact
from towpath_fabric.request_loop import ANSWER_BYTES_KEPT, ANSWERS_KEPT, AnswerCache


def made(number: int, chars: int) -> DecisionMadeFact:
    return DecisionMadeFact(run_id=RUN, request_id=UUID(int=number), attempt=1, decision=respond("x" * chars))


def test_kept_answers_are_bounded_in_number_and_in_bytes_and_the_newest_stays() -> None:
    assert (ANSWERS_KEPT, ANSWER_BYTES_KEPT) == (1_024, 32 * 1024 * 1024)
    kept = AnswerCache(max_answers=4, max_bytes=100_000)
    for number in range(9):
        kept.remember(made(number, 10))
    assert [number for number in range(9) if kept.get(UUID(int=number))] == [5, 6, 7, 8]
    kept.remember(made(8, 60_000))
    kept.remember(made(8, 70_000))
    assert kept.get(UUID(int=5)) is not None and 70_000 < kept.bytes < 75_000, "one answer counts once"
    kept.remember(made(9, 60_000))
    assert [number for number in range(10) if kept.get(UUID(int=number))] == [9] and kept.bytes < 61_000
    kept.remember(made(10, 200_000))
    assert kept.get(UUID(int=10)) is not None and kept.get(UUID(int=9)) is None
    kept.remember(made(11, 10))
    assert kept.get(UUID(int=10)) is None and kept.bytes < 1_000
