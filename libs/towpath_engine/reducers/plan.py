"""What the events of plans and swarms leave in the state."""

from datetime import datetime

from towpath_contracts.events import log as ev
from towpath_engine.reducers.background import active_ms
from towpath_engine.state.plan import Composition, SwarmState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState

Composed = ev.PlanMoved | ev.PlanAccepted | ev.PlanStepStarted | ev.PlanStepEnded | ev.HandedOff


def composes(created: "ev.RunCreated") -> bool:
    """Say whether a run starts child runs instead of asking a model: a plan, and the flow of a workflow, do."""
    if created.swarm is not None:
        return created.swarm.swarm.mode == "workflow"
    return created.plan is not None


def begun(state: RunState, created: "ev.RunCreated") -> RunState:
    """Return *state* with the parts that a plan, or a swarm, begins with; any other run has none."""
    if created.swarm is None and created.plan is None:
        return state
    return replace(
        state,
        swarm=None if created.swarm is None else SwarmState(),
        composition=Composition() if composes(created) else None,
    )


def composition_remembers(state: RunState, event: Composed, at: datetime) -> RunState:
    """Return *state* after *event*."""
    if isinstance(event, ev.HandedOff):
        swarm = state.swarm or SwarmState()
        return replace(state, swarm=replace(swarm, handoffs=event.count, began_step=event.step))
    held = state.composition or Composition()
    match event:
        case ev.PlanMoved():
            asked = event.target == "planner_active"
            error = event.error if event.error is not None else held.error
            moved = replace(held, phase=event.target, error=error, attempts=held.attempts + asked)
            return replace(state, composition=moved)
        case ev.PlanAccepted():
            return replace(state, composition=replace(held, plan=event.plan, origin=event.origin))
        case ev.PlanStepStarted():
            begun_step = replace(held, at=event.index, inputs=event.inputs, began_ms=active_ms(state, at))
            return replace(state, composition=begun_step, step=event.index + 1, children=(), calls=())
        case ev.PlanStepEnded():
            ended = replace(held, reports=(*held.reports, event.report), results={**held.results, **event.bindings})
            return replace(state, composition=ended)
