"""What a table says is compared with what an entry recorded, as far as the entry tells."""

import json
from typing import Any

import pytest

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.stored_rows import differences

CALL = {"args_fit": True, "status": "succeeded", "rule": "r", "policy_version": 1, "args_digest": "sha256:aa"}


def entry(phase: str, verdict: str, *, actor: str = "") -> AuditLogEntry:
    return AuditLogEntry(
        entry_id=1,
        at="2026-11-22T09:00:00.000000Z",
        **dict.fromkeys(("project", "tool", "operation", "network", "agent_key", "caller"), "x"),
        run_id="run",
        execution_id="call",
        phase=phase,
        verdict=verdict,
        actor=actor,
        rule="r",
        policy_version=1,
        commitment="",
    )


def payload(**detail: Any) -> ErasablePayload:
    return ErasablePayload(salt=bytes(16), args_digest="sha256:aa", detail=json.dumps(detail))


@pytest.mark.parametrize(
    ("phase", "verdict", "found", "names"),
    [
        ("outcome", "succeeded", CALL, []),
        ("outcome", "unknown", {**CALL, "status": "failed"}, []),
        ("outcome", "failed", CALL, ["status"]),
        ("outcome", "succeeded", {**CALL, "args_digest": "sha256:bb"}, ["args_digest"]),
        ("outcome", "succeeded", {**CALL, "args_fit": False}, ["args_fit"]),
        ("decision", "deny", CALL, ["status"]),
        ("decision", "deny", {**CALL, "status": "denied", "args_digest": "sha256:bb"}, ["args_digest"]),
        ("approval.expired", "deny", {**CALL, "args_digest": "sha256:bb"}, ["status", "args_digest"]),
        (
            "decision",
            "deny",
            {**CALL, "status": "denied", "rule": "s", "policy_version": 2},
            ["rule", "policy_version"],
        ),
        ("decision", "require_approval", {**CALL, "args_digest": "sha256:bb"}, []),
        ("decision", "allow", {**CALL, "decided_args": "sha256:bb"}, ["decided_args"]),
        ("decision", "allow", None, ["row"]),
        ("decision", "allow", {"project": "y"}, ["project"]),
        ("approval.consumed", "allow", {**CALL, "approval_status": "pending"}, ["approval_status"]),
        ("approval.approved", "approved", {"decided_by": "eve", "vote": None}, ["vote", "decided_by"]),
        ("policy.applied", "applied", {"digest": "sha256:dd", "text_digest": "sha256:ee"}, ["text_digest"]),
        ("tool.registered", "accepted", {"digest": "sha256:dd", "status": "refused"}, ["status"]),
        ("tool.accepted", "accepted", {"status": "accepted", "decided_by": "eve"}, ["decided_by"]),
    ],
)
def test_what_is_stored_otherwise_is_named(phase: str, verdict: str, found: Any, names: list[str]) -> None:
    said = payload(approval_id="a", digest="sha256:dd", decided_by="mia", reason="fine", by_key="")
    assert differences(entry(phase, verdict), said, found) == names


def test_the_version_of_the_tool_under_which_a_call_ended_is_compared_where_the_entry_has_it() -> None:
    ended, found = entry("outcome", "succeeded"), {**CALL, "tool_version": 3}
    assert differences(ended, payload(tool_version=3), found) == []
    assert differences(ended, payload(tool_version=2), found) == ["tool_version"]
    assert differences(ended, payload(), found) == [], "entries of earlier releases name none"
    assert differences(entry("decision", "allow"), payload(tool_version=2), found) == [], "a later permission moved it"


ENDS = [("outcome", "failed"), ("settled", "happened"), ("decision", "deny"), ("approval.expired", "deny")]


@pytest.mark.parametrize(("phase", "verdict"), ENDS)
def test_all_that_a_run_is_told_of_the_end_is_compared_where_the_entry_has_its_digest(phase: str, verdict: str) -> None:
    status = {"failed": "failed", "deny": "denied"}.get(verdict, "succeeded")
    ended, found = entry(phase, verdict), {**CALL, "status": status, "told_digest": "sha256:ff"}
    assert differences(ended, payload(told_digest="sha256:ff"), found) == []
    assert differences(ended, payload(told_digest="sha256:00"), found) == ["told_digest"]
    assert differences(ended, payload(), found) == [], "entries of earlier releases name none"


def test_of_an_entry_whose_payload_is_erased_its_own_fields_are_compared() -> None:
    assert differences(entry("outcome", "succeeded"), None, {**CALL, "args_digest": "sha256:bb"}) == []
    assert differences(entry("outcome", "succeeded"), None, {**CALL, "status": "failed"}) == ["status"]


@pytest.mark.parametrize(
    ("phase", "verdict", "detail", "settled_by", "names"),
    [
        ("outcome", "succeeded", {"attempt": 1}, "", []),
        ("outcome", "succeeded", {"attempt": 1}, "mia", ["settled_by"]),
        ("outcome", "failed", {"code": "did_not_happen"}, "ann", []),
        ("outcome", "failed", {"code": "did_not_happen"}, "mia", ["settled_by"]),
        ("outcome", "failed", {"code": "did_not_happen", "attempt": 1}, "", []),
        ("outcome", "void", {}, "mia", []),
        ("settled", "happened", {}, "ann", []),
        ("settled", "happened", {}, "mia", ["settled_by"]),
        ("settled", "retry", {}, "mia", []),
    ],
)
def test_who_settled_a_call_is_who_the_log_says(
    phase: str, verdict: str, detail: dict[str, Any], settled_by: str, names: list[str]
) -> None:
    stored = {"settled_by": settled_by}
    assert differences(entry(phase, verdict, actor="ann"), payload(**detail), stored) == names


@pytest.mark.parametrize("detail", ["[" * 200_000, "[]", "x", '{"digest": {}}'])
def test_a_detail_of_another_kind_stops_nothing(detail: str) -> None:
    said = ErasablePayload(salt=bytes(16), args_digest="", detail=detail)
    for phase in ("policy.applied", "tool.registered", "tool.accepted", "approval.approved", "decision"):
        differences(entry(phase, "x"), said, {"digest": [], "status": {}})
