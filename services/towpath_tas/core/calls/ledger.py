"""The life of a call, from the first request to its end.

    (no row) ──────────── request ──────────────────────────► denied | awaiting_approval | permitted | void
    awaiting_approval ─── request, once a person has spoken ─► permitted | denied | awaiting_approval (it drifted)
    permitted ─────────── claim ────────────────────────────► started
    permitted, started ── outcome ──────────────────────────► succeeded | failed
    permitted, started ── request, deadline or lease over ──► failed | unknown | permitted (next attempt)
    all that may not run ─ fence ───────────────────────────► void | unknown
    unknown ───────────── late outcome, or a person ────────► succeeded | failed | permitted (next attempt)

Nothing is dispatched that has no row; what has an end is answered from the row; what can't be known is `unknown`.
The functions are total: any message in any state gives a Step, and a Step changes a row by exactly one revision.
"""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from towpath_contracts.tools.calls import CallStatus, EffectClass, ProbeWord, ToolFailure, ToolRequest
from towpath_tas.core.approvals import approvals
from towpath_tas.core.authorization import Asked, Authorize, Ruling, as_edited
from towpath_tas.core.calls import run_facts
from towpath_tas.core.calls.call import FINAL, Approval, Call, Dispatch, Note, Step, Tell
from towpath_tas.core.tools.registry import promised

MAX_ATTEMPTS = 20
"""Dispatches of one call. More means that no worker will ever finish it (clocks that disagree, leases that run out)."""


def on_request(
    call: Call | None,
    request: ToolRequest,
    asked: Asked,
    args_digest: str,
    authorize: Authorize,
    *,
    now: datetime,
    fence: int = 0,
    approval: Approval | None = None,
) -> Step:
    """Return what a request makes of its call; *fence* is the stored one, *approval* the call's current one."""
    if call is None:
        return _open(request, asked, args_digest, authorize, now=now, fence=fence)
    differing = _conflict(call, request, args_digest)
    if differing:
        return _refuse_conflict(call, differing)
    if call.status in FINAL:
        return after_its_gate(approval, say_again(call))
    stopped = fence > min(call.fence, request.fence)
    if stopped and not call.ever_claimed:
        return void(call)
    if call.status is CallStatus.AWAITING_APPROVAL:
        deadline = max(call.deadline, request.deadline)
        asked = asked if not call.edited_by else as_edited(asked, call)
        return approvals.on_repeat(call, asked, approval, authorize, now=now, deadline=deadline)
    return after_its_gate(approval, _go_on(call, max(call.deadline, request.deadline), now=now, stopped=stopped))


def after_its_gate(approval: Approval | None, step: Step) -> Step:
    """Say what came of the call's approval before anything else of it: a crash may have kept that from the run."""
    told = approvals.say_again(approval)
    return replace(step, effects=(*told, *step.effects)) if told else step


def say_again(call: Call) -> Step:
    """Tell the run once more what the ledger says."""
    return Step(effects=(Tell(run_id=call.run_id, fact=call.fact),) if call.fact else ())


def void(call: Call) -> Step:
    """End a call that never started and now may not: the run was cancelled or has ended."""
    ended = call.changed(status=CallStatus.VOID, fact=run_facts.finished(call, "void"))
    return Step(
        call=ended,
        notes=(Note(phase="outcome", verdict="void", call=ended, detail={"reason": "the fence was raised"}),),
        effects=_tell(ended),
    )


def unknown(call: Call, reason: str, *, probe: ProbeWord = "") -> Step:
    """End a call that was started and never clearly reported: nobody can say whether it happened."""
    failure = ToolFailure(code="outcome_unknown", message=reason, hint="A person has to find out whether it happened.")
    fact = run_facts.finished(call, "unknown", failure=failure, probe=probe)
    ended = call.changed(status=CallStatus.UNKNOWN, fact=fact, settled_by="")
    detail = {"reason": reason, "probe": probe} if probe else {"reason": reason}
    return Step(
        call=ended,
        notes=(Note(phase="outcome", verdict="unknown", call=ended, detail=detail),),
        effects=_tell(ended),
    )


def fail(
    call: Call,
    code: str,
    message: str,
    *,
    hint: str = "",
    actor: str = "",
    settled_by: str = "",
    began: bool | None = False,
) -> Step:
    """End a call of which it is certain that it has no effect that matters; *began* is None where it may have run."""
    failure = ToolFailure(code=code, message=message, retryable=True, hint=hint, external=True, began=began)
    ended = call.changed(
        status=CallStatus.FAILED,
        fact=run_facts.finished(call, "failed", failure=failure, settled_by=settled_by),
        settled_by=settled_by,
    )
    note = Note(phase="outcome", verdict="failed", call=ended, actor=actor, detail={"code": code, "reason": message})
    return Step(call=ended, notes=(note,), effects=_tell(ended))


def dispatch_next(call: Call, why: str, **values: Any) -> Step:
    """Send the call out once more as the next attempt, so that the broker does not take it for a repeat."""
    again = call.changed(status=CallStatus.PERMITTED, attempt=call.attempt + 1, **values)
    note = Note(phase="dispatch", verdict="again", call=again, detail={"attempt": again.attempt, "reason": why})
    return Step(call=again, notes=(note,), effects=(Dispatch(call=again),))


def lease_over(call: Call, now: datetime) -> bool:
    """Say whether the current attempt's claim, if there is one, has run out."""
    holder = call.holder
    return holder is not None and holder.until is not None and now >= holder.until


def _open(
    request: ToolRequest, asked: Asked, args_digest: str, authorize: Authorize, *, now: datetime, fence: int
) -> Step:
    ruling = authorize(asked)
    call = _new_row(request, asked, args_digest, ruling)
    if fence > request.fence:
        return void(call)
    if ruling.effect == "deny":
        return approvals.deny(call, ruling)
    if ruling.effect == "require_approval":
        return approvals.ask(call, ruling, now=now)
    permitted = call.changed(status=CallStatus.PERMITTED)
    return Step(
        call=permitted,
        notes=(Note(phase="decision", verdict="allow", call=permitted, detail=approvals.origin_of(ruling)),),
        effects=(Dispatch(call=permitted),),
        counted=ruling.counted,
        rated=ruling.rated,
        decides=True,
    )


def _new_row(request: ToolRequest, asked: Asked, args_digest: str, ruling: Ruling) -> Call:
    """The row before its first decision: revision 0 stands for "not stored yet"."""
    spec = ruling.tool.spec if ruling.tool else None
    context: dict[str, Any] = {}
    if request.labels:
        context["labels"] = request.labels
    if request.spent_usd is not None:
        context["spent_usd"] = request.spent_usd
    if request.grant is not None:
        context["grant"] = request.grant
    if request.grants:
        context["grants"] = asked.grants
    if request.workspace:
        context["workspace"] = request.workspace
    if ruling.origin is not None:
        context["origin"] = ruling.origin.context()
    return Call(
        run_id=request.run_id,
        execution_id=request.execution_id,
        project=request.project,
        network=request.network,
        snapshot_digest=request.snapshot_digest,
        agent_key=request.agent_key,
        agent_type=request.agent_type,
        caller=request.caller,
        step=request.step,
        call_index=request.call_index,
        tool=request.tool,
        operation=spec.operation if spec else request.operation,
        toolset=spec.toolset if spec else request.toolset,
        tool_version=ruling.tool.version if ruling.tool else 0,
        effect_class=promised(spec) if spec else EffectClass.IRREVERSIBLE,
        timeout_ms=spec.timeout_ms if spec else 0,
        args=asked.args_text,
        args_digest=args_digest,
        context=json.dumps(context, separators=(",", ":")) if context else "{}",
        status=CallStatus.REQUESTED,
        fence=request.fence,
        attempt=1,
        deadline=request.deadline,
        policy_version=ruling.policy_version,
        rule=ruling.rule,
        revision=0,
    )


def _conflict(call: Call, request: ToolRequest, args_digest: str) -> list[str]:
    pairs = (
        ("arguments", call.asked_digest or call.args_digest, args_digest),
        ("tool", call.tool, request.tool),
        ("agent", call.agent_key, request.agent_key),
        ("project", call.project, request.project),
        ("snapshot", call.snapshot_digest, request.snapshot_digest),
    )
    return [name for name, stored, sent in pairs if stored != sent]


def _refuse_conflict(call: Call, differing: list[str]) -> Step:
    message = f"execution {call.execution_id} was requested again with another {' and '.join(differing)}"
    return Step(
        notes=(Note(phase="conflict", verdict="refused", call=call, detail={"differs": differing}, always=True),),
        effects=(Tell(run_id=call.run_id, fact=run_facts.conflict(call.run_id, call.execution_id, message)),),
        dead=message,
    )


def _go_on(call: Call, deadline: datetime, *, now: datetime, stopped: bool) -> Step:
    """A permitted or started call without an outcome is asked about again: look at its clocks, else send it again."""
    late = now >= deadline or call.attempt >= MAX_ATTEMPTS or stopped
    if call.effect_class is EffectClass.PURE:
        if late:
            hint = "Try again later, or without it."
            return fail(call, "timeout", "no result came before the deadline", hint=hint, began=None)
        return _dispatch_same(call, deadline)
    if call.holder is None:
        if not late:
            return _dispatch_same(call, deadline)
        if call.ever_claimed:
            return unknown(call, "an earlier attempt was started and never reported")
        return fail(call, "not_started", "no worker started it before its deadline; it did not happen")
    if not lease_over(call, now):
        return Step()  # it runs, as far as anybody knows
    if call.effect_class is EffectClass.IRREVERSIBLE or late:
        return unknown(call, "it was started, and nothing was heard of it until its lease was over")
    return dispatch_next(call, "the lease of the last attempt is over")


def _dispatch_same(call: Call, deadline: datetime) -> Step:
    """Send the attempt once more; the broker drops it where it still has it. A later deadline is kept for claims."""
    if deadline <= call.deadline:
        return Step(effects=(Dispatch(call=call),))
    renewed = call.changed(deadline=deadline)
    return Step(call=renewed, effects=(Dispatch(call=renewed),))


def _tell(call: Call) -> tuple[Tell, ...]:
    return (Tell(run_id=call.run_id, fact=call.fact),) if call.fact else ()
