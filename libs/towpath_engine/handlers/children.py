"""Starts child runs, takes their reports, and makes the report of a run to its own parent.

A child begins in the transition that appends `child_started`, with its whole first record. Its id follows from the
parent, the step and its index, and begins with the time of that transition, as every run id must. Depth, steps, time
and rights are never more than the parent's. The parent waits for a child as for any other effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from towpath_contracts import facts
from towpath_contracts.budgets import ChildRunBudget
from towpath_contracts.decisions.earlier_turns import ContinuedRun
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.runs.children import ChildTask, ParentRun
from towpath_contracts.tools.grants import grant_chain
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import active_ms
from towpath_engine.reducers.budget import total_cost
from towpath_engine.reducers.loops.inheritance import counters_for_child
from towpath_engine.reducers.references import inline_or_reference
from towpath_engine.state.earlier_turns import summary_of
from towpath_engine.state.run import (
    FINAL,
    NO_COST,
    NO_USAGE,
    STOPPING,
    EffectKind,
    PendingEffect,
    RunState,
    Status,
    StepChild,
)

_RANDOM_BITS = (1 << 62) - 1
_MAX_INDEX = (1 << 12) - 1

UNREADABLE = "log_unreadable"
"""Why a run is quarantined that can't even be cancelled: its log can't be folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChildRun:
    """A child run that was started, and the first event of its log."""

    child_id: UUID
    task: ev.RunCreated


def depth_of(state: RunState) -> int:
    """Return how deep the run stands below the one that a caller submitted."""
    parent = state.created.parent
    return 0 if parent is None else parent.depth


def child_depth(state: RunState) -> int:
    """Return how deep a child of the run stands.

    An agent asks for a plan to have agents work: so these stand as deep as the plan, and agents nest as they ask.
    """
    ordered = state.created.plan is not None and state.created.parent is not None
    return depth_of(state) if ordered else depth_of(state) + 1


def can_spawn(state: RunState) -> bool:
    """Return whether the run may have children: depth is bounded."""
    return child_depth(state) <= state.caps.max_depth


def too_deep(state: RunState) -> str:
    """Say why the run may have no children."""
    return f"children stand at most {state.caps.max_depth} deep"


def child_id(parent: UUID, step: int, index: int, at: datetime) -> UUID:
    """Name a child: a UUIDv7 of the moment, whose other bits follow from its arguments (RFC 9562, section 5.7).

    Children of one moment sort by their index.
    """
    low = uuid5(parent, f"child:{step}:{index}").int & _RANDOM_BITS
    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | min(index, _MAX_INDEX) << 64 | 0b10 << 62 | low)


def created_at_ms(child: UUID) -> int:
    """Return when a child was created, in milliseconds since 1970: its id begins with that."""
    return child.int >> 80


def spawn_children(run: TransitionBuilder, tasks: Sequence[ChildTask]) -> None:
    """Start a child for each of *tasks*; they run at the same time. Raises ValueError beyond the maximum depth."""
    if not can_spawn(run.state):
        msg = too_deep(run.state)
        raise ValueError(msg)
    begin = len(run.state.children)
    for place, task in enumerate(tasks, start=begin):
        run.emit(
            ev.ChildStarted(
                child_id=child_id(run.state.run_id, run.state.step, place, run.now),
                step=run.state.step,
                index=place,
                task=_bounded(run, task),
            )
        )


def _bounded(run: TransitionBuilder, task: ChildTask) -> ChildTask:
    """Return *task* with no more steps and time than its parent has left."""
    own = run.state.created
    deadline = run.state.active_deadline()
    standing = own.timeout_ms - active_ms(run.state, run.now)  # while the run waits for people it has no deadline
    left = max(1, standing if deadline is None else int((deadline - run.now).total_seconds() * 1000))
    return task.model_copy(
        update={
            "max_steps": min(task.max_steps or own.max_steps, own.max_steps),
            "timeout_ms": min(task.timeout_ms or left, left),
        }
    )


def _carved(event: ev.ChildStarted) -> tuple[ChildRunBudget, ...]:
    held = event.task.carve_out
    return () if held is None else (ChildRunBudget(run_id=event.child_id, budget=held),)


def kind_of(task: ChildTask) -> str:
    """Return the kind of run that *task* makes."""
    kinds = {"goal": task.goal, "plan": task.plan, "swarm": task.swarm}
    return next((kind for kind, given in kinds.items() if given is not None), "network")


def new_child_run(state: RunState, event: ev.ChildStarted) -> NewChildRun:
    """Return what the run of a child begins with; rights narrow: its own matrix, and every grant of its parent.

    How long that chain may be was looked at when the task was taken: what was taken once goes on.
    """
    own, task = state.created, event.task
    above = ParentRun(
        run_id=state.run_id,
        root_id=state.run_id if own.parent is None else own.parent.root_id,
        step=event.step,
        index=event.index,
        depth=child_depth(state),
        max_parallel=state.max_parallel,
        wants_criteria=task.goal is not None and task.execution_id is not None,
    )
    created = own.model_copy(
        update={
            "kind": kind_of(task),
            "goal": task.goal,
            "background": None,
            "plan": task.plan,
            "swarm": task.swarm,
            "agent_key": task.agent_key,
            "user_message": task.user_message,
            "max_steps": task.max_steps or own.max_steps,
            "timeout_ms": task.timeout_ms or own.timeout_ms,
            "grants": grant_chain(own.grants, own.grant),
            "grant": None,
            "single_instruction": False,
            "response_schema": task.response_schema,
            "forked_from": None,
            "continues": _continues(state),
            "carve_outs": (*own.carve_outs, *_carved(event)),
            "parent": above,
            "spent": total_cost(state),
            "detectors": counters_for_child(state.detectors),
            "cursors": {queue: place for queue, place in state.cursors.items() if queue == task.agent_key},
        }
    )
    return NewChildRun(child_id=event.child_id, task=created)


def _continues(state: RunState) -> ContinuedRun | None:
    """Return of which thread a child is: it has the summary that its parent has, and asks for none."""
    before = state.created.continues
    return before and before.model_copy(update={"to_summarize": (), "summary": summary_of(state)})


def take_child_report(run: TransitionBuilder, fact: facts.ChildReportedFact) -> bool:
    """Take what a child reports of itself; return whether it has ended now."""
    child = next((c for c in run.state.children if c.child_id == fact.child_id), None)
    if child is None or child.ended or fact.child_seq <= child.seq:
        return False
    if fact.status == Status.QUARANTINED and fact.reason != UNREADABLE and _is_stopping(run.state):
        return False  # it takes the cancel, and then reports an end of its own
    if fact.ended:
        run.emit(
            ev.ChildEnded(
                child_id=fact.child_id,
                step=child.step,
                index=child.index,
                status=fact.status,
                reason=fact.reason,
                final=fact.final,
                usage=fact.usage,
                cost=fact.cost,
                below=fact.below,
                usage_below=fact.usage_below,
                child_seq=fact.child_seq,
                cursors=fact.cursors,
                worked=fact.worked,
            )
        )
        return True
    waits = fact.status == Status.WAITING
    if waits != child.waits or fact.news:  # a newer report must be known as newer than one that arrives after it
        run.emit(ev.ChildGateWaitChanged(child_id=fact.child_id, waits=waits, child_seq=fact.child_seq))
    return False


def _is_stopping(state: RunState) -> bool:
    return state.is_final or state.status in STOPPING


def is_over(status: str) -> bool:
    """Return whether a child of that status gives no answer any more: it has ended, or is quarantined."""
    return status in FINAL or status == Status.QUARANTINED


def pending_children(state: RunState) -> list[PendingEffect]:
    """Return the children that have not ended."""
    return [pending for pending in state.pending if pending.kind is EffectKind.CHILD]


def stop_child(run: TransitionBuilder, child: StepChild, reason: str) -> None:
    """Ask a child to stop, until it has ended. A child that has ended, or was asked already, changes nothing."""
    if not child.ended and not child.stopped:
        run.emit(ev.ChildStopRequested(child_id=child.child_id, reason=reason))
        run.send_effect(child.child_id)


def cost_of_children(state: RunState) -> Cost | None:
    """Return what the run's children have cost; None where that is nothing."""
    return None if state.below == NO_COST else state.below


def usage_of_children(state: RunState) -> Usage | None:
    """Return what the run's children have used; None where that is nothing."""
    return None if state.usage_below == NO_USAGE else state.usage_below


def report_for_parent(state: RunState) -> facts.ChildReportedFact | None:
    """Return what a child run reports to its parent of this state; None for a run without a parent."""
    parent = state.created.parent
    if parent is None:
        return None
    return facts.ChildReportedFact(
        run_id=parent.run_id,
        fact_id=f"{state.run_id}:{state.seq}",
        child_id=state.run_id,
        child_seq=state.seq,
        status=str(state.status),
        ended=is_over(state.status),
        news=True,
        reason=state.reason,
        final=inline_or_reference(state.final),
        usage=state.usage,
        cost=state.cost,
        below=cost_of_children(state),
        usage_below=usage_of_children(state),
        cursors={queue: place for queue, place in state.cursors.items() if queue == state.created.agent_key},
        worked=state.worked,
    )
