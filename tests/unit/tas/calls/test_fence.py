"""A run whose fence was raised starts nothing any more: no claim, no retry, no next attempt."""

import uuid
from typing import Literal

import pytest
from tests.support.tas.tas_calls import NOW, after, ask, claim, decision, outcome, permitted, request

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import LedgerCall, LedgerChange
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.settlement import on_settle

LEASE_OVER = after(20)


def allow(_: AuthorizationQuery) -> AuthorizationDecision:
    return decision()


def started(effect_class: EffectClass, claim_id: uuid.UUID) -> LedgerCall:
    call = permitted(effect_class)
    granted = on_claim(call, claim(call, claim_id), "", now=NOW)[0].call
    assert granted is not None
    return granted


@pytest.mark.parametrize("effect_class", list(EffectClass))
def test_a_claim_under_an_older_fence_is_refused_and_noted(effect_class: EffectClass) -> None:
    call = permitted(effect_class)
    change, answer = on_claim(call, claim(call), "", now=NOW, fence=1)
    assert (answer.granted, answer.reason, change.call) == (False, "fence_raised", None)
    assert [(note.verdict, note.always) for note in change.notes] == [("refused", True)]


def test_a_claim_asked_again_after_the_fence_is_refused_too() -> None:
    claim_id = uuid.uuid4()
    call = started(EffectClass.IDEMPOTENT, claim_id)
    assert on_claim(call, claim(call, claim_id), "", now=after(1), fence=1)[1].reason == "fence_raised"
    assert on_claim(call, claim(call, claim_id), "", now=after(1), fence=0)[1].granted


def test_a_person_may_settle_but_not_retry_a_call_of_a_stopped_run() -> None:
    unknown = ask(started(EffectClass.IRREVERSIBLE, uuid.uuid4()), now=LEASE_OVER).call
    assert unknown is not None
    assert unknown.status is CallStatus.UNKNOWN
    refused = on_settle(unknown, "retry", "paula", "again", now=LEASE_OVER, fence=1)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("fence_raised", 409)
    words: tuple[tuple[Literal["happened", "did_not_happen"], CallStatus], ...] = (
        ("happened", CallStatus.SUCCEEDED),
        ("did_not_happen", CallStatus.FAILED),
    )
    for verdict, status in words:
        change = on_settle(unknown, verdict, "paula", "saw it", now=LEASE_OVER, fence=1)
        assert isinstance(change, LedgerChange)
        assert change.call is not None
        assert change.call.status is status


def test_an_expired_ticket_of_a_stopped_run_is_not_authorised_again() -> None:
    call = permitted()
    reported = outcome(call, status="ticket_expired")
    assert on_outcome(call, reported, "", allow, now=NOW, fence=1) == LedgerChange()
    assert on_outcome(call, reported, "", allow, now=NOW, fence=0).effects


def test_a_request_with_a_newer_fence_does_not_wake_a_call_of_an_older_one() -> None:
    idle = ask(permitted(), request(fence=1), fence=1).call
    assert idle is not None
    assert idle.status is CallStatus.VOID
    lost = ask(started(EffectClass.IDEMPOTENT, uuid.uuid4()), request(fence=1), now=LEASE_OVER, fence=1).call
    assert lost is not None
    assert lost.status is CallStatus.UNKNOWN
