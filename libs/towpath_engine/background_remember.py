"""What the events of a background run leave in its state."""

from towpath_contracts import events as ev
from towpath_engine.change import but
from towpath_engine.state import RunState


def background_remembers(state: RunState, event: "ev.Reflected | ev.Summarized") -> RunState:
    """Return *state* after *event*; that of another kind of run is unchanged."""
    background = state.background
    if background is None:
        return state
    match event:
        case ev.Reflected():
            notes = (*background.reflections, event.note) if event.note else background.reflections
            return but(state, background=but(background, reflections=notes))
        case ev.Summarized():
            return but(state, background=but(background, summary=event.summary, deliverable=event.deliverable))
