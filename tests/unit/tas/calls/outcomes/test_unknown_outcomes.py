"""Starts of one call that overtake each other: a claim, its probe, a person's word, and what comes late."""

import json
import uuid
from typing import Any

import pytest
from tests.support.tas.tas_calls import NOW, after, ask, claim, decision, outcome, permitted, version

from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure, ToolSpec
from towpath_tas.adapters.ledger_tables import _claims_from, _claims_text
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import DispatchCall, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.settlement import on_settle
from towpath_tas.core.tools.registry import effective_class, judge_proposal, spec_digest

FIRST, SECOND, THIRD = (uuid.uuid5(uuid.NAMESPACE_OID, name) for name in ("first", "second", "third"))
OVER = after(16)
"""The tool's 5 s and 10 s on top."""


def allow(_: AuthorizationQuery) -> AuthorizationDecision:
    return decision()


def start(call: LedgerCall, claim_id: uuid.UUID, seconds: float = 0) -> tuple[LedgerCall, str]:
    change, answer = on_claim(call, claim(call, claim_id), "", now=after(seconds))
    assert answer.granted and change.call is not None, answer
    return change.call, answer.probe


def after_outcome(call: LedgerCall, claim_id: uuid.UUID | None, **given: Any) -> LedgerChange:
    return on_outcome(call, outcome(call, claim_id, **given), "", allow, now=OVER)


def become(change: LedgerChange) -> LedgerCall:
    assert change.call is not None
    return change.call


def fact(change: LedgerChange) -> dict[str, Any]:
    (found,) = [effect.fact for effect in change.effects if isinstance(effect, SendFact)]
    return dict(json.loads(found))


def lost(effect_class: EffectClass) -> LedgerCall:
    """A call whose first start was never reported."""
    return become(ask(start(permitted(effect_class), FIRST)[0], now=OVER))


def retried() -> LedgerCall:
    change = on_settle(lost(EffectClass.IRREVERSIBLE), "retry", "ann", "not there", now=OVER)
    assert isinstance(change, LedgerChange)
    return become(change)


def test_a_first_start_is_not_probed_and_a_second_one_is() -> None:
    call, probe = start(permitted(EffectClass.RECONCILABLE), FIRST)
    assert probe == ""
    again = become(ask(call, now=OVER))
    assert (again.status, again.attempt) == (CallStatus.PERMITTED, 2)
    started, probe = start(again, SECOND, 17)
    assert probe == "required"
    asked_twice = on_claim(started, claim(started, SECOND), "", now=after(18))[1]
    assert asked_twice.probe == "required", "the same question has the same answer"
    assert start(lost(EffectClass.IDEMPOTENT), SECOND, 17)[1] == ""


def test_after_a_retry_an_unclear_probe_does_not_stop_that_one_start() -> None:
    call, _ = start(permitted(EffectClass.RECONCILABLE), FIRST)
    failure = ToolFailure(code="outcome_unknown", message="the probe could not tell", uncertain=True)
    doubted = become(after_outcome(call, FIRST, status="failed", failure=failure, probe="unclear"))
    assert doubted.status is CallStatus.UNKNOWN
    change = on_settle(doubted, "retry", "ann", "", now=OVER)
    assert isinstance(change, LedgerChange)
    started, probe = start(become(change), SECOND, 17)
    assert (probe, started.settled_by) == ("preferred", "")
    assert on_claim(started, claim(started, SECOND), "", now=after(18))[1].probe == "preferred"
    later = become(ask(started, now=after(40)))
    assert start(later, THIRD, 41)[1] == "required", "a person's word is for one start"


def test_a_doubt_tells_what_is_known() -> None:
    call, _ = start(permitted(EffectClass.RECONCILABLE), FIRST, 1)
    failure = ToolFailure(code="outcome_unknown", message="the probe could not tell: no page", uncertain=True)
    sent = fact(after_outcome(call, FIRST, status="failed", failure=failure, probe="unclear"))
    assert (sent["status"], sent["attempt"], sent["worker"], sent["probe"]) == ("unknown", 1, "w1", "unclear")
    assert "no page" in sent["failure"]["message"]
    doubt = sent["doubt"]
    assert (doubt["worker"], doubt["starts"], doubt["probe"]) == ("w1", 1, "unclear")
    assert doubt["claimed_at"].startswith("2026-11-22T12:00:01") and doubt["lease_until"].startswith(
        "2026-11-22T12:00:16"
    )


def test_of_a_doubt_so_much_is_told_as_a_bundle_and_a_page_of_the_audit_can_hold() -> None:
    call, _ = start(permitted(EffectClass.RECONCILABLE), FIRST, 1)
    failure = ToolFailure(code="outcome_unknown", message='"' * 400_000, uncertain=True)
    change = after_outcome(call, FIRST, status="failed", failure=failure, probe="unclear")
    assert max(len(note.detail_text()) for note in change.notes) < 10_000
    assert len(change.call.fact or "") < 10_000 if change.call else False


@pytest.mark.parametrize("verdict", ["happened", "did_not_happen"])
def test_a_persons_word_is_marked_as_one(verdict: Any) -> None:
    change = on_settle(lost(EffectClass.IRREVERSIBLE), verdict, "ann", "looked", now=OVER)
    assert isinstance(change, LedgerChange)
    assert (fact(change)["settled_by"], become(change).settled_by) == ("ann", "ann")
    late = after_outcome(become(change), FIRST)
    assert (late.call, [note.phase for note in late.notes]) == (None, ["evidence"]), "and a late outcome is evidence"


def test_an_outcome_that_comes_before_the_retry_began_spares_it() -> None:
    change = after_outcome(retried(), FIRST, attempt=1)
    assert become(change).status is CallStatus.SUCCEEDED and become(change).settled_by == ""
    refused = on_claim(become(change), claim(become(change), SECOND), "", now=after(17))[1]
    assert (refused.granted, refused.reason) == (False, "succeeded")


def test_once_the_retry_has_begun_its_own_outcome_decides() -> None:
    call, _ = start(retried(), SECOND, 17)
    for status in ("succeeded", "failed"):
        late = after_outcome(call, FIRST, attempt=1, status=status)
        assert late.call is None and [note.phase for note in late.notes] == ["evidence"]
    assert become(after_outcome(call, SECOND, status="failed")).status is CallStatus.FAILED


def test_a_retry_that_is_lost_too_stays_in_doubt_whatever_the_first_start_came_to() -> None:
    lost_again = become(ask(start(retried(), SECOND, 17)[0], now=after(40)))
    assert lost_again.status is CallStatus.UNKNOWN
    for status in ("succeeded", "failed"):
        late = after_outcome(lost_again, FIRST, attempt=1, status=status)
        assert late.call is None and late.effects == (), "nobody but a person can say what the second start did"
        (note,) = late.notes
        assert (note.phase, note.verdict, note.always) == ("evidence", status, True)
    assert become(after_outcome(lost_again, SECOND)).status is CallStatus.SUCCEEDED, "its own outcome settles it"


@pytest.mark.parametrize("effect_class", [EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE])
def test_an_earlier_start_that_failed_does_not_end_a_later_one(effect_class: EffectClass) -> None:
    permitted_again = lost(effect_class)
    assert after_outcome(permitted_again, FIRST, attempt=1, status="failed").call is None
    call, _ = start(permitted_again, SECOND, 17)
    assert after_outcome(call, FIRST, attempt=1, status="failed").call is None
    assert become(after_outcome(call, FIRST, attempt=1)).status is CallStatus.SUCCEEDED, (
        "that it happened is good to know"
    )


NEVER = ToolFailure(code="not_started", message="the worker came too late to start; nothing was done", began=False)


@pytest.mark.parametrize("code", ["not_started", "cancelled", "invalid_arguments"])
@pytest.mark.parametrize("effect_class", [EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE])
def test_a_tool_may_name_its_error_as_it_likes(effect_class: EffectClass, code: str) -> None:
    call, _ = start(lost(effect_class), SECOND, 17)
    own = ToolFailure(code=code, message="the order is cancelled", began=True)
    change = after_outcome(call, SECOND, status="failed", failure=own)
    assert become(change).status is CallStatus.FAILED and not [e for e in change.effects if isinstance(e, DispatchCall)]
    old = after_outcome(call, SECOND, status="failed", failure=own.model_copy(update={"began": None}))
    assert become(old).status is CallStatus.PERMITTED, "an older worker's word is taken as it was"


def test_what_was_started_is_not_called_not_started_when_its_tickets_run_out() -> None:
    call = lost(EffectClass.IDEMPOTENT).next_revision(attempt=20, deadline=after(10_000))
    change = after_outcome(call, None, status="ticket_expired")
    assert become(change).status is CallStatus.UNKNOWN
    fresh = permitted(EffectClass.IDEMPOTENT).next_revision(attempt=20, deadline=after(10_000))
    sent = fact(after_outcome(fresh, None, status="ticket_expired"))
    assert (sent["failure"]["code"], sent["failure"]["began"]) == ("not_started", False)


@pytest.mark.parametrize("effect_class", [EffectClass.IDEMPOTENT, EffectClass.IRREVERSIBLE])
@pytest.mark.parametrize("asked_again", [False, True])
def test_a_worker_that_never_heard_of_its_claim_and_has_no_ticket_any_more_leaves_no_doubt(
    effect_class: EffectClass, asked_again: bool
) -> None:
    call, _ = start(permitted(effect_class), FIRST)
    doubted = asked_again and effect_class is EffectClass.IRREVERSIBLE
    call = become(ask(call, now=OVER)) if doubted else call
    assert (call.status is CallStatus.UNKNOWN) is doubted
    change = after_outcome(call, FIRST, status="ticket_expired")
    assert become(change).status is CallStatus.FAILED
    assert (fact(change)["failure"]["code"], fact(change)["failure"]["began"]) == ("not_started", False)
    again = after_outcome(become(change), FIRST, status="ticket_expired")
    assert again.call is None and fact(again) == fact(change)


@pytest.mark.parametrize(
    ("effect_class", "expected"),
    [
        (EffectClass.IDEMPOTENT, CallStatus.PERMITTED),
        (EffectClass.RECONCILABLE, CallStatus.PERMITTED),
        (EffectClass.IRREVERSIBLE, CallStatus.UNKNOWN),
    ],
)
def test_a_start_that_never_began_says_nothing_about_an_earlier_one(
    effect_class: EffectClass, expected: CallStatus
) -> None:
    again = retried() if effect_class is EffectClass.IRREVERSIBLE else lost(effect_class)
    call, _ = start(again, SECOND, 17)
    change = after_outcome(call, SECOND, status="failed", failure=NEVER)
    assert become(change).status is expected
    assert bool([e for e in change.effects if isinstance(e, DispatchCall)]) is (expected is CallStatus.PERMITTED)
    clear = after_outcome(call, SECOND, status="failed", failure=NEVER, probe="did_not_happen")
    assert become(clear).status is CallStatus.FAILED, "unless its probe has just said that nothing happened"
    alone, _ = start(permitted(effect_class), FIRST)
    assert become(after_outcome(alone, FIRST, status="failed", failure=NEVER)).status is CallStatus.FAILED


def test_a_reconcilable_tool_without_a_probe_is_irreversible() -> None:
    probed = version(EffectClass.RECONCILABLE).spec
    bare = probed.model_copy(update={"has_probe": False})
    assert effective_class(probed) is EffectClass.RECONCILABLE and effective_class(bare) is EffectClass.IRREVERSIBLE
    tool = version(EffectClass.RECONCILABLE)
    ruled = decision(tool=type(tool)(spec=bare, version=1, digest="d", owner="team"))
    assert become(ask(None, ruled=ruled)).effect_class is EffectClass.IRREVERSIBLE
    current = type(tool)(spec=bare, version=1, digest=spec_digest(bare), owner="team")
    assert judge_proposal(probed, "team", current, trusting=False).status == "pending", (
        "a probe weakens what it promises"
    )


def test_a_spec_without_a_probe_has_the_digest_it_always_had() -> None:
    spec = ToolSpec(name="a", toolset="b")
    assert spec_digest(spec) == "sha256:fe512d0576fd0ca43a498b65d0c5c9403f5ab20d6eb9b31ab18d65b6d12d3675"


def test_claims_are_read_as_they_were_written_also_by_an_older_version() -> None:
    call, _ = start(lost(EffectClass.RECONCILABLE), SECOND, 17)
    assert _claims_from(_claims_text(call.claims)) == call.claims
    old = json.dumps([[str(FIRST), 1, "w1", NOW.isoformat()]])
    (claimed,) = _claims_from(old)
    assert (claimed.until, claimed.at, claimed.probe) == (NOW, None, "")
