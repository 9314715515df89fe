"""Approvals of one call, however many: what lets a call go is told in time that grows with the bundle."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.audit.test_verifier import APPROVED, ASKED, CALL, CONSUMED, HELD, VOTED, found, made

from towpath_audit import sealed_approvals
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_approvals import SealedApprovals

FIELDS = ("run_id", "tool", "operation", "network", "agent_key", "caller", "actor", "commitment")
ENTRY = AuditLogEntry(
    **dict.fromkeys(FIELDS, ""),
    entry_id=0,
    at="",
    project="p",
    execution_id=CALL,
    phase="decision",
    verdict="allow",
    rule=None,
    policy_version=1,
)
PAYLOAD = ErasablePayload(salt=bytes(16), args_digest="", detail='{"approval_id": "a", "digest": "d"}')


def told(entries: list[tuple[str, str]]) -> tuple[SealedApprovals, list[str | None]]:
    approvals = SealedApprovals()
    whys = [
        approvals.on_entry(replace(ENTRY, entry_id=number, phase=phase, verdict=verdict, actor=f"a{number}"), PAYLOAD)
        for number, (phase, verdict) in enumerate(entries)
    ]
    return approvals, whys


def test_thousands_of_approvals_of_one_call_are_not_all_compared() -> None:
    many = 3_000
    entries = [("decision", "require_approval")] * many + [("approval.consumed", "allow")] * many
    _, whys = told(entries)
    assert {*whys[many:]} == {
        "0 of 1 people said yes to it before",
        "it was used up before",
        "its approvals are too many to be compared",
    }
    assert whys[-1] == "its approvals are too many to be compared", "which is a fault, and no remark"
    assert whys.count(whys[-1]) == many - 500_000 // many, "half a million comparisons take a second"


def test_a_call_with_as_many_approvals_as_people_give_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps() -> list[dict[str, Any]]:
        about = [{"approval_id": f"a{n}", "digest": "d"} for n in range(60)]
        return [
            {**step, "detail": {**step["detail"], **one, "quorum": 1}}
            for one in about
            for step in (ASKED, VOTED, CONSUMED)
        ]

    assert found(made(*steps())) == []
    monkeypatch.setattr(sealed_approvals, "MAX_COMPARED", 100)
    assert {code for code, _ in found(made(*steps()))} == {"approval_without_votes"}


@pytest.mark.parametrize(
    ("order", "unasked"),
    [
        ("A", 0),
        ("?A", 1),
        ("?!A", 0),
        ("!?A", 1),
        ("?!?A", 1),
        ("A?!A", 0),
        ("?A!A", 1),
        ("?AA", 2),
    ],
)
def test_an_allowed_call_that_was_asked_about_needs_its_approval_used_up_between(order: str, unasked: int) -> None:
    kinds = {"A": ("decision", "allow"), "?": ("decision", "require_approval"), "!": ("approval.consumed", "allow")}
    approvals, _ = told([kinds[one] for one in order])
    assert len([*approvals.let_go_unasked()]) == unasked


def test_an_approval_is_used_up_once() -> None:
    steps = (ASKED, VOTED, APPROVED, CONSUMED, HELD, CONSUMED)
    assert found(made(*map(dict, steps))) == [("approval_without_votes", 5), ("call_state_changed", 5)]


@pytest.mark.parametrize(
    ("roles", "escalated", "faults"),
    [
        (("approver", "approver"), None, []),
        (("approver", "operator"), None, ["approval_without_votes"]),
        (("approver", "policy_admin"), None, ["approval_without_votes"]),
        (("approver", "policy_admin"), 1, []),
        (("approver", "policy_admin"), 0, ["approval_without_votes"]),
        (("approver", "policy_admin", "policy_admin"), 1, []),
        (("approver", "policy_admin", "approver"), 1, ["approval_without_votes"]),
    ],
)
def test_another_role_is_asked_where_the_approval_was_escalated_only(
    roles: tuple[str, ...], escalated: int | None, faults: list[str]
) -> None:
    about = [{"approval_id": f"a{place}", "digest": "d", "role": role} for place, role in enumerate(roles)]
    steps: list[dict[str, Any]] = [{**ASKED, "detail": {**one, "quorum": 1}} for one in about]
    if escalated is not None:
        steps.append({"phase": "approval.escalated", "verdict": "require_approval", "detail": about[escalated]})
    steps += [{**VOTED, "detail": about[-1]}, {**CONSUMED, "detail": about[-1]}]
    assert [code for code, _ in found(made(*steps))] == faults
