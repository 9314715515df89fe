"""Outcomes are confirmed to workers of the project and toolset that they belong to, and to nobody else."""

import uuid

import pytest
from nats.aio.msg import Msg
from tests.support.tas.tas_calls import NOW, claim, permitted
from tests.support.tas.tas_calls import outcome as reported

from towpath_contracts.rpc import CONFIRM_HEADER
from towpath_contracts.tools.calls import EffectClass, outcome_key
from towpath_tas.app.calls.tool_outcomes import OutcomeIdentity, confirm_subject
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import may_forget


def outcome(confirm_to: str) -> Msg:
    return Msg(_client=None, headers={CONFIRM_HEADER: confirm_to})  # type: ignore[arg-type]


def test_an_outcome_that_says_nothing_of_being_late_is_confirmed_as_the_first_of_its_attempt() -> None:
    call = uuid.uuid4()
    named = OutcomeIdentity(execution_id=call, attempt=1)
    assert outcome_key(call, 1, late=named.late) == outcome_key(call, 1)


@pytest.mark.parametrize(
    ("project", "toolset", "allowed"),
    [
        ("shop", "payments", True),
        ("shop", "", True),
        ("shop", "mail", False),
        ("shop", "pay", False),
        ("other", "payments", False),
        ("other", "", False),
        ("", "", False),
    ],
)
def test_an_outcome_is_confirmed_in_the_project_and_toolset_of_its_call_alone(
    project: str, toolset: str, *, allowed: bool
) -> None:
    subject = "tool.confirm.shop.payments.w1"
    assert confirm_subject(outcome(subject), project, toolset) == (subject if allowed else "")


@pytest.mark.parametrize(
    "subject",
    [
        *("", "tool.confirm.shop.>", "tool.confirm.shop.*.w", "run.inbox.x", "tool.confirm."),
        *("tool.confirm.shop.payments", "tool.confirm.shop.payments.", "tool.confirm.shop.payments.w1.x"),
        *("_INBOX.a", "_INBOX_orchestrator.a.1", "_INBOX"),
    ],
)
def test_no_other_subject_is_confirmed_to(subject: str) -> None:
    """Among them are the places where services wait for answers: no worker's login may listen there."""
    assert confirm_subject(outcome(subject), "shop") == "" == confirm_subject(outcome(subject), "")


def test_a_project_whose_name_only_begins_alike_is_another() -> None:
    assert confirm_subject(outcome("tool.confirm.shop2.payments.w1"), "shop") == ""


def test_without_a_good_ticket_only_an_outcome_of_a_start_is_confirmed_where_there_was_one() -> None:
    call, mine = permitted(EffectClass.IRREVERSIBLE), uuid.uuid4()
    assert may_forget(call, reported(call, None)), "nobody began it, so nobody loses an outcome"
    started = on_claim(call, claim(call, mine), "", now=NOW)[0].call
    assert started is not None
    claims = (mine, uuid.uuid4(), None)
    assert [may_forget(started, reported(started, claim_id)) for claim_id in claims] == [True, False, False]
