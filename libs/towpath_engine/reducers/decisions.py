"""Applies the events about decisions: what is asked of the decider, what came back, and who acts next."""

from datetime import datetime, timedelta
from typing import Any

from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, truncate
from towpath_engine.reducers.budget import PaidEvent, add_usage
from towpath_engine.reducers.loops.counters import after_handoff, after_refusal
from towpath_engine.reducers.watchdog import clear_reported_finding
from towpath_engine.state.earlier_turns import is_summary_awaited, summary_in
from towpath_engine.state.replace import replace
from towpath_engine.state.run import ACTION_KINDS, LOG_TAIL, EffectKind, PendingEffect, RunState
from towpath_readings.execution_log import REASONING_CHARS, agent_entry

DECIDE_GRACE_S = 15
"""Added to the step's model timeout to give the decider's lease."""


def apply_decision_requested(state: RunState, event: ev.DecisionRequested, at: datetime) -> RunState:
    lease = timedelta(milliseconds=state.created.step_timeout_ms, seconds=DECIDE_GRACE_S)
    acts = event.kind in ACTION_KINDS
    until = state.backoff_until
    pending = PendingEffect(
        effect_id=event.request_id,
        kind=EffectKind.DECIDE,
        attempt=1 if until is None else 0,  # the timer's resend is its first attempt
        resend_at=at + lease if until is None else until,
        fence=state.fence,
        model=event.model,
    )
    asked = replace(
        state,
        step=event.step,
        requests=state.requests + 1,
        pending=(*state.pending, pending),
        input_preview=event.input_preview,
        asked=event.kind,
        unanswered=False,
        backoff_until=None,
        detectors=replace(state.detectors, replan=False) if state.detectors.replan and acts else state.detectors,
    )
    if acts:
        return replace(asked, calls=(), assessed=(), children=state.children if event.step == state.step else ())
    return replace(asked, assessed=(*state.assessed, event.kind))


def apply_backed_off(state: RunState, event: ev.BackedOff, _at: datetime) -> RunState:
    return replace(state, backoff_until=event.until)


def apply_decision_received(state: RunState, event: ev.DecisionReceived, _at: datetime) -> RunState:
    if is_summary_awaited(state):
        return replace(_answered(state, event), earlier_summary=summary_in(event.decision))
    if state.asked not in ACTION_KINDS:
        return _answered(state, event)
    state = _with_log_entry(_answered(state, event), agent_entry(event, state.input_preview))
    read = state.operator_notes.answered(state.requests)
    return replace(state, feedback=(), notes=(), handoff=None, handoff_from=None, operator_notes=read)


def apply_decision_missed(state: RunState, event: ev.DecisionRequestFailed, _at: datetime) -> RunState:
    if is_summary_awaited(state):
        state = replace(state, earlier_summary="")
    return _with_log_entry(_answered(state, event), _system_entry(event.step, f"{event.code}: {event.message}"))


def apply_decision_postponed(state: RunState, event: ev.DecisionPostponed, _at: datetime) -> RunState:
    pending = tuple(
        replace(
            effect,
            resend_at=event.until,
            postponed=True,
            settled=event.attempt,
            model=event.next_model or effect.model,
            again_at=event.again_at,
        )
        if effect.effect_id == event.request_id
        else effect
        for effect in state.pending
    )
    return replace(_with_usage(state, event), pending=pending)


def apply_decision_refused(state: RunState, event: ev.DecisionRefused, _at: datetime) -> RunState:
    state = _with_log_entry(state, _system_entry(event.step, event.feedback))
    counted = after_refusal(state.detectors, event.code, event.feedback, event.step)
    return replace(state, feedback=(*state.feedback, event.feedback), detectors=counted)


def apply_usage_corrected(state: RunState, event: ev.UsageCorrected, _at: datetime) -> RunState:
    return _with_usage(state, event)


def apply_note_added(state: RunState, event: ev.NoteAdded, _at: datetime) -> RunState:
    noted = _with_log_entry(state, _system_entry(event.step, event.text))
    return clear_reported_finding(replace(noted, notes=(*state.notes, event.text)), event.text)


def apply_agent_transferred(state: RunState, event: ev.AgentTransferred, _at: datetime) -> RunState:
    context = None if event.context is None else as_text(event.context)
    state = replace(state, detectors=after_handoff(state.detectors, event))
    if event.target == state.agent_key:
        return replace(state, handoff=context, handoff_from=event.source)
    return replace(
        state,
        agent_key=event.target,
        epoch=event.epoch,
        handoff=context,
        handoff_from=event.source,
        outputs=(),
        output_bytes=0,
        older=(),
        older_count=0,
    )


def _answered(state: RunState, event: ev.DecisionReceived | ev.DecisionRequestFailed) -> RunState:
    """Clear the pending request; count what the answer cost and which entry of its script was played."""
    played = {} if event.script is None else {event.script.queue: event.script.index + 1}
    return replace(
        _with_usage(state, event),
        pending=tuple(effect for effect in state.pending if effect.kind is not EffectKind.DECIDE),
        cursors={**state.cursors, **played},
    )


def _with_usage(state: RunState, event: PaidEvent) -> RunState:
    usage, cost = add_usage(state.usage, state.cost, event)
    return replace(state, usage=usage, cost=cost)


def _system_entry(step: int, text: str) -> dict[str, Any]:
    return {"type": "system", "step": step, "text": truncate(text, REASONING_CHARS)}


def _with_log_entry(state: RunState, entry: dict[str, Any]) -> RunState:
    return replace(state, log_tail=(*state.log_tail, entry)[-LOG_TAIL:])
