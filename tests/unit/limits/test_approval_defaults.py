"""Where nobody says otherwise one person decides, in time, and a call that nobody decided is refused."""

import dataclasses

import pytest
from tests.support.documented_limits import promise

from towpath_decider.adapters import anthropic_messages
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.call import Approval, StartClaim
from towpath_tas.core.policy.matrix import Rule


@pytest.mark.parametrize("held", [Rule, AuthorizationDecision, Approval], ids=lambda held: held.__name__)
def test_what_nobody_decided_in_time_is_refused(held: type) -> None:
    assert promise("approvals.md", "`on_expiry: deny` refuses then").holds
    assert _defaults(held)["on_expiry"] == "deny"


@pytest.mark.parametrize("held", [Rule, AuthorizationDecision, Approval], ids=lambda held: held.__name__)
def test_one_person_decides(held: type) -> None:
    assert _defaults(held)["quorum"] == 1


def test_a_rule_that_says_no_time_leaves_people_a_day() -> None:
    assert promise("approvals.md", "`expires_s`, a day by default").holds
    assert _defaults(Rule)["expires_s"] == 24 * 60 * 60


def test_what_waits_for_a_person_waits_at_a_gate_for_approvals() -> None:
    assert _defaults(Approval)["gate_type"] == "approval"


def test_a_start_is_not_a_question_of_a_probe() -> None:
    assert _defaults(StartClaim)["probe"] == ""


def test_claude_thinks_within_the_budgets_of_the_page() -> None:
    budgets = list(anthropic_messages._BUDGETS.values())
    assert promise("models.md", f"a budget for thinking: {', '.join(map(str, budgets))} |").holds


def _defaults(held: type) -> dict[str, object]:
    return {field.name: field.default for field in dataclasses.fields(held)}
