"""What the events of a goal run leave in its state."""

from towpath_contracts import events as ev
from towpath_engine.change import but
from towpath_engine.state import RunState


def goal_remembers(
    state: RunState, event: "ev.StepValidated | ev.ProgressMeasured | ev.ConfidenceMeasured"
) -> RunState:
    """Return *state* after *event*; that of another kind of run is unchanged."""
    goal = state.goal
    if goal is None:
        return state
    match event:
        case ev.StepValidated():
            return but(state, goal=but(goal, met=event.criteria))
        case ev.ProgressMeasured():
            measured = but(goal, progress=event.score, progress_source=event.source, progress_metrics=event.metrics)
            return but(state, goal=measured)
        case ev.ConfidenceMeasured():
            return but(state, goal=but(goal, confidence=event.score, confidence_step=event.step, wants_confidence=""))
