"""What a look at the queue counts doesn't grow with the queue."""

from collections import Counter
from dataclasses import replace

from towpath_orchestrator.core.admission_picker import (
    COUNT_ALL_EVERY_S,
    COUNTED_OFTEN,
    AdmissionLimits,
    AdmissionPicker,
    RunCounts,
)

MOST = 100_000


def picker() -> AdmissionPicker:
    of_project = {"project_active": 9, "project_queued": 90_000, "project_waiting": 90}
    return AdmissionPicker(AdmissionLimits(active=10, active_share=8, queued_share=80_000, waiting=100, **of_project))


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
    assert not found.may_start(("p", "a", "n"))  # it is queued, and counted here
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
    assert not found.may_start(("p", "a", "n"))


def test_a_project_leaves_room_to_others_however_many_callers_and_networks_it_has() -> None:
    found = picker()
    begun = [
        found.may_start(("p", caller, network)) for caller in ("a", "b") for network in ("m", "n") for _ in "12345"
    ]
    assert begun.count(True) == 9
    counts = replace(counted(0, whole=True), held=found.held.copy())
    found.stored()
    found.finish_count(found.begin_count(), counts)
    assert not found.may_start(("p", "c", "n"))
    found.stored()
    found.finish_count(found.begin_count(), counts)
    assert found.may_start(("other", "d", "n"))


def test_a_project_whose_runs_wait_for_people_starts_no_more_and_others_do() -> None:
    found = picker()
    counts = replace(counted(0, whole=True), waiting=91, project_waiting=Counter(p=90, other=1))
    found.finish_count(found.begin_count(), counts)
    assert not found.crowded
    assert found.crowded_projects == {"p"}
    assert not found.may_start(("p", "a", "n"))
    found.stored()
    found.finish_count(found.begin_count(), counts)
    assert found.may_start(("other", "d", "n"))
    assert found.may_start_child(("p", "a", "n"), takes_over=False)


def test_callers_of_a_project_that_fills_the_queue_are_refused_and_others_are_not() -> None:
    found = picker()
    counts = replace(counted(90_000, whole=True), queues=Counter(a=45_000, b=45_000), project_queues=Counter(p=90_000))
    for holder in (("p", "a", "n"), ("p", "c", "n"), ("other", "d", "n")):
        found.may_start(holder)
    found.stored()
    found.finish_count(found.begin_count(), counts)
    assert [found.is_queue_share_used(caller, 1) for caller in "acd"] == [True, True, False]
