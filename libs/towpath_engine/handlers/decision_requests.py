"""Asks the decider: for the next decision, for another one of the same step, or for an assessment.

Only a request of kind `decide` opens a step. Assessments and further attempts belong to the step they are about, and
do not count against `max_steps`.
"""

from datetime import timedelta

from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.ids import request_id
from towpath_engine.handlers.reservations import emit_request
from towpath_engine.handlers.stop_checks.budgets import stop_without_budget
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.effects import model_for, settings_of
from towpath_engine.requests.network_context import input_preview


def request_decision(run: TransitionBuilder) -> None:
    """Open the next step; one that breaks out of a loop is asked for as another plan."""
    kind = DecisionKind.REPLAN if run.state.detectors.replan else DecisionKind.DECIDE
    _request(run, kind, run.state.step + 1)


def request_assessment(run: TransitionBuilder, kind: DecisionKind) -> None:
    """Ask for an assessment of the current step, or for its next attempt (`replan`)."""
    _request(run, kind, run.state.step)


def back_off(run: TransitionBuilder, attempt: int, wait_s: float, reason: str) -> None:
    """Let the next request of this run wait: the reconciler's timer sends it, there is no other."""
    run.emit(
        ev.BackedOff(step=run.state.step, attempt=attempt, until=run.now + timedelta(seconds=wait_s), reason=reason)
    )


def _request(run: TransitionBuilder, kind: DecisionKind, step: int) -> None:
    if stop_without_budget(run):
        return
    wanted = request_id(run.state.run_id, step, str(kind), run.state.requests)
    waits = run.state.backoff_until is not None
    if step > run.state.step and run.state.background is not None:
        run.emit(ev.IterationStarted(index=step))
    emit_request(
        run,
        ev.DecisionRequested(
            request_id=wanted,
            step=step,
            epoch=run.state.epoch,
            agent_key=run.state.agent_key,
            model=model_for(run.state, kind),
            kind=str(kind),
            input_preview=input_preview(run.state),
            settings=settings_of(run.state),
        ),
    )
    if not waits:
        run.send_effect(wanted)
