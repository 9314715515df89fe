"""Calls, messages and decisions for tests of the ledger's rules, without any process."""

import functools
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.views import ResolveGate
from towpath_contracts.tools.calls import (
    CallStatus,
    ClaimStart,
    Denial,
    EffectClass,
    ToolFailure,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
)
from towpath_tas.core.approvals.approval_votes import resolve
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery, query_of_request
from towpath_tas.core.call import Approval, LedgerCall, LedgerChange
from towpath_tas.core.calls.ledger import on_request
from towpath_tas.core.tools.registry import ToolVersion, spec_digest

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUN = UUID("01930000-0000-7000-8000-000000000001")
ARGS = {"order_id": "A-1", "amount": 10}
DEADLINE_S = 60
TIMEOUT_MS = 5_000


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@functools.cache
def version(effect_class: EffectClass, number: int = 1) -> ToolVersion:
    spec = ToolSpec(
        name="orders.refund",
        toolset="orders",
        effect_class=effect_class,
        timeout_ms=TIMEOUT_MS,
        description=f"version {number}",
        has_probe=effect_class is EffectClass.RECONCILABLE,
    )
    return ToolVersion(spec=spec, version=number, digest=spec_digest(spec), owner="team")


def decision(
    effect: str = "allow", effect_class: EffectClass = EffectClass.IRREVERSIBLE, **more: Any
) -> AuthorizationDecision:
    said: dict[str, Any] = {
        "effect": effect,
        "tool": version(effect_class),
        "policy_version": 1,
        "rule": "rule-1",
        "basis": (("rule-1", "d1"),),
        "expires_s": 3_600,
        "denial": Denial(violation_type="permission_denied", reason="no") if effect == "deny" else None,
        **more,
    }
    return AuthorizationDecision(**said)


def request(**changes: Any) -> ToolRequest:
    said = {
        "execution_id": uuid.uuid5(RUN, "call:1:0"),
        "run_id": RUN,
        "project": "default",
        "network": "support",
        "snapshot_digest": "sha256:s",
        "agent_key": "billing",
        "caller": "anna",
        "step": 1,
        "call_index": 0,
        "tool": "orders.refund",
        "toolset": "orders",
        "args": ARGS,
        "fence": 0,
        "deadline": after(DEADLINE_S),
        "labels": {"team": "a"},
        **changes,
    }
    return ToolRequest.model_validate(said)


def ask(
    call: LedgerCall | None,
    said: ToolRequest | None = None,
    ruled: AuthorizationDecision | None = None,
    *,
    now: datetime = NOW,
    fence: int = 0,
    approval: Approval | None = None,
) -> LedgerChange:
    """Apply a request to the ledger."""
    message = said or request()
    text = canonical_json(message.args)
    answer = ruled or decision()

    def authorize(_: AuthorizationQuery) -> AuthorizationDecision:
        return answer

    return on_request(
        call,
        message,
        query_of_request(message, text),
        digest_text(text),
        authorize,
        now=now,
        fence=fence,
        approval=approval,
    )


def permitted(effect_class: EffectClass = EffectClass.IRREVERSIBLE) -> LedgerCall:
    """A call that was permitted and dispatched."""
    call = ask(None, ruled=decision(effect_class=effect_class)).call
    assert call is not None
    assert call.status is CallStatus.PERMITTED
    return call


def waiting() -> tuple[LedgerCall, Approval]:
    """A call that waits for a person."""
    change = ask(None, ruled=decision("require_approval"))
    assert change.call is not None
    return change.call, change.approvals[0]


def claim(call: LedgerCall, claim_id: UUID | None = None, **changes: Any) -> ClaimStart:
    said = {
        "execution_id": call.execution_id,
        "run_id": call.run_id,
        "claim_id": claim_id or uuid.uuid4(),
        "attempt": call.attempt,
        "worker": "w1",
        "ticket": "t",
        **changes,
    }
    return ClaimStart.model_validate(said)


def outcome(call: LedgerCall, claim_id: UUID | None = None, **changes: Any) -> ToolOutcome:
    said: dict[str, Any] = {
        "execution_id": call.execution_id,
        "run_id": call.run_id,
        "attempt": call.attempt,
        "claim_id": claim_id,
        "tool": call.tool,
        "status": "succeeded",
        "result": {"ok": True},
        "worker": "w1",
        **changes,
    }
    if said["status"] == "failed":
        said.setdefault("failure", ToolFailure(code="broken", message="it broke"))
    return ToolOutcome.model_validate(said)


def decide(
    call: LedgerCall,
    approval: Approval,
    said: ResolveGate,
    *,
    now: datetime = NOW,
    ruled: AuthorizationDecision | None = None,
    single_person: bool = False,
) -> LedgerChange | Problem:
    """Apply a person's vote to the ledger; *ruled* is the decision about edited arguments."""
    asked = ruled or decision("require_approval")
    return resolve(call, approval, said, lambda _asked: asked, now=now, single_person=single_person)


def vote(approval: Approval, verdict: str = "approved", **changes: Any) -> ResolveGate:
    said = {
        "project": "default",
        "gate_id": uuid.uuid4(),
        "approval_id": approval.approval_id,
        "verdict": verdict,
        "reason": "because",
        "actor": "paula",
        "roles": ("approver",),
        **changes,
    }
    return ResolveGate.model_validate(said)
