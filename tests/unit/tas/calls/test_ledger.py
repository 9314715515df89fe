"""What the ledger makes of single messages."""

import json
import uuid
from typing import Any

import pytest
from tests.support.tas.tas_calls import (
    NOW,
    after,
    ask,
    claim,
    decision,
    outcome,
    permitted,
    request,
)

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import DispatchCall, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.ledger import MAX_ATTEMPTS
from towpath_tas.core.calls.outcomes import MAX_DIGEST_CHARS, on_outcome, storable_outcome
from towpath_tas.core.calls.settlement import on_fence, on_settle

GUARDED = [EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE, EffectClass.IRREVERSIBLE]
LEASE_OVER = after(16)  # the tool's 5 s and 10 s on top
LATE = after(61)


def allow(_: AuthorizationQuery) -> AuthorizationDecision:
    return decision()


def facts(change: LedgerChange) -> list[dict[str, Any]]:
    return [json.loads(effect.fact) for effect in change.effects if isinstance(effect, SendFact)]


def dispatched(change: LedgerChange) -> list[LedgerCall]:
    return [effect.call for effect in change.effects if isinstance(effect, DispatchCall)]


def become(change: LedgerChange) -> LedgerCall:
    assert change.call is not None
    return change.call


def started(effect_class: EffectClass, claim_id: uuid.UUID) -> LedgerCall:
    call = permitted(effect_class)
    change, answer = on_claim(call, claim(call, claim_id), "", now=NOW)
    assert answer.granted
    return become(change)


def test_a_permitted_call_is_dispatched_and_noted() -> None:
    change = ask(None)
    assert (become(change).status, become(change).revision) == (CallStatus.PERMITTED, 1)
    assert dispatched(change) == [change.call]
    assert [(note.phase, note.verdict) for note in change.notes] == [("decision", "allow")]
    assert change.policy_bound


def test_a_denied_call_is_reported_and_never_dispatched() -> None:
    change = ask(None, ruled=decision("deny"))
    assert become(change).status is CallStatus.DENIED
    assert dispatched(change) == []
    assert facts(change)[0]["denial"]["violation_type"] == "permission_denied"
    again = ask(change.call)
    assert (again.call, facts(again)) == (None, facts(change))


@pytest.mark.parametrize("change", [{"args": {"order_id": "B"}}, {"tool": "orders.find"}, {"agent_key": "other"}])
def test_a_repeat_with_other_contents_is_a_conflict(change: dict[str, Any]) -> None:
    change = ask(permitted(), request(**change))
    assert change.call is None
    assert change.dead_letter_reason
    assert [fact["type"] for fact in facts(change)] == ["execution.conflict"]


def test_a_repeat_sends_the_same_attempt_again() -> None:
    call = permitted()
    change = ask(call, request(attempt=2), now=after(10))
    assert (become(change).attempt, dispatched(change)) == (call.attempt, [change.call])
    assert [(note.phase, note.verdict) for note in change.notes] == [("dispatch", "repeated")]


def test_a_later_deadline_is_kept() -> None:
    change = ask(permitted(), request(deadline=after(600)), now=after(10))
    assert become(change).deadline == after(600)
    assert dispatched(change) == [change.call]


def test_a_pure_call_fails_at_its_deadline() -> None:
    change = ask(permitted(EffectClass.PURE), now=LATE)
    assert facts(change)[0]["failure"]["code"] == "timeout"


@pytest.mark.parametrize("effect_class", GUARDED)
def test_a_call_that_was_never_claimed_did_not_happen(effect_class: EffectClass) -> None:
    change = ask(permitted(effect_class), now=LATE)
    assert become(change).status is CallStatus.FAILED
    assert facts(change)[0]["failure"]["code"] == "not_started"


@pytest.mark.parametrize("effect_class", GUARDED)
def test_a_call_that_runs_is_left_alone(effect_class: EffectClass) -> None:
    assert ask(started(effect_class, uuid.uuid4()), now=after(14)) == LedgerChange()


def test_an_irreversible_call_whose_lease_is_over_is_unknown() -> None:
    change = ask(started(EffectClass.IRREVERSIBLE, uuid.uuid4()), now=LEASE_OVER)
    assert become(change).status is CallStatus.UNKNOWN
    assert facts(change)[0]["status"] == "unknown"
    assert dispatched(change) == []


@pytest.mark.parametrize("effect_class", GUARDED[:2])
def test_others_are_tried_again_until_the_deadline(effect_class: EffectClass) -> None:
    call = started(effect_class, uuid.uuid4())
    change = ask(call, now=LEASE_OVER)
    assert (become(change).status, become(change).attempt) == (CallStatus.PERMITTED, 2)
    assert dispatched(change) == [change.call]
    assert become(ask(call, now=LATE)).status is CallStatus.UNKNOWN
    assert become(ask(change.call, now=LATE)).status is CallStatus.UNKNOWN, "an earlier attempt may have happened"


def test_dispatches_are_bounded() -> None:
    call = started(EffectClass.IDEMPOTENT, uuid.uuid4()).next_revision(attempt=MAX_ATTEMPTS)
    assert become(ask(call, now=LEASE_OVER)).status is CallStatus.UNKNOWN


def test_an_older_fence_voids_a_new_request() -> None:
    change = ask(None, fence=1)
    assert become(change).status is CallStatus.VOID
    assert become(change).revision == 1
    assert facts(change)[0]["status"] == "void"


def test_an_older_fence_voids_what_was_not_claimed_and_leaves_what_was() -> None:
    assert become(ask(permitted(), fence=1)).status is CallStatus.VOID
    assert ask(started(EffectClass.IDEMPOTENT, uuid.uuid4()), fence=1) == LedgerChange()
    over = ask(started(EffectClass.IDEMPOTENT, uuid.uuid4()), fence=1, now=LEASE_OVER)
    assert become(over).status is CallStatus.UNKNOWN, "a stopped run starts nothing again"


@pytest.mark.parametrize("effect_class", GUARDED)
def test_one_claim_at_a_time(effect_class: EffectClass) -> None:
    call = started(effect_class, uuid.uuid4())
    change, answer = on_claim(call, claim(call), "", now=after(1))
    assert (answer.granted, answer.reason, change.call) == (False, "claimed", None)


def test_the_same_claim_is_granted_again_with_a_new_lease() -> None:
    claim_id = uuid.uuid4()
    call = started(EffectClass.IRREVERSIBLE, claim_id)
    change, answer = on_claim(call, claim(call, claim_id), "", now=after(3))
    assert answer.granted
    holder = become(change).current_claim
    assert holder is not None
    assert (holder.until, len(become(change).claims)) == (after(18), 1)


def test_only_what_is_not_irreversible_may_be_claimed_again_after_the_lease() -> None:
    for effect_class, granted in zip(GUARDED, (True, True, False), strict=True):
        call = started(effect_class, uuid.uuid4())
        _, answer = on_claim(call, claim(call), "", now=LEASE_OVER)
        assert answer.granted is granted, effect_class


@pytest.mark.parametrize(
    ("fault", "change", "now", "reason"),
    [
        ("forged", {}, NOW, "ticket_forged"),
        ("missing", {}, NOW, "ticket_missing"),
        ("expired", {}, NOW, "ticket_expired"),
        ("", {"attempt": 2}, NOW, "outdated"),
        ("", {}, LATE, "deadline"),
    ],
)
def test_a_claim_is_refused_for_a_reason(fault: str, change: dict[str, Any], now: Any, reason: str) -> None:
    call = permitted()
    change, answer = on_claim(call, claim(call, **change), fault, now=now)
    assert (answer.granted, answer.reason, change.call) == (False, reason, None)
    assert [(note.verdict, note.always) for note in change.notes] == [("refused", True)]


def test_nothing_final_can_be_claimed() -> None:
    call = become(ask(permitted(), fence=1))
    assert on_claim(call, claim(call), "", now=NOW)[1].reason == "void"
    assert on_claim(None, claim(call), "", now=NOW)[1].reason == "unknown_call"


def test_an_outcome_of_the_holder_ends_the_call() -> None:
    claim_id = uuid.uuid4()
    call = started(EffectClass.IRREVERSIBLE, claim_id)
    change = on_outcome(call, outcome(call, claim_id), "", allow, now=NOW)
    assert become(change).status is CallStatus.SUCCEEDED
    assert facts(change)[0]["result"] == {"ok": True}
    again = on_outcome(change.call, outcome(call, claim_id), "", allow, now=NOW)
    assert (again.call, again.notes, facts(again)) == (None, (), facts(change)), "the same again is only confirmed"


@pytest.mark.parametrize("effect_class", GUARDED)
def test_an_outcome_without_a_granted_claim_is_evidence(effect_class: EffectClass) -> None:
    call = started(effect_class, uuid.uuid4())
    change = on_outcome(call, outcome(call, uuid.uuid4()), "", allow, now=NOW)
    assert (change.call, [note.phase for note in change.notes]) == (None, ["evidence"])


def test_an_outcome_with_a_bad_ticket_changes_nothing() -> None:
    call = permitted(EffectClass.PURE)
    change = on_outcome(call, outcome(call), "forged", allow, now=NOW)
    assert (change.call, change.effects) == (None, ())
    assert change.dead_letter_reason


def test_the_first_outcome_of_a_pure_call_counts() -> None:
    call = permitted(EffectClass.PURE)
    first = become(on_outcome(call, outcome(call, status="failed"), "", allow, now=NOW))
    assert first.status is CallStatus.FAILED
    second = on_outcome(first, outcome(call, worker="w2"), "", allow, now=NOW)
    assert (second.call, [note.phase for note in second.notes]) == (None, ["evidence"])


def test_a_late_outcome_settles_an_unknown_call_but_not_a_persons_word() -> None:
    claim_id = uuid.uuid4()
    unknown = become(ask(started(EffectClass.IRREVERSIBLE, claim_id), now=LEASE_OVER))
    late = on_outcome(unknown, outcome(unknown, claim_id), "", allow, now=LATE)
    assert become(late).status is CallStatus.SUCCEEDED
    settled = on_settle(unknown, "did_not_happen", "paula", "looked", now=LATE)
    assert isinstance(settled, LedgerChange)
    after_word = on_outcome(settled.call, outcome(unknown, claim_id), "", allow, now=LATE)
    assert (after_word.call, [note.phase for note in after_word.notes]) == (None, ["evidence"])


def test_what_the_outcome_says_about_its_digest_is_not_believed() -> None:
    call = permitted(EffectClass.PURE)
    lying = outcome(call, result={"a": 1}, result_digest="sha256:lie")
    assert facts(on_outcome(call, lying, "", allow, now=NOW))[0]["result_digest"] != "sha256:lie"


@pytest.mark.parametrize(
    ("claimed", "kept"),
    [
        ({"duration_ms": 10**300, "result_bytes": 2**63}, {"duration_ms": 2**31 - 1, "result_bytes": 2**31 - 1}),
        ({"duration_ms": -1, "result_bytes": -1}, {"duration_ms": 0, "result_bytes": 0}),
        ({"duration_ms": 7, "result_bytes": 70_000}, {"duration_ms": 7, "result_bytes": 70_000}),
        ({"blob": True, "result_digest": "sha256:\0"}, {"result_digest": "sha256:\ufffd"}),
        ({"blob": True, "result_digest": "x" * 9_000}, {"result_digest": "x" * MAX_DIGEST_CHARS}),
    ],
)
def test_what_no_table_can_hold_is_not_taken_from_an_outcome(claimed: dict[str, Any], kept: dict[str, Any]) -> None:
    call = permitted(EffectClass.PURE)
    change = on_outcome(call, outcome(call, **claimed), "", allow, now=NOW)
    (note,) = [note for note in change.notes if note.phase == "outcome"]
    detail = note.detail or {}
    assert {name: facts(change)[0][name] for name in kept} == kept == {name: detail[name] for name in kept}


@pytest.mark.parametrize(("worker", "code", "place"), [(256, 128, 288), (257, 129, 289)])
def test_the_names_of_an_outcome_are_kept_up_to_a_length(worker: int, code: int, place: int) -> None:
    failure = ToolFailure(code="c" * code, message="no", place="p" * place)
    kept = storable_outcome(outcome(permitted(EffectClass.PURE), status="failed", worker="w" * worker, failure=failure))
    assert kept.failure is not None
    assert (kept.worker, kept.failure.code, kept.failure.place) == ("w" * 256, "c" * 128, "p" * 288)


@pytest.mark.parametrize("fault", ["", "expired"])
def test_an_entry_of_an_outcome_has_no_longer_names_than_a_bundle_takes(fault: str) -> None:
    call = permitted(EffectClass.PURE)
    failure = ToolFailure(code='"' * 90_000, message="no")
    change = on_outcome(
        call, outcome(call, status="failed", worker='"' * 90_000, failure=failure), fault, allow, now=NOW
    )
    (note,) = change.notes
    assert (note.actor, (note.detail or {})["code"]) == ('"' * 256, '"' * 128)
    told = facts(change)
    assert [(one["worker"], one["failure"]["code"]) for one in told] == [('"' * 256, '"' * 128)][: len(told)]


def test_an_outcome_of_a_worker_with_a_long_name_that_comes_again_is_the_same() -> None:
    call = permitted(EffectClass.PURE)
    said = outcome(call, worker="w\0" * 500)
    ended = become(on_outcome(call, said, "", allow, now=NOW))
    assert on_outcome(ended, said, "", allow, now=NOW).notes == ()


def test_infinite_numbers_do_not_travel_on() -> None:
    call = permitted(EffectClass.PURE)
    change = on_outcome(call, outcome(call, result={"a": float("inf")}), "", allow, now=NOW)
    assert facts(change)[0]["result"] == {"a": None}


def test_an_expired_ticket_is_authorised_again() -> None:
    call = permitted()
    change = on_outcome(call, outcome(call, status="ticket_expired"), "", allow, now=after(5))
    assert (become(change).attempt, change.policy_bound, dispatched(change)) == (2, True, [change.call])


def test_an_expired_ticket_may_find_another_law() -> None:
    call = permitted()
    denied = on_outcome(call, outcome(call, status="ticket_expired"), "", lambda _: decision("deny"), now=NOW)
    assert become(denied).status is CallStatus.DENIED
    asked = on_outcome(
        call, outcome(call, status="ticket_expired"), "", lambda _: decision("require_approval"), now=NOW
    )
    assert become(asked).status is CallStatus.AWAITING_APPROVAL


def test_an_expired_ticket_of_a_running_or_older_attempt_changes_nothing() -> None:
    running = started(EffectClass.IDEMPOTENT, uuid.uuid4())
    assert on_outcome(running, outcome(running, status="ticket_expired"), "", allow, now=NOW) == LedgerChange()
    second = permitted().next_revision(attempt=2)
    assert on_outcome(second, outcome(second, status="ticket_expired", attempt=1), "", allow, now=NOW) == LedgerChange()


def test_expired_tickets_do_not_go_round_for_ever() -> None:
    call = permitted().next_revision(attempt=MAX_ATTEMPTS)
    change = on_outcome(call, outcome(call, status="ticket_expired"), "", allow, now=NOW)
    assert facts(change)[0]["failure"]["code"] == "not_started"


def test_a_fence_voids_stops_and_leaves() -> None:
    assert become(on_fence(permitted(), "cancel", now=NOW)).status is CallStatus.VOID
    pure = on_fence(permitted(EffectClass.PURE), "cancel", now=NOW)
    assert (become(pure).status, len(pure.effects)) == (CallStatus.VOID, 1)
    live = on_fence(started(EffectClass.IRREVERSIBLE, uuid.uuid4()), "cancel", now=NOW)
    assert (live.call, len(live.effects)) == (None, 1)
    over = on_fence(started(EffectClass.IDEMPOTENT, uuid.uuid4()), "cancel", now=LEASE_OVER)
    assert become(over).status is CallStatus.UNKNOWN
    assert on_fence(become(pure), "cancel", now=NOW) == LedgerChange()


def test_a_person_settles_an_unknown_call_once() -> None:
    unknown = become(ask(started(EffectClass.IRREVERSIBLE, uuid.uuid4()), now=LEASE_OVER))
    happened = on_settle(unknown, "happened", "paula", "saw it", now=LATE)
    assert isinstance(happened, LedgerChange)
    assert (become(happened).status, become(happened).settled_by) == (CallStatus.SUCCEEDED, "paula")
    for refused in (
        on_settle(become(happened), "retry", "paula", "", now=LATE),
        on_settle(permitted(), "happened", "paula", "", now=NOW),
    ):
        assert isinstance(refused, Problem)
        assert refused.code == "gate_settled"


def test_retry_lets_an_irreversible_call_run_once_more() -> None:
    unknown = become(ask(started(EffectClass.IRREVERSIBLE, uuid.uuid4()), now=LEASE_OVER))
    change = on_settle(unknown, "retry", "paula", "it did not", now=LATE)
    assert isinstance(change, LedgerChange)
    call = become(change)
    assert (call.status, call.attempt, dispatched(change)) == (CallStatus.PERMITTED, 2, [call])
    granted, answer = on_claim(call, claim(call), "", now=LATE)
    assert answer.granted
    assert not on_claim(granted.call, claim(call), "", now=LATE)[1].granted
