"""Takes what child runs report of themselves, and lets the parent go on when the last one has ended.

A child may answer a tool call of the run, may do a step of its plan, or may be a nested swarm that the run was handed
over to. A run that is cancelled or quarantined takes the report, so that it knows what happened, and goes on with
nothing.
"""

from uuid import UUID

from towpath_contracts import facts
from towpath_engine.handlers.calls.tool_calls import after_call
from towpath_engine.handlers.cancel import finish_if_quiet
from towpath_engine.handlers.children import pending_children, take_child_report
from towpath_engine.handlers.phases import after_act
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.swarm.delegate import close_call_of
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import Status


def on_child_reported(t: TransitionBuilder, fact: facts.ChildReported) -> None:
    if not take_child_report(t, fact):
        return
    _after_child(t, fact.child_id)
    if t.state.status is Status.CANCELLING:
        finish_if_quiet(t)
    elif not t.state.is_final and not pending_children(t.state) and not stop_at_deadline(t):
        after_act(t)


def on_child_reported_after_end(t: TransitionBuilder, fact: facts.ChildReported) -> None:
    take_child_report(t, fact)


def on_child_reported_in_quarantine(t: TransitionBuilder, fact: facts.ChildReported) -> None:
    take_child_report(t, fact)
    for child in t.state.children:
        if child.child_id == fact.child_id and child.ended:
            close_call_of(t, child)


def _after_child(t: TransitionBuilder, child_id: UUID) -> None:
    child = next(c for c in t.state.children if c.child_id == child_id)
    call = close_call_of(t, child)
    if call is not None:
        after_call(t, call)
    child_ended = strategy_of(t).child_ended
    if child_ended is not None and t.state.status in (Status.RUNNING, Status.WAITING) and not stop_at_deadline(t):
        child_ended(t, child_id)
