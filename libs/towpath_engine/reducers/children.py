"""Applies the events of child runs to the state of their parent."""

from datetime import datetime, timedelta

from towpath_contracts.decisions.request import FullToolOutput
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text
from towpath_engine.reducers.budget import sum_costs, sum_usages
from towpath_engine.reducers.calls import with_outputs
from towpath_engine.state.replace import replace
from towpath_engine.state.run import EffectKind, PendingEffect, RunState, StepChild

CHILD_RESEND_S = 5
"""When a child that has not reported is asked for the first time."""

STOP_RESEND_S = 3
"""When a child is asked once more to stop; this does not depend on how often it was asked before."""


def resend_stop_soon(pending: PendingEffect, at: datetime) -> PendingEffect:
    """Return *pending* with an early resend where it is of a child, so that a lost stop message is soon repeated."""
    return (
        replace(pending, resend_at=at + timedelta(seconds=STOP_RESEND_S))
        if pending.kind is EffectKind.CHILD
        else pending
    )


def apply_child_started(state: RunState, event: ev.ChildStarted, at: datetime) -> RunState:
    pending = PendingEffect(
        effect_id=event.child_id,
        kind=EffectKind.CHILD,
        attempt=1,
        resend_at=at + timedelta(seconds=CHILD_RESEND_S),
        fence=state.fence,
    )
    task = event.task
    child = StepChild(
        child_id=event.child_id,
        step=event.step,
        index=event.index,
        agent_key=task.agent_key,
        purpose=task.purpose,
        subject=task.subject,
        execution_id=task.execution_id,
        policy_version=task.policy_version,
    )
    return replace(state, pending=(*state.pending, pending), children=(*state.children, child))


def apply_child_waits(state: RunState, event: ev.ChildGateWaitChanged, _at: datetime) -> RunState:
    children = tuple(
        replace(c, waits=event.waits, seq=event.child_seq) if c.child_id == event.child_id else c
        for c in state.children
    )
    return replace(state, children=children)


def apply_child_stopped(state: RunState, event: ev.ChildStopRequested, at: datetime) -> RunState:
    return replace(
        state,
        children=tuple(replace(c, stopped=event.reason) if c.child_id == event.child_id else c for c in state.children),
        pending=tuple(resend_stop_soon(p, at) if p.effect_id == event.child_id else p for p in state.pending),
    )


def apply_child_ended(state: RunState, event: ev.ChildEnded, _at: datetime) -> RunState:
    """Once the last one has ended, their answers are remembered in their order, like the outcomes of calls."""
    children = tuple(
        replace(
            c,
            ended=True,
            waits=False,
            seq=event.child_seq,
            status=event.status,
            reason=event.reason,
            final=event.final,
            worked=event.worked,
        )
        if c.child_id == event.child_id
        else c
        for c in state.children
    )
    cursors = dict(state.cursors)
    for queue, place in event.cursors.items():
        cursors[queue] = max(place, cursors.get(queue, 0))
    changed = replace(
        state,
        children=children,
        cursors=cursors,
        below=sum_costs(state.below, event.cost, event.below),
        usage_below=sum_usages(state.usage_below, event.usage, event.usage_below),
        pending=tuple(p for p in state.pending if p.effect_id != event.child_id),
    )
    own = [c for c in children if c.execution_id is None]
    if event.child_id not in [c.child_id for c in own] or not all(c.ended for c in own) or state.is_final:
        return changed
    completed = [c.final for c in own if c.status == "completed"]
    if state.composition is not None:
        return replace(changed, last_output=completed[-1] if completed else state.last_output)
    outputs = [_output(c) for c in own]
    last = completed[-1] if completed else state.last_output
    return replace(with_outputs(changed, [*outputs, *state.outputs]), last_output=last)


def _output(child: StepChild) -> FullToolOutput:
    completed = child.status == "completed"
    answer = child.final if completed else {"status": child.status, "reason": child.reason, "said": child.final}
    return FullToolOutput(
        execution_id=child.child_id,
        tool=f"agent:{child.agent_key}",
        step=child.step,
        status="succeeded" if completed else "failed",
        text=as_text(answer),
    )
