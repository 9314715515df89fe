"""A decision at a gate is sent again: to who repeats it, and to a run that may have missed it."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.tas.tas_calls import NOW, after, ask, decide, decision, outcome, vote, waiting

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus
from towpath_tas.core.approvals import approvals
from towpath_tas.core.call import Approval, DispatchCall, LedgerCall, LedgerChange, SendFact, StartClaim
from towpath_tas.core.calls.outcomes import on_outcome


def resolved_gate(verdict: str) -> tuple[LedgerCall, Approval, LedgerChange]:
    call, approval = waiting()
    change = decide(call, approval, vote(approval, verdict, reason="no"), now=after(10))
    assert isinstance(change, LedgerChange)
    assert change.call is not None
    return change.call, change.approvals[0], change


def facts(change: LedgerChange) -> list[dict[str, Any]]:
    return [json.loads(effect.fact) for effect in change.effects if isinstance(effect, SendFact)]


@pytest.mark.parametrize("status", ["approved", "consumed", "denied"])
def test_the_same_decision_of_the_same_person_is_reported_again_and_changes_nothing(status: str) -> None:
    verdict = "denied" if status == "denied" else "approved"
    call, approval, first = resolved_gate(verdict)
    settled = replace(approval, status=status)
    again = vote(settled, verdict, reason="no")
    assert decide(call, settled, again, now=after(15)) == LedgerChange(effects=first.effects)
    eve = decide(call, settled, again.model_copy(update={"actor": "eve"}), now=after(15))
    assert isinstance(eve, Problem)
    other = "approved" if status == "denied" else "denied"
    assert isinstance(decide(call, settled, vote(settled, other, reason="no"), now=after(15)), Problem)


def test_a_run_that_asks_again_after_its_gate_gets_first_what_was_decided_there() -> None:
    call, approval, _ = resolved_gate("approved")
    used = ask(call, ruled=decision("require_approval"), approval=approval, now=after(20))
    assert used.call is not None
    consumed = used.approvals[0]
    again = ask(used.call, approval=consumed, now=after(25))
    assert [fact["verdict"] for fact in facts(again)] == ["approved"]
    assert [effect.call for effect in again.effects if isinstance(effect, DispatchCall)] == [again.call]
    ended = used.call.next_revision(status=CallStatus.FAILED, fact='{"type": "tool.finished"}')
    assert [fact["type"] for fact in facts(ask(ended, approval=consumed))] == ["gate.resolved", "tool.finished"]


def test_a_run_that_missed_its_gate_gets_it_before_the_outcome() -> None:
    call, approval, _ = resolved_gate("approved")
    used = ask(call, ruled=decision("require_approval"), approval=approval, now=after(20))
    assert used.call is not None
    claim = StartClaim(claim_id=uuid4(), attempt=used.call.attempt, worker="w1", granted=True, until=after(60))
    running = used.call.next_revision(status=CallStatus.STARTED, claims=(claim,))
    reported = outcome(running, claim.claim_id)
    change = on_outcome(running, reported, "", lambda _: decision(), now=after(30), approval=used.approvals[0])
    assert [fact["type"] for fact in facts(change)] == ["gate.resolved", "tool.finished"]


def test_a_call_that_had_no_gate_says_nothing_of_one() -> None:
    call, approval = waiting()
    assert approvals.repeat_resolution(None) == ()
    assert approvals.repeat_resolution(approval) == ()
    assert approvals.repeat_resolution(replace(approval, status="void")) == ()
    assert [fact["type"] for fact in facts(ask(call, approval=approval, now=NOW))] == ["approval.required"]
