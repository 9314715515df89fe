"""A call moves from one state to the next as calls do: one that has ended, or that waits, is not started."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.audit.test_sealed_calls import (
    AGAIN,
    ALLOW,
    ASK,
    CLAIM,
    CONSUMED,
    DENY,
    DONE,
    FAILED,
    HAPPENED,
    HELD,
    RETRY,
    UNKNOWN,
    payload,
    place,
)

from towpath_audit.sealed_calls import SealedCalls
from towpath_audit.sealed_states import SealedStates

VOID, VOTE, REPEATED = "outcome void", "approval.approved approved", "dispatch repeated"


def told(
    kinds: list[str],
    order: list[int] | None = None,
    details: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    partial: bool = False,
) -> list[int | None]:
    """Return which of the entries, by their places, can't follow from those before; *details* are by kind."""
    states, calls = SealedStates(partial=partial), SealedCalls()
    for number in order or range(len(kinds)):
        entry = place(number, kinds[number])
        states.on_entry(number, number, entry.entry)
        calls.on_entry(entry, payload("", **(details or {}).get(kinds[number], {})))
    faults = [*states.finish(calls)]
    assert {fault.code for fault in faults} <= {"call_state_changed"}
    return [fault.entry_id for fault in faults]


@pytest.mark.parametrize(
    "kinds",
    [
        [ALLOW, CLAIM, DONE],
        [ALLOW, CLAIM, CLAIM, FAILED],
        [ALLOW, DONE],
        [ALLOW, REPEATED, REPEATED, CLAIM, DONE],
        [ALLOW, CLAIM, AGAIN, CLAIM, DONE],
        [ALLOW, CLAIM, UNKNOWN, DONE],
        [ALLOW, CLAIM, UNKNOWN, RETRY, CLAIM, UNKNOWN, HAPPENED],
        [ALLOW, AGAIN, ASK, VOTE, CONSUMED, CLAIM, FAILED],
        [ASK, ASK, VOTE, CONSUMED, CLAIM, DONE],
        [ASK, VOTE, CONSUMED, HELD, ALLOW, CLAIM, DONE],
        [HELD, ALLOW, CLAIM, AGAIN, HELD, ALLOW, CLAIM, DONE],
        [HELD, ASK, CONSUMED, CLAIM, DONE],
        [ALLOW, HELD, AGAIN, CLAIM, DONE],
        [ALLOW, CLAIM, HELD, UNKNOWN, RETRY, CLAIM],
        [ASK, VOID],
        [ASK, UNKNOWN],
        [ALLOW, VOID, DONE],
        [ALLOW, FAILED, DONE],
        [DENY, DENY],
    ],
)
def test_a_call_that_goes_as_calls_go_is_no_fault(kinds: list[str]) -> None:
    assert told(kinds) == []
    for begun in range(1, len(kinds)):
        assert told(kinds[begun:]) == [], "a bundle may begin anywhere"


@pytest.mark.parametrize(
    ("kinds", "fault"),
    [
        ([ALLOW, CLAIM, DONE, CLAIM, DONE], 3),
        ([ALLOW, CLAIM, FAILED, AGAIN], 3),
        ([ALLOW, CLAIM, DONE, ALLOW, CLAIM, DONE], 3),
        ([ASK, VOTE, CONSUMED, CLAIM, DONE, CONSUMED], 5),
        ([ASK, VOTE, CONSUMED, CLAIM, CONSUMED], 4),
        ([ALLOW, CLAIM, DONE, ASK, VOTE, CONSUMED, CLAIM], 3),
        ([DENY, ALLOW], 1),
        ([DENY, CLAIM], 1),
        ([DENY, REPEATED], 1),
        ([ASK, REPEATED], 1),
        ([ALLOW, VOID, CLAIM], 2),
        ([ALLOW, HELD, CLAIM], 2),
        ([ALLOW, HELD, ASK, CLAIM, DONE], 3),
        ([ALLOW, HELD, ASK, DONE], 3),
        ([ALLOW, CLAIM, UNKNOWN, CLAIM], 3),
        ([ALLOW, CLAIM, DONE, RETRY], 3),
        ([ALLOW, CLAIM, RETRY], 2),
    ],
)
def test_what_no_service_does_with_a_call_is_told_once(kinds: list[str], fault: int) -> None:
    assert told(kinds) == [fault]


def test_within_a_seal_the_ids_tell_what_came_first() -> None:
    assert told([ALLOW, CLAIM, UNKNOWN, RETRY, CLAIM, DONE], order=[0, 1, 4, 2, 5, 3]) == []
    assert told([ALLOW, CLAIM, DONE, CLAIM], order=[0, 1, 3, 2]) == [3]


ONCE, OFTEN = {"effect_class": "irreversible"}, {"effect_class": "idempotent"}


@pytest.mark.parametrize(
    ("kinds", "fault"),
    [
        ([ALLOW, CLAIM, CLAIM, DONE], 2),
        ([ASK, VOTE, CONSUMED, CLAIM, CLAIM], 4),
        ([ALLOW, CLAIM, AGAIN, CLAIM, DONE], 2),
        ([ALLOW, CLAIM, HELD, ALLOW, CLAIM], 2),
        ([ALLOW, CLAIM, UNKNOWN, RETRY, CLAIM, CLAIM], 5),
        ([ALLOW, AGAIN, CLAIM, DONE], None),
        ([ALLOW, HELD, ALLOW, CLAIM, FAILED], None),
        ([ALLOW, CLAIM, UNKNOWN, RETRY, HELD, ALLOW, CLAIM, DONE], None),
    ],
)
def test_a_call_that_is_made_once_starts_once_until_a_person_settles_it(kinds: list[str], fault: int | None) -> None:
    expected = [] if fault is None else [fault]
    assert told(kinds, details={ALLOW: ONCE, ASK: ONCE}) == expected
    changed = {ALLOW: ONCE, ASK: ONCE, CONSUMED: OFTEN}
    assert CONSUMED not in kinds or told(kinds, details=changed) == [], "its tool is another by then"


@pytest.mark.parametrize("kinds", [[ALLOW, DONE], [ALLOW, AGAIN, DONE], [ASK, VOTE, CONSUMED, DONE]])
def test_a_call_that_is_made_once_is_made_by_whom_its_start_was_granted(kinds: list[str]) -> None:
    once = {ALLOW: ONCE, ASK: ONCE}
    assert told(kinds, details=once) == [len(kinds) - 1]
    assert told([*kinds[:-1], CLAIM, DONE], details=once) == []
    assert told(kinds) == told(kinds, details={ALLOW: OFTEN, ASK: OFTEN}) == []
    assert told(kinds, details=once, partial=True) == [], "its start may be before the bundle"


@pytest.mark.parametrize(("ended", "detail"), [(VOID, {}), (FAILED, {"code": "not_started", "reason": "nobody"})])
def test_a_call_whose_start_was_granted_has_begun(ended: str, detail: dict[str, Any]) -> None:
    assert told([ALLOW, CLAIM, ended], details={ended: detail}) == [2]
    assert told([ALLOW, CLAIM, AGAIN, ended], details={ended: detail}) == [3]
    assert told([ALLOW, ended], details={ended: detail}) == []
    if detail:
        assert told([ALLOW, CLAIM, ended], details={ended: {**detail, "attempt": 1}}) == [], "its worker says so"
