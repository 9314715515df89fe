"""The stop switch: what would go out waits, what runs goes on, and nothing is lost or opened by waiting."""

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.tas.tas_calls import (
    DEADLINE_S,
    NOW,
    RUN,
    after,
    claim,
    decision,
    outcome,
    request,
    vote,
    waiting,
)

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.switches import ActiveSwitch, paused_gate
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolRequest
from towpath_tas.core.approvals.approval_votes import resolve
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import query_of_request
from towpath_tas.core.call import Approval, DispatchCall, LedgerCall, LedgerChange, SendFact, StopCall
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.settlement import on_fence, on_settle
from towpath_tas.core.calls.switch_holds import PAUSED_REASON, hold, hold_claim, on_held_request
from towpath_tas.core.policy.matrix import CallPrincipal, RateLimit
from towpath_tas.core.switches import OpenSwitches

WHO = CallPrincipal("support", "billing", "", "anna", "default")
CLASSES = list(EffectClass)
RATE = RateLimit("rule-1", 3, 60)


def switch(kind: str = "tool", name: str = "orders.*", number: int = 1) -> ActiveSwitch:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    fields = {"switch_id": uuid.UUID(int=number), "kind": kind, "name": name}
    return ActiveSwitch.model_validate({**fields, "reason": "it leaks", "paused_by": "ann", "paused_at": at})


def ask(
    call: LedgerCall | None,
    held: ActiveSwitch | None = None,
    ruled: AuthorizationDecision | None = None,
    *,
    said: ToolRequest | None = None,
    now: datetime = NOW,
    fence: int = 0,
    approval: Approval | None = None,
) -> LedgerChange:
    message = said or request()
    text = canonical_json(message.args)
    answer = ruled or decision()
    return on_held_request(
        *(call, message, query_of_request(message, text), digest_text(text), lambda _: answer, held),
        now=now,
        fence=fence,
        approval=approval,
    )


def stored(change: LedgerChange) -> LedgerCall:
    assert change.call is not None
    return change.call


def sent_facts(change: LedgerChange) -> list[dict[str, Any]]:
    return [json.loads(effect.fact) for effect in change.effects if isinstance(effect, SendFact)]


def sent(change: LedgerChange) -> list[LedgerCall]:
    return [effect.call for effect in change.effects if isinstance(effect, DispatchCall)]


@pytest.mark.parametrize(
    ("kind", "name", "holds"),
    [
        ("project", "default", True),
        ("network", "support", True),
        ("network", "sup*", True),
        ("network", "sales", False),
        ("tool", "orders.refund", True),
        ("tool", "orders.*", True),
        ("tool", "mail.*", False),
        ("caller", "anna", True),
        ("caller", "bob", False),
    ],
)
def test_a_switch_holds_what_it_names(kind: str, name: str, holds: bool) -> None:
    found = OpenSwitches([switch(kind, name)])
    for _ in range(2):  # the second time from memory
        assert (found.find(WHO, "orders.refund") is not None) is holds
    assert OpenSwitches().find(WHO, "orders.refund") is None


@pytest.mark.parametrize("effect_class", CLASSES)
def test_a_new_call_waits_and_goes_out_when_nothing_holds_it(effect_class: EffectClass) -> None:
    ruled = decision(effect_class=effect_class)
    first = ask(None, switch(), ruled)
    held = stored(first)
    assert (held.status, held.revision, sent(first), first.policy_bound) == (CallStatus.REQUESTED, 1, [], True)
    assert [fact["type"] for fact in sent_facts(first)] == ["call.paused"]
    assert [(note.phase, note.verdict, note.actor) for note in first.notes] == [("held", "waits", "ann")]
    again = ask(held, switch(), ruled, now=after(10 * DEADLINE_S))
    assert sent_facts(again) == sent_facts(first), "sent again, whatever its deadline is"
    assert (stored(again).status, again.notes, again.policy_bound) == (CallStatus.REQUESTED, (), True)
    later = after(100 * DEADLINE_S)
    free = ask(held, None, ruled, now=later)
    gone = stored(free)
    assert (gone.status, gone.attempt, sent(free), free.counted) == (CallStatus.PERMITTED, 1, [gone], ())
    assert gone.deadline == later + timedelta(milliseconds=gone.timeout_ms, minutes=10)
    assert [(note.phase, note.verdict) for note in free.notes] == [("decision", "allow")]
    gate = paused_gate(RUN, held.execution_id, switch().switch_id)
    assert [(fact["verdict"], fact["gate_id"]) for fact in sent_facts(free)] == [("resumed", str(gate))]


def test_what_the_rules_refuse_is_refused_at_once_and_what_asks_a_person_asks() -> None:
    assert stored(ask(None, switch(), decision("deny"))).status is CallStatus.DENIED
    assert stored(ask(None, switch(), decision("require_approval"))).status is CallStatus.AWAITING_APPROVAL


def test_a_held_call_is_authorized_by_the_rules_of_the_day_it_goes_out() -> None:
    held = stored(ask(None, switch()))
    assert stored(ask(held, None, decision("deny"))).status is CallStatus.DENIED
    asked = ask(held, None, decision("require_approval", counted=("rule-1",), rated=(RATE,)))
    assert (stored(asked).status, asked.counted, asked.rated) == (CallStatus.AWAITING_APPROVAL, (), ())


def test_limits_are_used_up_once_however_long_a_call_waits() -> None:
    limited = decision(counted=("rule-1",), rated=(RATE,))
    first = ask(None, switch(), limited)
    assert (first.counted, first.rated) == (("rule-1",), (RATE,))
    free = ask(stored(first), None, limited)
    assert (free.counted, free.rated) == ((), ())


def test_limits_are_used_up_once_also_where_the_ticket_ended_and_a_person_is_asked_now() -> None:
    out = stored(ask(None, None, decision(counted=("rule-1",), rated=(RATE,))))
    asks = decision("require_approval", counted=("rule-1",), rated=(RATE,))
    again = on_outcome(out, outcome(out, status="ticket_expired"), "", lambda _: asks, now=NOW)
    assert (stored(again).status, again.counted, again.rated) == (CallStatus.AWAITING_APPROVAL, (), ())


def test_another_switch_is_named_once_it_alone_holds_the_call() -> None:
    held = stored(ask(None, switch()))
    moved = ask(held, switch("caller", "anna", 2))
    assert stored(moved).status is CallStatus.REQUESTED
    assert sent_facts(moved)[0]["switch"]["switch_id"] == str(uuid.UUID(int=2))
    assert ask(stored(moved), switch("caller", "anna", 2)).notes == ()


@pytest.mark.parametrize("effect_class", [one for one in CLASSES if one is not EffectClass.PURE])
def test_a_claim_on_a_paused_call_is_refused_and_its_delivery_is_worthless_for_good(effect_class: EffectClass) -> None:
    out = stored(ask(None, None, decision(effect_class=effect_class)))
    question = claim(out)
    change, answer = hold_claim(out, *on_claim(out, question, "", now=NOW), switch())
    held = stored(change)
    assert (answer.granted, answer.reason, answer.lease_ms) == (False, PAUSED_REASON, 0)
    assert (held.status, held.attempt, held.claims) == (CallStatus.REQUESTED, 2, ())
    assert [note.phase for note in change.notes] == ["claim", "held"]
    gone = stored(ask(held, None, decision(effect_class=effect_class)))
    _, answer = hold_claim(gone, *on_claim(gone, question, "", now=NOW), None)
    assert (answer.granted, answer.reason) == (False, "outdated")
    good, answer = hold_claim(gone, *on_claim(gone, claim(gone), "", now=NOW), None)
    assert (answer.granted, good.policy_bound) == (True, True), (
        "a start is stored only under the switches it was made with"
    )


def test_what_runs_goes_on_and_its_outcome_counts() -> None:
    out = stored(ask(None))
    question = claim(out)
    running = stored(on_claim(out, question, "", now=NOW)[0])
    same, answer = hold_claim(running, *on_claim(running, question, "", now=NOW), switch())
    assert answer.granted, "its worker asks again"
    assert stored(same).status is CallStatus.STARTED
    assert ask(running, switch()) == LedgerChange()
    done = on_outcome(running, outcome(running, question.claim_id), "", lambda _: decision(), now=NOW)
    assert stored(done).status is CallStatus.SUCCEEDED


def test_a_dispatched_call_that_nobody_began_is_called_back() -> None:
    out = stored(ask(None))
    change = ask(out, switch(), now=after(DEADLINE_S - 1))
    held = stored(change)
    assert (held.status, held.attempt, sent(change)) == (CallStatus.REQUESTED, 2, [])
    gone = ask(held, None)
    assert [call.attempt for call in sent(gone)] == [2], "as a new attempt: the broker would drop the old one"


def test_a_pure_call_that_was_out_already_is_answered_by_whoever_ran_it() -> None:
    out = stored(ask(None, None, decision(effect_class=EffectClass.PURE)))
    held = stored(ask(out, switch()))
    done = on_outcome(held, outcome(out), "", lambda _: decision(), now=NOW)
    assert stored(done).status is CallStatus.SUCCEEDED


def test_the_failure_of_an_earlier_start_says_nothing_of_a_held_one() -> None:
    idempotent = decision(effect_class=EffectClass.IDEMPOTENT)
    out = stored(ask(None, None, idempotent))
    question = claim(out)
    lost = stored(on_claim(out, question, "", now=NOW)[0])
    late = after(50)  # its lease is over, its deadline is not
    change = ask(lost, switch(), idempotent, now=late)
    held = stored(change)
    assert (held.status, held.attempt) == (CallStatus.REQUESTED, 2)
    listed = [(note.phase, note.verdict, note.detail.get("reason")) for note in change.notes]
    assert listed[0] == ("dispatch", "held", "the lease of the last attempt is over"), "why it is held in the middle"
    assert [phase for phase, *_ in listed] == ["dispatch", "held"]
    failed = on_outcome(held, outcome(lost, question.claim_id, status="failed"), "", lambda _: idempotent, now=late)
    assert failed.call is None
    done = on_outcome(held, outcome(lost, question.claim_id), "", lambda _: idempotent, now=late)
    assert stored(done).status is CallStatus.SUCCEEDED
    barred = ask(held, None, decision("deny"), now=late)
    assert stored(barred).status is CallStatus.UNKNOWN, "denied would say that it did not happen"


def test_an_approval_is_used_up_when_its_call_is_first_held_and_still_binds() -> None:
    asked = decision("require_approval")
    call, approval = waiting()
    approved = resolve(call, approval, vote(approval), lambda _: asked, now=NOW)
    assert isinstance(approved, LedgerChange)
    yes = approved.approvals[0]
    change = ask(stored(approved), switch(), asked, approval=yes)
    held, used = stored(change), change.approvals[0]
    assert (held.status, used.status) == (CallStatus.REQUESTED, "consumed")
    assert "approval.consumed" in [note.phase for note in change.notes]
    much_later = after(400 * 86_400)
    free = ask(held, None, asked, approval=used, now=much_later)
    assert stored(free).status is CallStatus.PERMITTED
    drifted = ask(held, None, decision("require_approval", basis=(("rule-1", "d2"),)), approval=used, now=much_later)
    assert (stored(drifted).status, drifted.approvals[-1].status) == (CallStatus.AWAITING_APPROVAL, "pending")


def test_an_expired_ticket_and_a_persons_retry_wait_as_well() -> None:
    out = stored(ask(None))
    expired = on_outcome(out, outcome(out, status="ticket_expired"), "", lambda _: decision(), now=NOW)
    held = hold(out, expired, switch())
    assert (stored(held).status, stored(held).attempt, sent(held)) == (CallStatus.REQUESTED, 2, [])
    lost = replace(stored(on_claim(out, claim(out), "", now=NOW)[0]), status=CallStatus.UNKNOWN)
    retried = on_settle(lost, "retry", "paula", "try it", now=NOW)
    assert isinstance(retried, LedgerChange)
    assert stored(retried).deadline == NOW + timedelta(milliseconds=lost.timeout_ms, minutes=5)
    waits = hold(lost, retried, switch())
    assert [note.phase for note in waits.notes] == ["settled", "held"]
    gone = ask(stored(waits), None)
    assert sent(gone) == [stored(gone)]
    assert stored(gone).attempt == 2


def test_a_stopped_run_ends_its_held_calls() -> None:
    held = stored(ask(None, switch()))
    assert stored(on_fence(held, "cancelled", now=NOW)).status is CallStatus.VOID
    assert stored(ask(held, switch(), fence=1)).status is CallStatus.VOID
    assert stored(ask(held, None, fence=1)).status is CallStatus.VOID
    started = stored(on_claim(stored(ask(None)), claim(held), "", now=NOW)[0])
    lost = replace(started, status=CallStatus.REQUESTED, attempt=2)
    assert stored(ask(lost, None, fence=1)).status is CallStatus.UNKNOWN
    assert not any(isinstance(effect, StopCall) for effect in ask(lost, None, fence=1).effects)


def test_a_repeat_with_other_contents_is_a_conflict_also_while_it_waits() -> None:
    held = stored(ask(None, switch()))
    other = request(args={"order_id": "B-2", "amount": 1})
    for held_by in (switch(), None):
        assert ask(held, held_by, said=other).dead_letter_reason
