"""Applies the events of plans and swarms."""

from datetime import datetime

from towpath_contracts.events import log as ev
from towpath_engine.reducers.background import active_ms
from towpath_engine.state.plan import HandoffState, PlanRunState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState


def composes(created: ev.RunCreated) -> bool:
    """Return whether a run starts child runs instead of asking a model: a plan, and the flow of a workflow, do."""
    if created.swarm is not None:
        return created.swarm.swarm.mode == "workflow"
    return created.plan is not None


def with_plan_or_swarm(state: RunState, created: ev.RunCreated) -> RunState:
    """Return *state* with the parts that a plan, or a swarm, begins with; any other run has none."""
    if created.swarm is None and created.plan is None:
        return state
    return replace(
        state,
        swarm=None if created.swarm is None else HandoffState(),
        composition=PlanRunState() if composes(created) else None,
    )


def apply_plan_moved(state: RunState, event: ev.PlanStateChanged, _at: datetime) -> RunState:
    held = state.composition or PlanRunState()
    asked = event.target == "planner_active"
    error = event.error if event.error is not None else held.error
    moved = replace(held, phase=event.target, error=error, attempts=held.attempts + asked)
    return replace(state, composition=moved)


def apply_plan_accepted(state: RunState, event: ev.PlanAccepted, _at: datetime) -> RunState:
    held = state.composition or PlanRunState()
    return replace(state, composition=replace(held, plan=event.plan, origin=event.origin))


def apply_plan_step_started(state: RunState, event: ev.PlanStepStarted, at: datetime) -> RunState:
    held = state.composition or PlanRunState()
    started = replace(held, at=event.index, inputs=event.inputs, began_ms=active_ms(state, at))
    return replace(state, composition=started, step=event.index + 1, children=(), calls=())


def apply_plan_step_ended(state: RunState, event: ev.PlanStepEnded, _at: datetime) -> RunState:
    held = state.composition or PlanRunState()
    ended = replace(held, reports=(*held.reports, event.report), results={**held.results, **event.bindings})
    return replace(state, composition=ended)


def apply_handed_off(state: RunState, event: ev.SwarmHandoffRequested, _at: datetime) -> RunState:
    swarm = state.swarm or HandoffState()
    return replace(state, swarm=replace(swarm, handoffs=event.count, began_step=event.step))
