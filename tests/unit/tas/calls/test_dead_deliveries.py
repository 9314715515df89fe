"""What a delivery that nobody can read makes of its call."""

import pytest
from tests.support.tas.tas_calls import permitted

from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.ledger import MAX_ATTEMPTS
from towpath_tas.core.calls.outcomes import on_dead_delivery


@pytest.mark.parametrize(
    ("attempt", "times", "fails"),
    [
        (1, 1, False),
        (MAX_ATTEMPTS - 1, 1, False),  # the others ran out of time, and were no dead deliveries
        (MAX_ATTEMPTS - 1, 2, False),
        (MAX_ATTEMPTS - 1, 3, True),
        (3, 3, True),
        (MAX_ATTEMPTS, 1, True),
    ],
)
def test_a_call_fails_after_dead_deliveries_and_not_after_attempts(attempt: int, times: int, fails: bool) -> None:
    call = permitted().next_revision(attempt=attempt)
    change = on_dead_delivery(call, attempt, call.toolset, "malformed", times=times)
    assert change.call is not None
    assert change.call.status is (CallStatus.FAILED if fails else CallStatus.PERMITTED)
    assert change.call.attempt == (attempt if fails else attempt + 1)


@pytest.mark.parametrize(
    ("effect_class", "expected"),
    [(EffectClass.IRREVERSIBLE, "the call did not happen"), (EffectClass.PURE, "it is not known whether the call ran")],
)
def test_only_what_is_known_is_reported_of_a_call_that_failed(effect_class: EffectClass, expected: str) -> None:
    """A pure call starts without a claim: another copy of its delivery may be running."""
    call = permitted(effect_class)
    change = on_dead_delivery(call, call.attempt, call.toolset, "malformed", times=3)
    assert change.call is not None and change.call.fact is not None
    assert expected in change.call.fact


def test_what_is_not_the_calls_own_delivery_changes_nothing() -> None:
    call = permitted()
    assert on_dead_delivery(None, 1, call.toolset, "r", times=9) == LedgerChange()
    assert on_dead_delivery(call, call.attempt + 1, call.toolset, "r", times=9) == LedgerChange()
    assert on_dead_delivery(call, call.attempt, "elsewhere", "r", times=9) == LedgerChange()
