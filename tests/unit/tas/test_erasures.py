"""Who may have something erased, and when: another person at once, whoever asked after the delay."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.erasures import DecideErasure, ErasureView
from towpath_tas.core.erasure_rules import ErasureDecision, ErasureRules, decide

NOW = datetime(2026, 11, 24, tzinfo=UTC)
RULES = ErasureRules(delay=timedelta(hours=72))
ALONE = ErasureRules(delay=timedelta(hours=72), single_person=True)
ERASURE = ErasureView(
    erasure_id=UUID(int=1),
    project="p",
    status="requested",
    caller="mia",
    reason="request 4711",
    requested_by="dana",
    requested_at=NOW,
    alone_from=NOW + RULES.delay,
)


def said(actor: str, verdict: str = "confirm") -> DecideErasure:
    return DecideErasure.model_validate(
        {"project": "p", "erasure_id": ERASURE.erasure_id, "verdict": verdict, "actor": actor, "key_prefix": "k"}
    )


@pytest.mark.parametrize(
    ("actor", "after_h", "rules", "becomes"),
    [
        ("eve", 0, RULES, "confirmed"),
        ("dana", 0, RULES, "second_person_required"),
        ("dana", 71.9, RULES, "second_person_required"),
        ("dana", 72, RULES, "after_delay"),
        ("dana", 0, ALONE, "single_person"),
        ("eve", 0, ALONE, "confirmed"),
    ],
)
def test_another_person_confirms_or_time_has_passed(
    actor: str, after_h: float, rules: ErasureRules, becomes: str
) -> None:
    found = decide(ERASURE, said(actor), rules, NOW + timedelta(hours=after_h))
    if becomes == "second_person_required":
        assert isinstance(found, Problem)
        assert found.code == becomes
        return
    assert isinstance(found, ErasureDecision)
    assert (found.status, found.phase) == ("confirmed", "audit.erase_confirmed")
    assert (found.detail["what"], found.detail["requested_by"]) == ({"caller": "mia"}, "dana")
    assert found.detail.keys() & {"after_delay", "single_person"} == {becomes} - {"confirmed"}


@pytest.mark.parametrize("actor", ["dana", "eve"])
def test_anybody_withdraws_what_is_not_confirmed(actor: str) -> None:
    found = decide(ERASURE, said(actor, "withdraw"), RULES, NOW)
    assert isinstance(found, ErasureDecision)
    assert (found.status, found.phase) == ("withdrawn", "audit.erase_withdrawn")


@pytest.mark.parametrize("status", ["confirmed", "done", "withdrawn"])
@pytest.mark.parametrize("verdict", ["confirm", "withdraw"])
@pytest.mark.parametrize("actor", ["dana", "eve"])
def test_what_is_settled_stays_and_is_answered_again_to_who_decided(status: str, verdict: str, actor: str) -> None:
    settled = ERASURE.model_copy(update={"status": status, "decided_by": "eve", "decided_at": NOW})
    found = decide(settled, said(actor, verdict), ALONE, NOW + timedelta(days=365))
    repeated = actor == "eve" and verdict == ("withdraw" if status == "withdrawn" else "confirm")
    assert found is None if repeated else isinstance(found, Problem) and found.code == "erasure_settled"
