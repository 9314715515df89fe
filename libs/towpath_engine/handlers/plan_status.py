"""The state machine of a plan or workflow.

Every transition is in the table and becomes an event of the log. One that is not in the table is a defect, and raises.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanState, PlanTrigger
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.plan import PlanRunState

FINAL_PLAN_STATES: frozenset[PlanState] = frozenset({"completed", "failed"})

_LIVE: tuple[PlanState, ...] = (
    "plan_init",
    "planner_active",
    "plan_validated",
    "dispatching_step",
    "awaiting_results",
    "merging_results",
)

_ENDS: tuple[PlanTrigger, ...] = ("timeout", "cancelled", "panic")
"""What can happen in every state: time is up, a person cancels, or the run is ended by anything else."""

PLAN_TRANSITIONS: dict[tuple[PlanState, PlanTrigger], PlanState] = {
    ("plan_init", "start_plan"): "planner_active",
    ("planner_active", "start_plan"): "planner_active",  # the one corrective retry
    ("planner_active", "planner_finished"): "plan_validated",
    ("planner_active", "validation_failed"): "failed",
    ("plan_validated", "dispatch_step"): "dispatching_step",
    ("dispatching_step", "step_dispatched"): "awaiting_results",
    ("dispatching_step", "step_failed"): "failed",
    ("awaiting_results", "step_succeeded"): "merging_results",
    ("awaiting_results", "parallel_complete"): "merging_results",
    ("awaiting_results", "step_failed"): "failed",
    ("merging_results", "next_step"): "dispatching_step",
    ("merging_results", "all_done"): "completed",
    **{(state, trigger): "failed" for state in _LIVE for trigger in _ENDS},
}


class IllegalPlanTransitionError(ValueError):
    """The table has no such transition."""


def target_of(state: PlanState, trigger: PlanTrigger) -> PlanState:
    """Return where *trigger* leads from *state*; raises IllegalPlanTransitionError."""
    target = PLAN_TRANSITIONS.get((state, trigger))
    if target is None:
        msg = f"{trigger} is not possible in {state}"
        raise IllegalPlanTransitionError(msg)
    return target


def move_plan(
    run: TransitionBuilder, trigger: PlanTrigger, *, step_id: str = "", error: JsonObject | None = None
) -> None:
    """Go from the run's state to the next one and say so in the log; raises IllegalPlanTransitionError."""
    source = (run.state.composition or PlanRunState()).phase
    target = target_of(source, trigger)
    run.emit(ev.PlanStateChanged(source=source, trigger=trigger, target=target, step_id=step_id, error=error))
