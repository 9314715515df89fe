"""A restored database: what may have happened already is asked about before it is done, and nothing else is."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from tests.support.tas.tas_calls import NOW, RUN, after, claim, decision, outcome, request

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.switches import ActiveSwitch
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_contracts.tools.internal_tools import PLATFORM_TOOLSET
from towpath_tas.core.authorization_query import query_of_request
from towpath_tas.core.call import DispatchCall, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.restore_doubts import ask_before_start, ask_first, unasked_since, with_possible_start
from towpath_tas.core.calls.settlement import on_fence, on_settle
from towpath_tas.core.calls.switch_holds import hold, on_held_request
from towpath_tas.core.restored_runs import RestoredRuns

SINCE = NOW - timedelta(hours=1)
RESTORED = RestoredRuns({RUN: SINCE})
ASKED_ABOUT = [EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE, EffectClass.IRREVERSIBLE]


def known(call: LedgerCall | None, restored: RestoredRuns = RESTORED) -> tuple[LedgerCall | None, Any]:
    """What a decision is made from: the row with its possible start, and since when it is not known."""
    since = unasked_since(restored, call, RUN)
    return (None if call is None else with_possible_start(call, since)), since


def ask(
    call: LedgerCall | None,
    effect_class: EffectClass = EffectClass.IRREVERSIBLE,
    *,
    held: ActiveSwitch | None = None,
    restored: RestoredRuns = RESTORED,
    **more: Any,
) -> LedgerChange:
    message = request()
    text = canonical_json(message.args)
    found, since = known(call, restored)
    said = {"now": NOW, **more}
    change = on_held_request(
        *(found, message, query_of_request(message, text), digest_text(text)),
        *(lambda _: decision(effect_class=effect_class), held),
        **said,
    )
    return ask_first(found, change, since)


def permitted(effect_class: EffectClass) -> LedgerCall:
    return stored(ask(None, effect_class, restored=RestoredRuns()))


def stored(change: LedgerChange) -> LedgerCall:
    assert change.call is not None
    return change.call


def sent(change: LedgerChange) -> int:
    return sum(isinstance(effect, DispatchCall) for effect in change.effects)


def told(change: LedgerChange) -> dict[str, Any]:
    facts = [json.loads(effect.fact) for effect in change.effects if isinstance(effect, SendFact)]
    assert len(facts) == 1
    return dict(facts[0])


def settle(call: LedgerCall, verdict: Any, held: ActiveSwitch | None = None) -> LedgerChange:
    found, since = known(call)
    assert found is not None
    change = on_settle(found, verdict, "ann", "she looked", now=NOW)
    assert isinstance(change, LedgerChange)
    return ask_first(found, hold(found, change, held), since)


@pytest.mark.parametrize("effect_class", ASKED_ABOUT)
def test_a_new_call_of_a_restored_run_is_asked_about_and_not_sent(effect_class: EffectClass) -> None:
    change = ask(None, effect_class)
    call, fact = stored(change), told(change)
    assert (call.status, call.revision, sent(change), change.policy_bound) == (CallStatus.UNKNOWN, 1, 0, True)
    assert [(note.phase, note.verdict) for note in change.notes] == [("decision", "allow"), ("outcome", "unknown")]
    assert f"what happened since {SINCE.isoformat(timespec='seconds')} is not known" in fact["failure"]["message"]
    doubt = fact["doubt"]
    assert (doubt["starts"], doubt["worker"], doubt["claimed_at"], doubt["lost_since"]) == (
        *(0, "", None),
        SINCE.isoformat().replace("+00:00", "Z"),
    )


def test_a_pure_call_and_one_of_the_platform_itself_go_on() -> None:
    assert sent(ask(None, EffectClass.PURE)) == 1
    own = with_possible_start(permitted(EffectClass.IRREVERSIBLE), None).next_revision(toolset=PLATFORM_TOOLSET)
    change = LedgerChange(call=own, effects=(DispatchCall(call=own),))
    assert ask_first(own, change, SINCE) is change
    assert with_possible_start(own, SINCE) is own


def test_other_runs_go_on_and_children_count_as_the_run_on_top_does() -> None:
    other = uuid.uuid4()
    assert unasked_since(RESTORED, None, other) is None
    assert unasked_since(RESTORED, None, other, RUN) == SINCE
    assert sent(ask(None, restored=RestoredRuns({other: SINCE}))) == 1
    child = permitted(EffectClass.IRREVERSIBLE)
    assert child.root_run_id == RUN
    assert unasked_since(RESTORED, child, other) == SINCE
    older = child.next_revision(context="{}")
    assert unasked_since(RESTORED, older, other, RUN) is None, "what a row says holds, and this one says nothing"


def test_of_two_restores_the_earlier_time_counts() -> None:
    root = uuid.uuid4()
    both = RestoredRuns({RUN: SINCE, root: SINCE - timedelta(days=1)})
    assert both.find({RUN, root, None}) == SINCE - timedelta(days=1)


@pytest.mark.parametrize("effect_class", ASKED_ABOUT)
def test_what_the_backup_has_as_sent_is_asked_about_and_not_sent_again(effect_class: EffectClass) -> None:
    before = permitted(effect_class)
    change = ask(before, effect_class)
    assert (stored(change).status, stored(change).revision, sent(change)) == (CallStatus.UNKNOWN, 2, 0)
    assert [note.phase for note in change.notes] == ["outcome"]
    assert "restored from a backup" in told(change)["failure"]["message"]


@pytest.mark.parametrize("effect_class", ASKED_ABOUT)
def test_what_is_still_on_its_way_does_not_start_before_a_person_has_answered(effect_class: EffectClass) -> None:
    before = permitted(effect_class)
    found, since = known(before)
    assert found is not None
    change, answer = on_claim(found, claim(found), "", now=NOW)
    change, answer = ask_before_start(found, change, answer, since)
    assert not answer.granted
    if effect_class is EffectClass.IRREVERSIBLE:
        assert (answer.reason, change.call) == ("claimed", None), "the run's next request asks"
        return
    assert (answer.reason, answer.lease_ms, stored(change).status) == ("unknown", 0, CallStatus.UNKNOWN)
    assert [(note.phase, note.verdict) for note in change.notes] == [("claim", "refused"), ("outcome", "unknown")]
    assert change.policy_bound
    assert "restored from a backup" in told(change)["failure"]["message"]


def test_a_worker_that_has_begun_before_the_backup_may_still_report() -> None:
    before = permitted(EffectClass.IRREVERSIBLE)
    change, _ = on_claim(before, claim(before), "", now=NOW)
    started = stored(change)
    found, _ = known(started)
    assert found is not None
    assert found.current_claim == started.current_claim, "it holds the call, and not what may have been lost"
    report = outcome(found, claim_id=started.claims[0].claim_id)
    ended = on_outcome(found, report, "", lambda _: decision(), now=NOW)
    assert stored(ended).status is CallStatus.SUCCEEDED
    lost = on_outcome(found, outcome(found, claim_id=uuid.uuid4()), "", lambda _: decision(), now=NOW)
    assert lost.call is None, "nothing is known of its claim"


@pytest.mark.parametrize("effect_class", ASKED_ABOUT)
def test_a_retry_runs_once_more_and_is_not_asked_about_again(effect_class: EffectClass) -> None:
    unknown = stored(ask(permitted(effect_class), effect_class))
    change = settle(unknown, "retry")
    again = stored(change)
    assert (again.status, again.attempt, sent(change)) == (CallStatus.PERMITTED, 2, 1)
    assert sent(ask(again, effect_class)) == 1, "its request comes once more"
    found, since = known(again)
    assert since is None
    assert found is again
    started, answer = on_claim(again, claim(again), "", now=NOW)
    started, answer = ask_before_start(again, started, answer, since)
    assert (answer.granted, stored(started).status) == (True, CallStatus.STARTED)
    assert answer.probe == ("preferred" if effect_class is EffectClass.RECONCILABLE else "")
    late = ask(stored(started), effect_class, now=after(3_600))
    assert stored(late).status is CallStatus.UNKNOWN
    assert "restored" not in told(late)["failure"]["message"]


@pytest.mark.parametrize(("verdict", "status"), [("happened", "succeeded"), ("did_not_happen", "failed")])
def test_what_a_person_says_of_it_ends_the_call(verdict: str, status: str) -> None:
    change = settle(stored(ask(None)), verdict)
    assert (stored(change).status, stored(change).settled_by, sent(change)) == (status, "ann", 0)


def test_a_retry_of_what_was_unknown_in_the_backup_needs_no_second_word() -> None:
    before = permitted(EffectClass.IRREVERSIBLE)
    started = stored(on_claim(before, claim(before), "", now=NOW)[0])
    unknown = stored(ask(started, restored=RestoredRuns(), now=after(3_600)))
    change = settle(unknown, "retry")
    assert sent(change) == 1
    assert unasked_since(RESTORED, stored(change), RUN) is None


def test_a_retry_that_was_said_before_the_backup_is_asked_about() -> None:
    before = permitted(EffectClass.IRREVERSIBLE)
    started = stored(on_claim(before, claim(before), "", now=NOW)[0])
    unknown = stored(ask(started, restored=RestoredRuns(), now=after(3_600)))
    said = on_settle(unknown, "retry", "ann", "", now=NOW)
    assert isinstance(said, LedgerChange)
    change = ask(stored(said))
    assert (stored(change).status, sent(change)) == (CallStatus.UNKNOWN, 0)


@pytest.mark.parametrize("effect_class", ASKED_ABOUT)
def test_an_open_call_is_not_said_not_to_have_begun(effect_class: EffectClass) -> None:
    before = permitted(effect_class)
    late = ask(before, effect_class, now=after(3_600))
    assert stored(late).status is CallStatus.UNKNOWN, "without the restore it has failed as not started"
    found, _ = known(before)
    assert found is not None
    stopped = on_fence(found, "cancelled", now=NOW)
    assert stored(stopped).status is CallStatus.UNKNOWN, "without the restore it is void"
    assert stored(on_fence(before, "cancelled", now=NOW)).status is CallStatus.VOID


def test_a_second_restore_asks_anew() -> None:
    answered = stored(settle(stored(ask(permitted(EffectClass.IDEMPOTENT), EffectClass.IDEMPOTENT)), "retry"))
    later = RestoredRuns({RUN: NOW})
    change = ask(answered, EffectClass.IDEMPOTENT, restored=later)
    assert (stored(change).status, sent(change)) == (CallStatus.UNKNOWN, 0)
    assert len(stored(change).claims) == 2
