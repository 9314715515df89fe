"""Parking a run whose fact the machine can't apply: it stands still, and the others go on.

Whoever can't use an answer any more has nobody work for it: the children of a parked run are told to stop until
they have ended, and what they say then is kept for the cancel that the run may still take.
"""

from datetime import datetime

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import child_told, pending_children
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.swarm.delegate import close_call_of
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import RunState

ENGINE_ERROR = "engine_error"
"""Code of the event that parks such a run; a replay that meets the same error makes the same event."""

MESSAGE_CHARS = 500


def parking(state: RunState, error: Exception, now: datetime) -> TransitionBuilder:
    """Return the transition that parks the run because of *error*."""
    transition = TransitionBuilder(state=state, now=now)
    transition.emit(ev.RunQuarantined(code=ENGINE_ERROR, message=repr(error)[:MESSAGE_CHARS]))
    return transition


def quarantine(t: TransitionBuilder, code: str, message: str) -> None:
    """Park the run, and tell its children to stop."""
    t.emit(ev.RunQuarantined(code=code, message=message))
    for child in pending_children(t.state):
        t.ask(child.effect_id)


def while_parked(t: TransitionBuilder, fact: facts.AnyFact) -> None:
    """See to it that the children of a parked run end; it takes note of nothing else but a cancel."""
    if isinstance(fact, facts.TimerFired):
        for pending in pending_children(t.state):
            if pending.resend_at <= t.now:
                resend(t, pending)
    elif isinstance(fact, facts.ChildReported):
        child_told(t, fact)
        for child in t.state.children:
            if child.child_id == fact.child_id and child.ended:
                close_call_of(t, child)
