"""Votes on a call that waits for approval: approve, deny, or edit the arguments.

A vote counts once, from a person with the role who did not submit the run, and only about the call as it was shown.
Where a platform is for a single person, that one may approve what they asked for, and the audit says so. One
denial denies; an approval counts towards the quorum. An edit makes another call of it: the matrix decides about that
call first, the approvals of all others are dropped, and the editor's own vote counts as one of the quorum.
"""

import json
from dataclasses import replace
from datetime import datetime
from typing import Literal

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_contracts.runs.views import ResolveGate
from towpath_contracts.subjects import ANONYMOUS, LOCAL
from towpath_contracts.tools.calls import CallStatus
from towpath_tas.core.approvals.approvals import (
    changes_between,
    new_approval,
    resolution_fact,
    verdict_of,
    wait_for_approval,
)
from towpath_tas.core.authorization import Authorize
from towpath_tas.core.authorization_query import query_of_call
from towpath_tas.core.call import Approval, ApprovalVote, CallAuditEntry, LedgerCall, LedgerChange, key_detail
from towpath_tas.core.denials import argument_faults

VERDICTS = ("approved", "denied", "edit")

_ONE_PERSON = frozenset({ANONYMOUS, LOCAL})


def resolve(
    call: LedgerCall,
    approval: Approval,
    request: ResolveGate,
    authorize: Authorize,
    *,
    now: datetime,
    single_person: bool = False,
) -> LedgerChange | Problem:
    """Return what a person's vote makes of an approval, or why it does not count.

    A repeated vote of the same person counts once and is answered again: the first answer may have been lost.
    """
    if _is_repeated_vote(approval, request):
        return LedgerChange(effects=() if approval.status == "pending" else (resolution_fact(approval),))
    refused = _vote_problem(call, approval, request, now=now, single_person=single_person)
    if refused is not None:
        return refused
    if request.verdict == "edit":
        return _edit(call, approval, request, authorize, now=now)
    verdict: Literal["approved", "denied"] = "approved" if request.verdict == "approved" else "denied"
    vote = _vote(request, verdict, now)
    settled = _with_vote(approval, vote)
    touched = call.next_revision()  # a new revision: concurrent decisions about this call must be made again
    return LedgerChange(
        call=touched,
        notes=(_note(touched, settled, vote, request),),
        effects=() if settled.status == "pending" else (resolution_fact(settled),),
        approvals=(settled,),
        vote=vote,
    )


def format_progress(approval: Approval) -> str:
    """Return how far an approval is: `approved, 1 of 2`."""
    word = "denied" if approval.status == "denied" else "approved"
    return f"{word}, {len(approval.approvers)} of {approval.quorum}" if approval.quorum > 1 else word


def _vote(request: ResolveGate, verdict: Literal["approved", "denied", "edited"], now: datetime) -> ApprovalVote:
    return ApprovalVote(
        actor=request.actor, verdict=verdict, reason=request.reason, at=now, key_prefix=request.key_prefix
    )


def _with_vote(approval: Approval, vote: ApprovalVote) -> Approval:
    """Return the approval with one more vote: settled by a denial, or by the last approval of its quorum."""
    after = replace(approval, votes=(*approval.votes, vote))
    if vote.verdict != "denied" and len(after.approvers) < after.quorum:
        return after
    status, by = ("denied", vote.actor) if vote.verdict == "denied" else ("approved", ", ".join(after.approvers))
    return replace(after, status=status, decided_by=by, decided_at=vote.at, decided_reason=vote.reason)


def _note(call: LedgerCall, approval: Approval, vote: ApprovalVote, request: ResolveGate) -> CallAuditEntry:
    detail = {
        "approval_id": str(approval.approval_id),
        "digest": approval.digest,
        "reason": vote.reason,
        "votes": f"{len(approval.approvers)} of {approval.quorum}",
        **key_detail(vote.key_prefix, request.key_commitment),
        **_single_person(call, approval, request),
        "decided_by": approval.decided_by,
    }
    phase = "approval.vote" if approval.status == "pending" else f"approval.{approval.status}"
    return CallAuditEntry(phase=phase, verdict=vote.verdict, call=call, actor=vote.actor, detail=detail)


def is_same_person(one: str, other: str) -> bool:
    """Return whether two names may be of one person: whoever has the token needs none at the broker."""
    return one == other or {one, other} == _ONE_PERSON


def _is_requester(call: LedgerCall, approval: Approval, request: ResolveGate) -> bool:
    """Return whether the same person may have submitted the run: whoever has the token needs none at the broker."""
    voters = {request.actor, request.caller}
    also = _ONE_PERSON if voters & _ONE_PERSON else frozenset[str]()
    return bool({approval.requested_by, call.caller} & (voters | also))


def _single_person(call: LedgerCall, approval: Approval, request: ResolveGate) -> dict[str, bool]:
    """Return what the audit says of a yes that only a platform for a single person takes."""
    alone = request.verdict != "denied" and _is_requester(call, approval, request)
    return {"single_person": True} if alone else {}


def is_repeated_edit(call: LedgerCall, approval: Approval, request: ResolveGate) -> bool:
    """Return whether *request* repeats the edit that made this call and its *approval*: its answer was lost."""
    text = _canonical_args(request)
    mine = request.verdict == "edit" and text is not None and digest_text(text) == call.args_digest
    return mine and approval.edited_by == request.actor and request.approval_id != approval.approval_id


def _is_repeated_vote(approval: Approval, request: ResolveGate) -> bool:
    if request.verdict == "edit":
        return False
    if approval.status != "pending" and verdict_of(approval) != request.verdict:
        return False
    yes = ("approved", "edited") if request.verdict == "approved" else ("denied",)
    return any(vote.actor == request.actor and vote.verdict in yes for vote in approval.votes)


def _vote_problem(
    call: LedgerCall, approval: Approval, request: ResolveGate, *, now: datetime, single_person: bool
) -> Problem | None:
    if request.verdict not in VERDICTS:
        return problem(
            "verdict_invalid", f"an approval takes: {', '.join(VERDICTS)}", known={"gate_id": request.gate_id}
        )
    if approval.role not in request.roles:
        return problem("role_missing", f"{request.actor} does not have the role {approval.role}")
    if approval.status != "pending" or call.status is not CallStatus.AWAITING_APPROVAL:
        return problem("gate_settled", f"the approval is {approval.status}, the call {call.status}")
    if now >= approval.expires_at:
        return problem("gate_settled", f"the approval expired at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    if request.verdict == "denied" and not request.reason.strip():
        return problem("reason_required", "a denial needs a reason; the model sees it")
    if request.digest is not None and request.digest != approval.digest:
        remedy = f"Look at the gate again before you decide: towpath gates show {request.gate_id}."
        detail = f"the approval is for {approval.digest}, not for {request.digest}"
        return problem("digest_changed", detail, remedy=remedy)
    if request.verdict != "denied" and _is_requester(call, approval, request) and not single_person:
        return problem("requester_may_not_approve", f"{approval.requested_by} submitted the run that asks")
    return None


def _edit(
    call: LedgerCall, approval: Approval, request: ResolveGate, authorize: Authorize, *, now: datetime
) -> LedgerChange | Problem:
    """Change the arguments: checked like a new call, bound anew, and approved by its editor only so far."""
    text = _canonical_args(request)
    if request.args is None or text is None:
        return problem("edit_refused", "an edit gives all arguments of the call, as one JSON object")
    if approval.gate_type == "manual":
        detail = f"the call was changed {approval.revisions} times"
        return problem("revisions_used_up", detail, known={"gate_id": request.gate_id})
    if digest_text(text) == call.args_digest:
        return problem("edit_refused", "these are the arguments that the call has already")
    decision = authorize(replace(query_of_call(call), args=request.args, args_text=text))
    if decision.effect == "deny":
        denial = decision.denial
        if denial is None:
            return problem("edit_refused", "the matrix denies it")
        return problem("edit_refused", denial.reason, errors=argument_faults(denial))
    owned = call.system_params | set(decision.tool.spec.system_params if decision.tool else ())
    if changed := _changed(owned, json.loads(call.args), request.args):
        errors = tuple(ProblemDetail(pointer=f"/args/{name}", detail="the task sets it") for name in changed)
        return problem("edit_refused", f"the task sets {', '.join(changed)}, and nobody else", errors=errors)
    edited = replace(
        call,
        args=text,
        args_digest=digest_text(text),
        asked_digest=call.asked_digest or call.args_digest,
        edited_by=request.actor,
    )
    made = replace(
        new_approval(edited, decision, now=now, before=approval), quorum=max(decision.quorum, approval.quorum)
    )
    vote = None
    if made.gate_type == "approval":
        vote = _vote(request, "edited", now)
        made = _with_vote(made, vote)
    waiting = wait_for_approval(edited, made, decision, before=approval, why=changes_between(approval, made))
    assert waiting.call is not None
    note = CallAuditEntry(
        phase="approval.edited",
        verdict="edited",
        call=waiting.call,
        actor=request.actor,
        detail={
            **dict(waiting.notes[0].detail or {}),
            "before": {"approval_id": str(approval.approval_id), "args_digest": call.args_digest},
            "reason": request.reason,
            "votes": f"{len(made.approvers)} of {made.quorum}",
            **key_detail(request.key_prefix, request.key_commitment),
            **_single_person(call, approval, request),
        },
    )
    effects = waiting.effects if made.status == "pending" else (*waiting.effects, resolution_fact(made))
    return replace(waiting, notes=(*waiting.notes, note), effects=effects, vote=vote, edits=True)


def _changed(owned: set[str], before: JsonObject, after: JsonObject) -> list[str]:
    """Return which of the arguments *owned* by the task differ, or are missing on one side alone: tools trust them."""
    said = [{name: canonical_json(args[name]) for name in owned if name in args} for args in (before, after)]
    return sorted(name for name in owned if said[0].get(name) != said[1].get(name))


def _canonical_args(request: ResolveGate) -> str | None:
    """Return the canonical JSON of the given arguments; None if they are not JSON."""
    try:
        return None if request.args is None else canonical_json(request.args)
    except ValueError:
        return None
