"""Quarantines a run that can't apply or store a fact, or whose log and ledger disagree: it stops, and others go on.

Its children's answers can't be used any more: they are asked to stop until they have ended. What they
report then is kept for the cancel that the run may still take.
"""

from datetime import datetime

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.gates import close_all_gates
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import RunState, Status

ENGINE_ERROR = "engine_error"
"""Code of the quarantine event; a replay that meets the same error makes the same event."""

MESSAGE_CHARS = 500


def quarantine_on_error(state: RunState, error: Exception, now: datetime) -> TransitionBuilder:
    """Return the transition that quarantines the run because of *error*."""
    transition = TransitionBuilder(state=state, now=now)
    transition.emit(ev.RunQuarantined(code=ENGINE_ERROR, message=repr(error)[:MESSAGE_CHARS]))
    return transition


def on_execution_conflict(run: TransitionBuilder, fact: facts.ExecutionConflictFact) -> None:
    """Quarantine the run and tell its children to stop: its log and the ledger disagree.

    A run that is being cancelled ends all the same.
    """
    if run.state.status is Status.CANCELLING:
        return
    _quarantine(run, "execution_conflict", fact.message)


def on_transition_refused(run: TransitionBuilder, fact: facts.TransitionRefusedFact) -> None:
    """Quarantine the run, also one that is being cancelled: without that fact nothing of it would ever go on."""
    _quarantine(run, "value_refused", f"{fact.refused}: {fact.message}"[:MESSAGE_CHARS])


def _quarantine(run: TransitionBuilder, code: str, message: str) -> None:
    close_all_gates(run, "the run is quarantined")
    run.emit(ev.RunQuarantined(code=code, message=message))
    for child in pending_children(run.state):
        run.send_effect(child.effect_id)
