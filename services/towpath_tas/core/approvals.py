"""A person's say about one exact call (design §7, approval).

Law: an approval covers this tool with these arguments, this definition, these rules, this agent and this snapshot,
once, until it expires. It is used up in the same change of the ledger that permits the call. Whatever drifted in
between voids it, and a fresh one is asked for that says what changed.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import uuid5

from towpath_contracts.problems import Problem, problem
from towpath_contracts.tools import CallStatus
from towpath_contracts.views import ResolveGate
from towpath_tas.core import facts
from towpath_tas.core.authorization import Asked, Authorize, Ruling, binding, binding_changes, binding_digest
from towpath_tas.core.call import Approval, Call, Dispatch, Note, Step, Tell
from towpath_tas.core.denial import denied_by_person, denied_lost
from towpath_tas.core.registry import promised

APPROVER = "approver"
"""The role whose holders may settle approvals."""

APPROVED_LIFE = timedelta(minutes=10)
"""A yes of the last minute is still good for this long: the run needs a moment to come back with its request."""


def deny(call: Call, ruling: Ruling) -> Step:
    """Refuse a call by the matrix."""
    denial = ruling.denial or denied_lost(call.tool)
    judged = replace(call, policy_version=ruling.policy_version, rule=ruling.rule)
    refused = judged.changed(status=CallStatus.DENIED, fact=facts.denied(judged, denial))
    note = Note(
        phase="decision",
        verdict="deny",
        call=refused,
        detail={"violation_type": denial.violation_type, "reason": denial.reason},
    )
    return Step(call=refused, notes=(note,), effects=_tell(refused), decides=True)


def ask(call: Call, ruling: Ruling, *, now: datetime, before: Approval | None = None) -> Step:
    """Let the call wait for a person; *before* is the approval that drifted, if that is why."""
    bound = binding(call.tool, call.args_digest, call.agent_key, call.snapshot_digest, ruling)
    changes = binding_changes(json.loads(before.bound), bound) if before is not None else ()
    number = call.approvals + 1
    approval = Approval(
        approval_id=uuid5(call.execution_id, f"approval:{number}"),
        run_id=call.run_id,
        execution_id=call.execution_id,
        project=call.project,
        status="pending",
        digest=binding_digest(bound),
        bound=json.dumps(bound, separators=(",", ":")),
        rule=ruling.rule or "",
        reason=ruling.reason,
        requested_by=call.caller,
        expires_at=now + timedelta(seconds=ruling.expires_s),
    )
    judged = replace(call, policy_version=ruling.policy_version, rule=ruling.rule, approvals=number)
    waiting = judged.changed(
        status=CallStatus.AWAITING_APPROVAL,
        approval_id=approval.approval_id,
        fact=facts.approval_required(judged, approval, changes),
    )
    voided = () if before is None else (replace(before, status="void"),)
    detail = {"approval_id": str(approval.approval_id), "digest": approval.digest, "changes": list(changes)}
    return Step(
        call=waiting,
        notes=(Note(phase="decision", verdict="require_approval", call=waiting, detail=detail),),
        effects=_tell(waiting),
        approvals=(*voided, approval),
        counted=ruling.counted if before is None else (),
        rated=ruling.rated if before is None else (),
        decides=True,
    )


def on_repeat(
    call: Call, asked: Asked, approval: Approval | None, authorize: Authorize, *, now: datetime, deadline: datetime
) -> Step:
    """The run asks again about a call that waits: has a person spoken, and is everything still as it was shown?

    *deadline* is the call's from now on: the run's clock stands still while it waits for a person.
    """
    if approval is None:
        return _refuse_lost(call, authorize(asked))
    match approval.status:
        case "approved" if now < _good_until(approval):
            return _use(call, asked, approval, authorize, now=now, deadline=deadline)
        case "denied":
            return _refuse(call, approval, expired=False)
        case "pending" if now < approval.expires_at:
            return Step(effects=_tell(call))
        case _:
            return _refuse(call, approval, expired=True)


def resolve(call: Call, approval: Approval, said: ResolveGate, *, now: datetime) -> Step | Problem:
    """Return what a person's word makes of an approval, or why it does not count.

    The same word of the same person counts once and is told again: the answer to the first may have been lost.
    """
    if approval.decided_by == said.actor and said.verdict == _word(approval):
        return Step(effects=(_resolved(approval),))
    refused = _may_not(call, approval, said, now=now)
    if refused is not None:
        return refused
    settled = replace(approval, status=said.verdict, decided_by=said.actor, decided_at=now, decided_reason=said.reason)
    touched = call.changed()  # so that whoever looked at the call before this word has to look again
    note = Note(
        phase=f"approval.{said.verdict}",
        verdict=said.verdict,
        call=touched,
        actor=said.actor,
        detail={"approval_id": str(approval.approval_id), "digest": approval.digest, "reason": said.reason},
    )
    return Step(call=touched, notes=(note,), effects=(_resolved(settled),), approvals=(settled,))


def _may_not(call: Call, approval: Approval, said: ResolveGate, *, now: datetime) -> Problem | None:
    if said.verdict not in {"approved", "denied"}:
        return problem("verdict_invalid", "an approval takes: approved, denied")
    if APPROVER not in said.roles:
        return problem("role_missing", f"{said.actor} does not have the role {APPROVER}")
    if approval.status != "pending" or call.status is not CallStatus.AWAITING_APPROVAL:
        return problem("gate_settled", f"the approval is {approval.status}, the call {call.status}")
    if now >= approval.expires_at:
        return problem("gate_settled", f"the approval expired at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    if said.verdict == "denied" and not said.reason.strip():
        return problem("reason_required", "a denial needs a reason; the model sees it")
    if said.digest is not None and said.digest != approval.digest:
        return problem("digest_changed", f"the approval is for {approval.digest}, not for {said.digest}")
    if said.verdict == "approved" and said.actor == approval.requested_by:
        return problem("requester_may_not_approve", f"{said.actor} submitted the run that asks")
    return None


def _use(
    call: Call, asked: Asked, approval: Approval, authorize: Authorize, *, now: datetime, deadline: datetime
) -> Step:
    ruling = authorize(asked)
    if ruling.effect == "deny":
        refused = deny(call, ruling)
        return replace(refused, approvals=(replace(approval, status="void"),))
    if ruling.effect == "require_approval":
        bound = binding(call.tool, call.args_digest, call.agent_key, call.snapshot_digest, ruling)
        if binding_digest(bound) != approval.digest:
            return ask(call, ruling, now=now, before=approval)
    spec = ruling.tool.spec if ruling.tool else None
    permitted = call.changed(
        status=CallStatus.PERMITTED,
        policy_version=ruling.policy_version,
        rule=ruling.rule,
        fact=None,
        deadline=deadline,
        tool_version=ruling.tool.version if ruling.tool else call.tool_version,
        effect_class=promised(spec) if spec else call.effect_class,
        timeout_ms=spec.timeout_ms if spec else call.timeout_ms,
        toolset=spec.toolset if spec else call.toolset,
    )
    detail = {"approval_id": str(approval.approval_id), "digest": approval.digest, "approved_by": approval.decided_by}
    return Step(
        call=permitted,
        notes=(Note(phase="approval.consumed", verdict="allow", call=permitted, detail=detail),),
        effects=(_resolved(approval), Dispatch(call=permitted)),
        approvals=(replace(approval, status="consumed"),),
        decides=True,
    )


def _refuse(call: Call, approval: Approval, *, expired: bool) -> Step:
    settled = replace(approval, status="expired" if expired else "denied")
    denial = denied_by_person(call.tool, approval.decided_reason, approval.rule, expired=expired)
    refused = call.changed(status=CallStatus.DENIED, fact=facts.denied(call, denial))
    note = Note(
        phase="approval.expired" if expired else "decision",
        verdict="deny",
        call=refused,
        actor=approval.decided_by,
        detail={"approval_id": str(approval.approval_id), "violation_type": denial.violation_type},
    )
    return Step(call=refused, notes=(note,), effects=(_resolved(settled), *_tell(refused)), approvals=(settled,))


def _refuse_lost(call: Call, ruling: Ruling) -> Step:
    """A call that waits for an approval which is not there can't be let through by anybody."""
    denial = ruling.denial or denied_lost(call.tool)
    return deny(call, Ruling(effect="deny", tool=ruling.tool, policy_version=ruling.policy_version, denial=denial))


def _good_until(approval: Approval) -> datetime:
    decided = approval.decided_at or approval.expires_at
    return max(approval.expires_at, decided + APPROVED_LIFE)


def say_again(approval: Approval | None) -> tuple[Tell, ...]:
    """What came of an approval that is over, for a run that asks again and may have missed it."""
    if approval is None or approval.status not in {"consumed", "denied", "expired"}:
        return ()
    return (_resolved(approval),)


def _word(approval: Approval) -> Literal["approved", "denied", "expired"]:
    """What a person said of *approval*; an approval that nobody decided counts as expired."""
    match approval.status:
        case "approved" | "consumed":
            return "approved"
        case "denied":
            return "denied"
        case _:
            return "expired"


def _resolved(approval: Approval) -> Tell:
    return Tell(run_id=approval.run_id, fact=facts.gate_resolved(approval, _word(approval)))


def _tell(call: Call) -> tuple[Tell, ...]:
    return (Tell(run_id=call.run_id, fact=call.fact),) if call.fact else ()
