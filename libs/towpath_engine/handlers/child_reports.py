"""Takes what child runs report of themselves, and lets the parent go on when the last one has ended.

A child may answer a tool call of the run, may do a step of its plan, or may be a nested swarm that the run was handed
over to. A run that is cancelled or quarantined takes the report, so that it knows what happened, and goes on with
nothing.
"""

from uuid import UUID

from towpath_contracts import facts
from towpath_engine.handlers.calls.call_order import after_call
from towpath_engine.handlers.cancel import finish_if_quiet
from towpath_engine.handlers.children import pending_children, take_child_report
from towpath_engine.handlers.phases import after_act
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.swarm.delegate import close_call_of
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import Status


def on_child_reported(run: TransitionBuilder, fact: facts.ChildReportedFact) -> None:
    if not take_child_report(run, fact):
        return
    _after_child(run, fact.child_id)
    if run.state.status is Status.CANCELLING:
        finish_if_quiet(run)
    elif not run.state.is_final and not pending_children(run.state) and not stop_at_deadline(run):
        after_act(run)


def on_child_reported_after_end(run: TransitionBuilder, fact: facts.ChildReportedFact) -> None:
    take_child_report(run, fact)


def on_child_reported_in_quarantine(run: TransitionBuilder, fact: facts.ChildReportedFact) -> None:
    take_child_report(run, fact)
    for child in run.state.children:
        if child.child_id == fact.child_id and child.ended:
            close_call_of(run, child)


def _after_child(run: TransitionBuilder, child_id: UUID) -> None:
    child = next(c for c in run.state.children if c.child_id == child_id)
    call = close_call_of(run, child)
    if call is not None:
        after_call(run, call)
    child_ended = strategy_of(run).on_child_ended
    if child_ended is not None and run.state.status in (Status.RUNNING, Status.WAITING) and not stop_at_deadline(run):
        child_ended(run, child_id)
