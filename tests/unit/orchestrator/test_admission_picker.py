"""What a look at the queue counts doesn't grow with the queue."""

from collections import Counter

from towpath_orchestrator.core.admission_picker import (
    COUNT_ALL_EVERY_S,
    COUNTED_OFTEN,
    AdmissionLimits,
    AdmissionPicker,
    RunCounts,
)

MOST = 100_000


def picker() -> AdmissionPicker:
    return AdmissionPicker(AdmissionLimits(active=10, active_share=8, queued_share=80_000, waiting=100))


def counted(queued: int, *, whole: bool) -> RunCounts:
    return RunCounts(held=Counter(), queued=queued, queues=Counter(a=queued), waiting=0, whole=whole)


def test_a_long_queue_is_counted_to_its_end_once_in_a_while() -> None:
    found = picker()
    assert found.queued_to_count(MOST, 5.0) == MOST
    assert found.queued_to_count(MOST, 5.0 + COUNT_ALL_EVERY_S / 2) == COUNTED_OFTEN
    assert found.queued_to_count(MOST, 5.0 + COUNT_ALL_EVERY_S) == MOST
    assert found.queued_to_count(10, 5.0 + COUNT_ALL_EVERY_S) == 10


def test_what_was_counted_of_a_part_does_not_shorten_the_queue() -> None:
    found = picker()
    found.finish_count(found.begin_count(), counted(40_000, whole=True))
    assert not found.may_start(("a", "n"))  # it is queued, and counted here
    found.stored()
    found.finish_count(found.begin_count(), counted(COUNTED_OFTEN, whole=False))
    assert found.queued == 40_001
    assert found.queues == {"a": 40_001}
    found.finish_count(found.begin_count(), counted(3, whole=True))
    assert found.queued == 3
    assert found.queues == {"a": 3}


def test_a_part_shows_that_a_queue_became_long() -> None:
    found = picker()
    found.finish_count(found.begin_count(), counted(0, whole=True))
    found.finish_count(found.begin_count(), counted(COUNTED_OFTEN, whole=False))
    assert found.queued == COUNTED_OFTEN
    assert not found.may_start(("a", "n"))
