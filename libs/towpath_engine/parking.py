"""Parking a run whose fact the machine can't apply (design §5): it stands still, and the others go on."""

from datetime import datetime

from towpath_contracts import events as ev
from towpath_engine.state import RunState
from towpath_engine.transition import Transition

ENGINE_ERROR = "engine_error"
"""Code of the event that parks such a run; a replay that meets the same error makes the same event."""

MESSAGE_CHARS = 500


def parking(state: RunState, error: Exception, now: datetime) -> Transition:
    """Return the transition that parks the run because of *error*."""
    transition = Transition(state=state, now=now)
    transition.emit(ev.RunQuarantined(code=ENGINE_ERROR, message=repr(error)[:MESSAGE_CHARS]))
    return transition
