"""Stop switches: calls that would be sent wait in the ledger instead.

    permitted, about to be sent or claimed ── a switch holds it ──► requested (held: its tickets are invalid)
    requested ── requested again, and nothing holds it ──────────► permitted, by the rules of that time

A switch decides only *when*. A denied call is denied at once, a running call goes on, and a held call is authorized
again before it is sent, so a pause allows nothing. An approval is used up when its call is first held, so that it can't
expire during a long pause; it covers the call later only if nothing that it was shown for has changed.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from towpath_contracts.facts import GateResolvedFact
from towpath_contracts.runs.held_calls import CallPausedFact
from towpath_contracts.switches import ActiveSwitch, paused_gate
from towpath_contracts.tools.calls import CallStatus, ClaimAnswer, ToolRequest
from towpath_tas.core.approvals import approvals
from towpath_tas.core.authorization import Authorize
from towpath_tas.core.authorization_query import AuthorizationQuery, with_edited_args
from towpath_tas.core.call import Approval, CallAuditEntry, DispatchCall, LedgerCall, LedgerChange, SendFact, send_fact
from towpath_tas.core.calls.ledger import on_request, unknown
from towpath_tas.core.calls.outcomes import is_covered
from towpath_tas.core.policy.matrix import CallPrincipal

RELEASED_GRACE = timedelta(minutes=10)
"""Time to start for a released call, on top of its timeout: as long as a new one may wait for a worker."""

PAUSED_REASON = "paused"
"""The reason of a refused claim."""


HELD_VERDICT = "held"
"""The verdict of the audit entry about an attempt that a switch holds back."""


def hold(before: LedgerCall | None, change: LedgerChange, switch: ActiveSwitch | None) -> LedgerChange:
    """Return *change*, or, if it would send its call under *switch*, a change that lets the call wait.

    Whatever is sent depends on the switches too: it is stored only if they have not changed.
    """
    sent = next((effect.call for effect in change.effects if isinstance(effect, DispatchCall)), None)
    if sent is None:
        return change
    if switch is None:
        return replace(change, call=change.call or sent.next_revision(), policy_bound=True)
    held = _held(before, change.call or sent.next_revision(), switch)
    notes = tuple(_as_held_attempt(note) for note in change.notes if note.phase != "decision")
    others = tuple(effect for effect in change.effects if not isinstance(effect, DispatchCall))
    return replace(
        change,
        call=held,
        notes=(*(replace(note, call=held) for note in notes), _held_note(held, switch)),
        effects=(*others, *send_fact(held)),
        policy_bound=True,
    )


def _as_held_attempt(note: CallAuditEntry) -> CallAuditEntry:
    """Return the note of an attempt that is not sent: it records why the attempt before ended."""
    return replace(note, verdict=HELD_VERDICT) if note.phase == "dispatch" else note


def hold_claim(
    call: LedgerCall | None, change: LedgerChange, answer: ClaimAnswer, switch: ActiveSwitch | None
) -> tuple[LedgerChange, ClaimAnswer]:
    """Return the answer to a claim under *switch*: a new start is refused and its call waits, running calls go on."""
    starts = change.call is not None and call is not None and len(change.call.claims) > len(call.claims)
    if switch is None or call is None or not starts:
        return (replace(change, policy_bound=True) if starts else change), answer
    held = _held(call, call.next_revision(), switch)
    refused = CallAuditEntry(
        phase="claim", verdict="refused", call=held, actor=change.notes[0].actor, detail={"reason": PAUSED_REASON}
    )
    waits = LedgerChange(
        call=held, notes=(refused, _held_note(held, switch)), effects=send_fact(held), policy_bound=True
    )
    none = {"granted": False, "reason": PAUSED_REASON, "start_by_ms": 0, "lease_ms": 0, "probe": ""}
    return waits, answer.model_copy(update=none)


def on_held_request(
    call: LedgerCall | None,
    request: ToolRequest,
    query: AuthorizationQuery,
    args_digest: str,
    authorize: Authorize,
    switch: ActiveSwitch | None,
    *,
    now: datetime,
    fence: int = 0,
    approval: Approval | None = None,
) -> LedgerChange:
    """Return the change that a request makes (`ledger.on_request`) while *switch*, or nothing, holds its call."""
    if call is None or call.status is not CallStatus.REQUESTED:
        change = on_request(call, request, query, args_digest, authorize, now=now, fence=fence, approval=approval)
        return hold(call, change, switch)
    until = max(call.deadline, request.deadline, now + timedelta(milliseconds=call.timeout_ms) + RELEASED_GRACE)
    free = replace(call, status=CallStatus.PERMITTED, deadline=until)
    change = on_request(free, request, query, args_digest, authorize, now=now, fence=fence, approval=approval)
    if not any(isinstance(effect, DispatchCall) for effect in change.effects):
        return change  # a conflict, or its run was stopped meanwhile
    if switch is not None:
        return _still_held(call, switch)
    return _release(
        call, query if not call.edited_by else with_edited_args(query, call), authorize, approval, now, until
    )


def principal_of(call: LedgerCall) -> CallPrincipal:
    return CallPrincipal(call.network, call.agent_key, call.agent_type, call.caller, call.project)


def _held(before: LedgerCall | None, call: LedgerCall, switch: ActiveSwitch) -> LedgerCall:
    """Return *call* as a waiting one; the next attempt number invalidates a ticket that may be out for it."""
    out = before is not None and before.status in {CallStatus.PERMITTED, CallStatus.STARTED}
    again = out and before is not None and call.attempt == before.attempt
    held = replace(call, status=CallStatus.REQUESTED, attempt=call.attempt + 1 if again else call.attempt)
    return replace(held, fact=paused_fact(held, switch))


def _still_held(call: LedgerCall, switch: ActiveSwitch) -> LedgerChange:
    """Repeat the fact; if another switch holds the call by now, name that one from here on.

    The row gets a new revision, so that a replica with outdated switches can't store this.
    """
    moved = call.next_revision(fact=paused_fact(call, switch))
    notes = () if moved.fact == call.fact else (_held_note(moved, switch),)
    return LedgerChange(call=moved, notes=notes, effects=send_fact(moved), policy_bound=True)


def _release(
    call: LedgerCall,
    query: AuthorizationQuery,
    authorize: Authorize,
    approval: Approval | None,
    now: datetime,
    until: datetime,
) -> LedgerChange:
    decision = authorize(query)
    refused = decision.effect == "deny"
    if refused or (decision.effect == "require_approval" and not is_covered(call, approval, decision)):
        if call.ever_claimed:  # "denied" would say that it did not happen
            return unknown(call, "it may not run again, and an earlier attempt was started and never reported")
        if refused:
            return approvals.deny(call, decision)
        return approvals.ask_for_approval(call, decision, now=now, before=approval)
    released = approvals.permitted(call, decision, until)
    detail = {"held_by": str(_switch_of(call)), **approvals.grounds_of(replace(decision, origin=None))}
    return LedgerChange(
        call=released,
        notes=(CallAuditEntry(phase="decision", verdict="allow", call=released, detail=detail),),
        effects=(*_resumed(call), DispatchCall(call=released)),
        policy_bound=True,
    )


def paused_fact(call: LedgerCall, switch: ActiveSwitch) -> str:
    """Return the fact that a call is held."""
    fact_id = f"{call.execution_id}:paused:{switch.switch_id}"
    return CallPausedFact(
        run_id=call.run_id, fact_id=fact_id, execution_id=call.execution_id, tool=call.tool, switch=switch
    ).model_dump_json()


def _switch_of(call: LedgerCall) -> UUID | None:
    switch = json.loads(call.fact or "{}").get("switch")
    return UUID(switch["switch_id"]) if isinstance(switch, dict) else None


def _resumed(call: LedgerCall) -> tuple[SendFact, ...]:
    """Tell the run that the switch no longer holds its call: the notice of the person who resumed may be lost."""
    switch_id = _switch_of(call)
    if switch_id is None:
        return ()
    gate = paused_gate(call.run_id, call.execution_id, switch_id)
    fact = GateResolvedFact(run_id=call.run_id, fact_id=f"{gate}:resumed", gate_id=gate, verdict="resumed")
    return (SendFact(run_id=call.run_id, fact=fact.model_dump_json()),)


def _held_note(call: LedgerCall, switch: ActiveSwitch) -> CallAuditEntry:
    detail = {"switch_id": str(switch.switch_id), "kind": switch.kind, "name": switch.name, "reason": switch.reason}
    return CallAuditEntry(phase="held", verdict="waits", call=call, actor=switch.paused_by, detail=detail)
