"""Measures the progress of a goal run: by tests, else by artifacts, else by asking a model.

Numbers come from tools that declare the shape of their reports. A model is asked only where there is neither a test
report nor an artifact, and only about a step that succeeded.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.tools.reports import ProgressMeasure, progress_by_artifacts, progress_by_tests
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.criteria import DONE, criteria_of, reached
from towpath_engine.rules.evidence import evidence_search, is_shown
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

UNSHOWN = 0.9
"""The most that a model's word is worth which names no evidence: as of tests of which one fails."""


def measure_progress(run: TransitionBuilder) -> bool:
    """Measure how far the goal is where something new is known, or ask a model; return whether it was asked."""
    goal = run.state.goal
    if goal is None or goal.progress_step == run.state.step:
        return False
    if goal.fresh:
        _by_reports(run, goal)
        return False
    if goal.tests is not None or goal.artifacts or not _asks_model(run.state, goal):
        return False
    request_assessment(run, DecisionKind.PROGRESS)
    return True


def take_progress(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take a model's estimate of progress; one that can't be read, or has none, leaves progress unchanged."""
    goal = run.state.goal
    if goal is None:
        return
    measured = None if answer is None else answer["progress"]
    reason = "the answer could not be read" if answer is None else answer["reason"]
    score = goal.progress if measured is None else min(1.0, max(0.0, measured))
    if (
        answer is not None
        and measured is not None
        and score >= DONE
        and not is_shown(evidence_search(run.state, goal), answer["evidence"])
    ):
        score, reason = UNSHOWN, f"{reason}; nothing of this run is named that shows it".removeprefix("; ")
    source = "none" if measured is None else "model"
    run.emit(ev.ProgressMeasured(step=run.state.step, source=source, score=score, reason=reason))


def _asks_model(state: RunState, goal: GoalState) -> bool:
    """A claim without criteria rests on progress alone; another step is measured where steps are validated."""
    if reached(state):
        return False
    if goal.claimed is not None:
        return not criteria_of(state)
    return state.created.goal_settings.validate_steps and goal.succeeded and bool(state.calls)


def _by_reports(run: TransitionBuilder, goal: GoalState) -> None:
    if goal.tests is not None:
        _emit(run, "tests", progress_by_tests(goal.tests, goal.measured_tests))
    elif goal.measured_tests is None and goal.artifacts:
        _emit(run, "artifacts", progress_by_artifacts(goal.artifacts, goal.expected_artifacts))
    else:
        _emit(run, "tests", ProgressMeasure(score=0.0), goal.misreported or "no test ran")


def _emit(run: TransitionBuilder, source: ev.ProgressSource, measure: ProgressMeasure, reason: str = "") -> None:
    run.emit(
        ev.ProgressMeasured(
            step=run.state.step,
            source=source,
            score=measure.score,
            metrics=measure.metrics,
            reason=reason,
            artifacts=() if run.state.goal is None else run.state.goal.artifacts,
        )
    )
