"""Outcomes are confirmed to workers of the project that they belong to, and to nobody else."""

import pytest
from nats.aio.msg import Msg

from towpath_contracts.rpc import CONFIRM_HEADER
from towpath_tas.app.calls.tool_outcomes import confirm_subject


def outcome(confirm_to: str) -> Msg:
    return Msg(_client=None, headers={CONFIRM_HEADER: confirm_to})  # type: ignore[arg-type]


@pytest.mark.parametrize("project", ["shop", "other", ""])
def test_an_outcome_is_confirmed_in_the_project_of_its_call_alone(project: str) -> None:
    subject = "tool.confirm.shop.payments.w1"
    assert confirm_subject(outcome(subject), project) == (subject if project == "shop" else "")


@pytest.mark.parametrize(
    "subject", ["", "tool.confirm.shop.>", "tool.confirm.shop.*.w", "run.inbox.x", "tool.confirm."]
)
def test_no_other_subject_is_confirmed_to(subject: str) -> None:
    assert confirm_subject(outcome(subject), "shop") == ""


def test_a_project_whose_name_only_begins_alike_is_another() -> None:
    assert confirm_subject(outcome("tool.confirm.shop2.payments.w1"), "shop") == ""
