"""A restored database: nothing but the question to a person counts as the question, and a no does not undo a start."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.tas.tas_calls import NOW, RUN, after, claim, decide, decision, request, version, vote
from tests.unit.tas.calls.test_restore_doubts import RESTORED, SINCE, known, permitted, sent, settle, stored
from tests.unit.tas.calls.test_switch_holds import switch

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.switches import ActiveSwitch
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import query_of_request
from towpath_tas.core.call import Approval, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.restore_doubts import ask_before_start, ask_first, unasked_since, without_guess
from towpath_tas.core.calls.switch_holds import hold_claim, on_held_request

IDEMPOTENT, IRREVERSIBLE = EffectClass.IDEMPOTENT, EffectClass.IRREVERSIBLE
BOTH = pytest.mark.parametrize("effect_class", [IDEMPOTENT, IRREVERSIBLE])
EDITED = {"order_id": "A-1", "amount": 5}


def kept(before: LedgerCall | None, change: LedgerChange, since: Any) -> LedgerChange:
    """What the ledger stores of a decision."""
    return without_guess(before, ask_first(before, change, since), since)


def ruled_for(effect_class: EffectClass, effect: str = "require_approval", **more: Any) -> AuthorizationDecision:
    return decision(effect, effect_class, **more)


def ask(
    call: LedgerCall | None,
    ruled: AuthorizationDecision,
    approval: Approval | None = None,
    *,
    held: ActiveSwitch | None = None,
    seconds: float = 0,
) -> LedgerChange:
    message = request()
    text = canonical_json(message.args)
    found, since = known(call)
    change = on_held_request(
        *(found, message, query_of_request(message, text), digest_text(text), lambda _: ruled, held),
        now=after(seconds),
        approval=approval,
    )
    return kept(found, change, since)


def say(call: LedgerCall, approval: Approval, ruled: AuthorizationDecision, verdict: str, **more: Any) -> LedgerChange:
    found, since = known(call)
    assert found is not None
    change = decide(found, approval, vote(approval, verdict, **more), ruled=ruled)
    assert isinstance(change, LedgerChange)
    return kept(found, change, since)


def claimed(call: LedgerCall, said: Any, held: ActiveSwitch | None = None, seconds: float = 0) -> tuple[Any, Any]:
    found, since = known(call)
    change, answer = on_claim(found, said, "", now=after(seconds))
    change, answer = hold_claim(found, change, answer, held)
    change, answer = ask_before_start(found, change, answer, since)
    return kept(found, change, since), answer


def waiting(ruled: AuthorizationDecision) -> tuple[LedgerCall, Approval]:
    change = ask(None, ruled)
    return stored(change), change.approvals[-1]


def facts(change: LedgerChange) -> list[dict[str, Any]]:
    return [json.loads(effect.fact) for effect in change.effects if isinstance(effect, SendFact)]


def is_asked(change: LedgerChange) -> bool:
    """Whether a person is asked, with the time of the backup, and nothing is sent; a retry of theirs is sent then."""
    told = facts(change)[-1]
    assert sent(change) == 0
    assert told["status"] == stored(change).status == CallStatus.UNKNOWN
    assert "restored from a backup" in told["failure"]["message"]
    assert told["doubt"]["lost_since"] == SINCE.isoformat().replace("+00:00", "Z")
    assert (told["doubt"]["starts"], len(stored(change).claims)) == (0, 1)
    assert sent(settle(stored(change), "retry")) == 1
    return True


def assert_unasked(call: LedgerCall) -> None:
    assert (call.claims, unasked_since(RESTORED, call, RUN)) == ((), SINCE)


@BOTH
def test_an_approval_is_not_the_answer_to_what_happened(effect_class: EffectClass) -> None:
    ruled = ruled_for(effect_class, quorum=2)
    call, approval = waiting(ruled)
    for voter in ("paula", "peter"):
        change = say(call, approval, ruled, "approved", actor=voter)
        call, approval = stored(change), change.approvals[-1]
        assert_unasked(call)
        assert all(note.call == call for note in change.notes)
    change = ask(call, ruled, approval)
    assert is_asked(change)
    assert [one.status for one in change.approvals] == ["consumed"]
    assert [fact["type"] for fact in facts(change)] == ["gate.resolved", "tool.finished"]


@BOTH
def test_an_edit_is_not_the_answer_to_what_happened(effect_class: EffectClass) -> None:
    ruled = ruled_for(effect_class, quorum=2)
    call, approval = waiting(ruled)
    change = say(call, approval, ruled, "edit", args=EDITED)
    call, approval = stored(change), change.approvals[-1]
    assert (call.edited_by, json.loads(call.args)) == ("paula", EDITED)
    assert_unasked(call)
    change = say(call, approval, ruled, "approved", actor="peter")
    call, approval = stored(change), change.approvals[-1]
    assert_unasked(call)
    assert is_asked(ask(call, ruled, approval))


@BOTH
def test_a_changed_or_escalated_approval_is_not_the_answer_to_what_happened(effect_class: EffectClass) -> None:
    ruled = ruled_for(effect_class, on_expiry="escalate")
    call, approval = waiting(ruled)
    change = ask(call, ruled, approval, seconds=3_601)
    assert (stored(change).status, change.approvals[-1].role) == (CallStatus.AWAITING_APPROVAL, "policy_admin")
    assert_unasked(stored(change))
    change = say(call, approval, ruled, "approved")
    newer = replace(ruled, tool=version(effect_class, 2))
    change = ask(stored(change), newer, change.approvals[-1])
    assert stored(change).status is CallStatus.AWAITING_APPROVAL
    assert_unasked(stored(change))


@BOTH
@pytest.mark.parametrize("new", [True, False])
def test_a_pause_is_not_the_answer_to_what_happened(effect_class: EffectClass, new: bool) -> None:
    ruled = ruled_for(effect_class, "allow")
    change = ask(None if new else permitted(effect_class), ruled, held=switch())
    if effect_class is IRREVERSIBLE and not new:
        assert is_asked(change)
        return
    assert (stored(change).status, sent(change)) == (CallStatus.REQUESTED, 0)
    assert_unasked(stored(change))
    if effect_class is IDEMPOTENT:
        change = ask(stored(change), ruled, held=switch("network", "support", 2))
        assert stored(change).status is CallStatus.REQUESTED
        assert_unasked(stored(change))
    assert is_asked(ask(stored(change), ruled))


def test_a_claim_under_a_pause_is_not_the_answer_to_what_happened() -> None:
    before = permitted(IDEMPOTENT)
    change, answer = claimed(before, claim(before), switch())
    assert (answer.reason, stored(change).status) == ("paused", CallStatus.REQUESTED)
    assert_unasked(stored(change))
    assert is_asked(ask(stored(change), ruled_for(IDEMPOTENT, "allow")))


@BOTH
def test_a_repeated_claim_is_not_the_answer_to_what_happened(effect_class: EffectClass) -> None:
    before = permitted(effect_class)
    said = claim(before)
    started = stored(on_claim(before, said, "", now=NOW)[0])
    change, answer = claimed(started, said, seconds=5)
    call = stored(change)
    assert (answer.granted, [one.claim_id for one in call.claims]) == (True, [said.claim_id])
    assert unasked_since(RESTORED, call, RUN) == SINCE
    late = ask(call, ruled_for(effect_class, "allow"), seconds=30)
    assert (stored(late).status, sent(late)) == (CallStatus.UNKNOWN, 0)
    assert sent(settle(stored(late), "retry")) == 1
    assert unasked_since(RESTORED, stored(settle(stored(late), "retry")), RUN) is None


def test_a_retry_that_a_pause_holds_back_stays_answered() -> None:
    unknown = stored(ask(permitted(IDEMPOTENT), ruled_for(IDEMPOTENT, "allow")))
    held = stored(settle(unknown, "retry", switch()))
    assert held.status is CallStatus.REQUESTED
    assert unasked_since(RESTORED, held, RUN) is None
    assert sent(ask(held, ruled_for(IDEMPOTENT, "allow"))) == 1


@BOTH
@pytest.mark.parametrize("ends", ["denied", "expired", "forbidden", "escalation_forbidden", "lost"])
def test_what_is_refused_now_may_have_been_sent_and_is_not_said_not_to_have_happened(
    effect_class: EffectClass, ends: str
) -> None:
    ruled = ruled_for(effect_class, on_expiry="escalate" if ends == "escalation_forbidden" else "deny")
    call, approval = waiting(ruled)
    seconds, asked_for, reason = 3_601.0, approval, "no"
    match ends:
        case "denied":
            change = say(call, approval, ruled, "denied", reason="too much")
            call, asked_for, seconds, reason = stored(change), change.approvals[-1], 5, "too much"
            assert_unasked(call)
        case "forbidden":
            change = say(call, approval, ruled, "approved")
            call, asked_for, seconds = stored(change), change.approvals[-1], 5
        case "expired":
            reason = "nobody approved orders.refund in time"
        case _:
            pass
    rules = ruled_for(effect_class, "deny") if "forbidden" in ends or ends == "lost" else ruled
    change = ask(call, rules, None if ends == "lost" else asked_for, seconds=seconds)
    told = facts(change)[-1]
    assert (stored(change).status, told["type"], sent(change)) == (CallStatus.UNKNOWN, "tool.finished", 0)
    assert told["doubt"]["lost_since"]
    assert "restored from a backup" in told["failure"]["message"]
    assert reason in told["failure"]["message"]
    assert not any(fact["type"] == "tool.denied" for fact in facts(change))
    assert [(note.phase, note.verdict) for note in change.notes] == [("outcome", "unknown")]
    ended = {"denied": "denied", "expired": "expired", "forbidden": "void", "escalation_forbidden": "expired"}
    assert [one.status for one in change.approvals] == ([] if ends == "lost" else [ended[ends]])
    resolved = [fact["verdict"] for fact in facts(change)[:-1]]
    assert resolved == ([ended[ends]] if ends in ("denied", "expired") else [])


def test_what_cannot_have_been_sent_is_denied_as_ever() -> None:
    assert stored(ask(None, ruled_for(IRREVERSIBLE, "deny"))).status is CallStatus.DENIED, "nothing is known of it"
    ruled = ruled_for(EffectClass.PURE)
    call, approval = waiting(ruled)
    expired = ask(call, ruled, approval, seconds=3_601)
    assert (stored(expired).status, stored(expired).claims) == (CallStatus.DENIED, ())


def test_a_run_that_is_not_restored_keeps_what_it_stores() -> None:
    change = LedgerChange(call=permitted(IDEMPOTENT))
    assert without_guess(None, change, None) is change
