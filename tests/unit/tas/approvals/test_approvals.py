"""What the ledger makes of approvals: bound to one exact call, used once, by enough different people."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.tas.tas_calls import NOW, after, ask, decide, decision, request, version, vote, waiting

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.approval_binding import MAX_CHANGES, binding, changes, format_change
from towpath_tas.core.call import Approval, DispatchCall, LedgerCall, LedgerChange, SendFact
from towpath_tas.settings import TasSettings

HALF = {"order_id": "A-1", "amount": 5}


def facts(step: LedgerChange) -> list[dict[str, Any]]:
    return [json.loads(effect.fact) for effect in step.effects if isinstance(effect, SendFact)]


def dispatched(step: LedgerChange) -> list[LedgerCall]:
    return [effect.call for effect in step.effects if isinstance(effect, DispatchCall)]


def become(step: LedgerChange) -> LedgerCall:
    assert step.call is not None
    return step.call


def approved(approval: Approval, call: LedgerCall) -> tuple[LedgerCall, Approval]:
    step = decide(call, approval, vote(approval), now=after(10))
    assert isinstance(step, LedgerChange)
    return become(step), step.approvals[0]


def test_an_approval_is_used_up_by_the_permission() -> None:
    call, approval = waiting()
    assert facts(ask(call, approval=approval))[0]["type"] == "approval.required", "still waiting: asked again"
    call, approval = approved(approval, call)
    step = ask(call, ruled=decision("require_approval"), approval=approval, now=after(20))
    assert become(step).status is CallStatus.PERMITTED
    assert step.approvals[0].status == "consumed"
    assert [fact["verdict"] for fact in facts(step)] == ["approved"]
    assert dispatched(step) == [step.call]


@pytest.mark.parametrize("effect", ["allow", "require_approval", "deny"])
def test_an_entry_of_a_decision_names_the_version_of_the_tool_that_it_was_made_by(effect: Any) -> None:
    call, approval = approved(*reversed(waiting()))
    assert call.tool_version == 1
    ruled = decision(effect, tool=version(EffectClass.IRREVERSIBLE, 2))
    (note, *_) = ask(call, ruled=ruled, approval=approval, now=after(20)).notes
    assert json.loads(note.detail_text())["tool_version"] == 2
    unknown = ask(call, ruled=decision("deny", tool=None), approval=approval, now=after(20)).notes[0]
    assert "tool_version" not in json.loads(unknown.detail_text())


@pytest.mark.parametrize("effect", ["require_approval", "allow"])
def test_a_status_without_its_votes_permits_nothing_and_people_are_asked_anew(effect: Any) -> None:
    call, approval = waiting()
    call, real = approved(approval, call)
    for forged in (
        replace(approval, status="approved", decided_by="boss", decided_at=after(10)),
        replace(real, quorum=2),
        replace(real, votes=(*real.votes, replace(real.votes[0], actor="noa", verdict="denied"))),
    ):
        step = ask(call, ruled=decision(effect), approval=forged, now=after(20))
        assert become(step).status is CallStatus.AWAITING_APPROVAL
        assert [one.status for one in step.approvals] == ["void", "pending"]
        assert dispatched(step) == []


@pytest.mark.parametrize(("role", "asked"), [("viewer", "approver"), ("operator", "approver"), ("policy_admin",) * 2])
def test_who_is_asked_anew_is_asked_in_a_role_that_the_platform_asks(role: str, asked: str) -> None:
    call, approval = waiting()
    forged = replace(approval, role=role, status="approved", decided_at=after(10))
    assert ask(call, ruled=decision("require_approval"), approval=forged, now=after(20)).approvals[1].role == asked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"basis": (("rule-1", "d2"),)}, "rules.rule-1: d1 → d2"),
        ({"basis": (("rule-1", "d1"), ("rule-2", "x"))}, "rules.rule-2: nothing → x"),
        ({"tool": version(EffectClass.IRREVERSIBLE, 2)}, "tool_version: "),
    ],
)
def test_drift_voids_an_approval_and_asks_anew(change: dict[str, Any], words: str) -> None:
    call, approval = approved(*reversed(waiting()))
    step = ask(call, ruled=decision("require_approval", **change), approval=approval, now=after(20))
    assert become(step).status is CallStatus.AWAITING_APPROVAL
    assert [one.status for one in step.approvals] == ["void", "pending"]
    assert step.approvals[1].approval_id != approval.approval_id
    (found,) = facts(step)[0]["changes"]
    assert found.startswith(words)
    assert dispatched(step) == []


def test_a_rule_that_denies_now_beats_an_approval() -> None:
    call, approval = approved(*reversed(waiting()))
    step = ask(call, ruled=decision("deny"), approval=approval, now=after(20))
    assert (become(step).status, step.approvals[0].status) == (CallStatus.DENIED, "void")


def test_a_denial_reaches_the_model_in_the_persons_words() -> None:
    call, approval = waiting()
    step = decide(call, approval, vote(approval, "denied", reason="too much"), now=NOW)
    assert isinstance(step, LedgerChange)
    found = ask(step.call, approval=step.approvals[0])
    assert [fact["type"] for fact in facts(found)] == ["gate.resolved", "tool.denied"]
    assert facts(found)[1]["denial"]["reason"] == "too much"


def test_an_approval_expires_as_denied() -> None:
    call, approval = waiting()
    step = ask(call, approval=approval, now=after(3_601))
    assert become(step).status is CallStatus.DENIED
    assert [fact.get("verdict") for fact in facts(step)] == ["expired", None]
    late_yes = decide(call, approval, vote(approval), now=after(3_601))
    assert isinstance(late_yes, Problem)


def test_a_yes_does_not_stay_good_for_ever() -> None:
    call, approval = approved(*reversed(waiting()))
    step = ask(call, ruled=decision("require_approval"), approval=approval, now=after(3_601))
    assert become(step).status is CallStatus.DENIED


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"verdict": "happened"}, "verdict_invalid"),
        ({"roles": ("viewer",)}, "role_missing"),
        ({"actor": "anna"}, "requester_may_not_approve"),
        ({"actor": "local", "caller": "anna"}, "requester_may_not_approve"),
        ({"actor": "local", "caller": "anna", "verdict": "edit", "args": {}}, "requester_may_not_approve"),
        ({"verdict": "denied", "reason": " "}, "reason_required"),
        ({"digest": "sha256:other"}, "digest_changed"),
    ],
)
def test_a_word_that_does_not_count(change: dict[str, Any], code: str) -> None:
    call, approval = waiting()
    answer = decide(call, approval, vote(approval, **change), now=NOW)
    assert isinstance(answer, Problem)
    assert answer.code == code


@pytest.mark.parametrize("person", [{"actor": "anna"}, {"actor": "local", "caller": "anna"}])
def test_a_single_person_may_approve_the_own_call_and_the_audit_marks_it(person: dict[str, str]) -> None:
    call, approval = waiting()
    for change, marked in ((person, True), ({"actor": "paula", "caller": "paula"}, False)):
        settled = decide(call, approval, vote(approval, **change), single_person=True)
        assert isinstance(settled, LedgerChange)
        assert [("single_person" in (note.detail or {})) for note in settled.notes] == [marked]
    refused = decide(call, approval, vote(approval, "denied", **person), single_person=True)
    assert isinstance(refused, LedgerChange)
    assert "single_person" not in (refused.notes[0].detail or {})


@pytest.mark.parametrize(("caller", "code"), [("local", "requester_may_not_approve"), ("mia", None)])
def test_the_person_with_the_token_may_also_be_who_submitted_without_a_credential(
    caller: str, code: str | None
) -> None:
    call, approval = waiting()
    approval = replace(approval, requested_by="anonymous")
    answer = decide(call, approval, vote(approval, actor=caller, caller=caller))
    assert (answer.code if isinstance(answer, Problem) else None) == code


def test_whoever_submitted_the_run_does_not_count_whatever_the_approval_says_of_them() -> None:
    call, approval = waiting()
    answer = decide(call, replace(approval, requested_by="zed"), vote(approval, actor=call.caller))
    assert isinstance(answer, Problem)
    assert answer.code == "requester_may_not_approve"


def test_single_persons_have_a_platform_of_their_own() -> None:
    assert TasSettings(embedded=True, single_person=True).single_person
    with pytest.raises(ValueError, match="embedded"):
        TasSettings(single_person=True)


def test_a_requester_may_deny_the_own_call() -> None:
    call, approval = waiting()
    assert isinstance(decide(call, approval, vote(approval, "denied", actor="anna"), now=NOW), LedgerChange)


def test_an_approval_is_settled_once() -> None:
    call, approval = approved(*reversed(waiting()))
    answer = decide(call, approval, vote(approval, "denied"), now=NOW)
    assert isinstance(answer, Problem)
    assert answer.code == "gate_settled"


@pytest.mark.parametrize(
    ("field", "change", "ruled"),
    [
        ("tool", {"tool": "orders.wipe"}, {}),
        ("arguments.amount", {"args": '{"amount":99,"order_id":"A-1"}', "args_digest": "sha256:99"}, {}),
        ("arguments", {"args_digest": "sha256:tampered"}, {}),
        ("agent", {"agent_key": "intern"}, {}),
        ("snapshot", {"snapshot_digest": "sha256:later"}, {}),
        ("tool_version", {}, {"tool": version(EffectClass.IRREVERSIBLE, 2)}),
        ("rules.rule-1", {}, {"basis": (("rule-1", "d2"),)}),
        ("rules.rule-2", {}, {"basis": (("rule-1", "d1"), ("rule-2", "x"))}),
        ("rules.rule-1", {}, {"basis": (("rule-3", "d1"),)}),
    ],
)
def test_whatever_an_approval_is_bound_to_may_not_change_under_it(
    field: str, change: dict[str, Any], ruled: dict[str, Any]
) -> None:
    call, approval = approved(*reversed(waiting()))
    fields = {"tool": call.tool, "agent_key": call.agent_key, "snapshot_digest": call.snapshot_digest}
    asked = {name: value for name, value in {**fields, **change}.items() if name in fields}
    other = replace(call, **change)
    step = ask(other, request(**asked), decision("require_approval", **ruled), approval=approval, now=after(20))
    if "args_digest" in change:
        assert step.dead_letter_reason, "the run asks for something else than the row says"
        step = ask(
            replace(other, asked_digest=call.args_digest, edited_by="mallory"),
            ruled=decision("require_approval", **ruled),
            approval=approval,
            now=after(20),
        )
    assert dispatched(step) == []
    assert [one.status for one in step.approvals] == ["void", "pending"]
    assert field in [one["field"] for one in facts(step)[0]["diff"]]
    assert facts(step)[0]["revision"] == 1


def test_a_run_can_not_ask_under_another_snapshot() -> None:
    call, approval = approved(*reversed(waiting()))
    step = ask(call, request(snapshot_digest="sha256:later"), decision("allow"), approval=approval)
    assert "snapshot" in step.dead_letter_reason and step.call is None


def test_a_diff_says_before_and_after_and_stays_readable() -> None:
    call, _ = waiting()
    one = binding(call, decision())
    other = {**one, "args_digest": "sha256:x", "agent": "intern", "rules": [["rule-2", "sha256:" + "a" * 64]]}
    args = ('{"to":["a","b"],"deep":{"x":1},"gone":true}', '{"to":["a","c"],"deep":{"x":1.5},"new":null}')
    words = [format_change(change) for change in changes(one, other, args)]
    assert words == [
        "agent: billing → intern",
        "arguments.to.1: b → c",
        "arguments.deep.x: 1 → 1.5",
        "arguments.gone: true → nothing",
        "arguments.new",
        "rules.rule-1: d1 → nothing",
        "rules.rule-2: nothing → sha256:aaaaaaaaaaaa…",
    ]
    many = tuple(json.dumps({f"k{n}": number for n in range(200)}) for number in (1, 2))
    found = changes(one, {**one, "args_digest": "y"}, (many[0], many[1]))
    assert (len(found), found[-1].field) == (MAX_CHANGES + 1, "and 150 more")
    (long,) = changes(one, {**one, "args_digest": "y"}, ('{"a":"x"}', json.dumps({"a": "y" * 9_000})))
    assert len(long.after) < 500
    assert changes(one, {**one, "args_digest": "y"}, ("", "{}"))[0].after == "y", "an older approval knows no arguments"


def test_the_strictest_of_the_deciding_rules_says_how_an_approval_goes() -> None:
    step = ask(None, ruled=decision("require_approval", quorum=3, on_expiry="escalate", expires_s=60))
    (approval,) = step.approvals
    assert (approval.quorum, approval.on_expiry, approval.expires_at) == (3, "escalate", after(60))
    (note,) = step.notes
    assert note.detail is not None and note.detail["quorum"] == 3


def test_an_edit_moves_the_call_and_leaves_what_the_run_asks_for() -> None:
    call, approval = waiting()
    step = decide(call, approval, vote(approval, "edit", args=HALF), now=after(5))
    assert isinstance(step, LedgerChange)
    moved = become(step)
    assert (moved.asked_digest, moved.edited_by, json.loads(moved.args)) == (call.args_digest, "paula", HALF)
    assert [one.status for one in step.approvals] == ["void", "approved"] and step.edits and step.policy_bound
    assert [fact["type"] for fact in facts(step)] == ["approval.required", "gate.resolved"]
    used = ask(moved, ruled=decision("require_approval"), approval=step.approvals[1], now=after(6))
    assert [json.loads(one.args) for one in dispatched(used)] == [HALF]
    again = decide(moved, step.approvals[1], vote(approval, "edit", args=HALF), now=after(6))
    assert isinstance(again, Problem), "the same edit of the approval that it made is no edit"


@pytest.mark.parametrize(
    ("asked", "spec"),
    [(("order_id",), ()), ((), ("order_id",)), ((), ("order_id", "shop"))],
    ids=["by the row", "by the tool, of an older row", "and another that the task left out"],
)
def test_an_edit_changes_nothing_that_the_task_sets(asked: tuple[str, ...], spec: tuple[str, ...]) -> None:
    ruled = decision("require_approval")
    assert ruled.tool is not None
    ruled = replace(ruled, tool=replace(ruled.tool, spec=ruled.tool.spec.model_copy(update={"system_params": spec})))
    step = ask(None, request(system_params=asked), ruled)
    call, approval = become(step), step.approvals[0]
    others: list[dict[str, Any]] = [{**HALF, "order_id": "B-2"}, {"amount": 5}, {**HALF, "order_id": None}]
    others += [{**HALF, "order_id": "B-2", "shop": "s"}] if "shop" in spec else []
    for args in others:
        refused = decide(call, approval, vote(approval, "edit", args=args), ruled=ruled)
        assert isinstance(refused, Problem) and refused.code == "edit_refused"
        names = ["order_id", "shop"] if "shop" in args else ["order_id"]
        assert [fault.pointer for fault in refused.errors] == [f"/args/{name}" for name in names]
    assert isinstance(decide(call, approval, vote(approval, "edit", args=HALF), ruled=ruled), LedgerChange)


def test_edits_come_to_an_end_with_a_gate_that_takes_none() -> None:
    call, approval = waiting()
    for number in range(1, 5):
        args = {"order_id": "A-1", "amount": number}
        strict = decision("require_approval", quorum=2)
        step = decide(call, approval, vote(approval, "edit", args=args, actor=f"p{number}"), ruled=strict)
        assert isinstance(step, LedgerChange)
        call, approval = become(step), step.approvals[-1]
        manual = number > 3
        assert (approval.gate_type, len(approval.votes)) == (("manual", 0) if manual else ("approval", 1))
    refused = decide(call, approval, vote(approval, "edit", args=HALF), ruled=strict)
    assert isinstance(refused, Problem) and refused.code == "revisions_used_up"
    yes = decide(call, approval, vote(approval), ruled=strict)
    assert isinstance(yes, LedgerChange) and yes.approvals[0].status == "pending"
