"""Goal runs: the phases after an action, and the check whether the goal is reached.

A goal is reached when what happened meets its criteria. A model's own "done" only makes the platform look at them.
"""

from collections.abc import Callable

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.goal.confidence import check_confidence, take_confidence
from towpath_engine.handlers.goal.denials import seek_help
from towpath_engine.handlers.goal.progress import measure_progress, take_progress
from towpath_engine.handlers.goal.retry import retry
from towpath_engine.handlers.goal.validate import answer_claim, take_validation, validate
from towpath_engine.handlers.stop_checks.deadline import ask_at_deadline
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.criteria import criteria_of, final_of, reached
from towpath_engine.state.run import Status

CRITERIA_MET = "criteria_met"
PROGRESS_COMPLETE = "progress_complete"


def take_claim(_run: TransitionBuilder, _instruction: FinishInstruction) -> bool:
    """Take a model's claim that it is done. It ends nothing; the phases look at what happened."""
    return False


def stop_when_reached(run: TransitionBuilder) -> bool:
    """End a run whose goal is reached; return whether it is."""
    goal = run.state.goal
    if goal is None or not reached(run.state):
        return False
    reason = CRITERIA_MET if criteria_of(run.state) else PROGRESS_COMPLETE
    finish(run, Status.COMPLETED, reason, "", final=final_of(run.state, goal))
    return True


GOAL_PHASES: tuple[Callable[[TransitionBuilder], bool], ...] = (
    retry,
    validate,
    measure_progress,
    answer_claim,
    seek_help,
    check_confidence,
)
GOAL_CHECKS: tuple[Callable[[TransitionBuilder], bool], ...] = (ask_at_deadline, stop_when_reached)
GOAL_ANSWERS: dict[DecisionKind, Callable[[TransitionBuilder, JsonObject | None], None]] = {
    DecisionKind.VALIDATE: take_validation,
    DecisionKind.PROGRESS: take_progress,
    DecisionKind.CONFIDENCE: take_confidence,
}
