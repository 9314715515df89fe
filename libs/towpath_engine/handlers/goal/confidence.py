"""Checks the confidence of a goal run: every few steps, on stated doubt, on request, and after failures.

An answer that can't be read counts as no confidence. Low confidence is decided by a person or by the model itself,
depending on the autonomy of the run.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.goal_context import confidence_payload
from towpath_engine.rules.autonomy import FAILURES_ASKED, who_decides
from towpath_engine.rules.criteria import reached
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

GATE = "low_confidence"
INTERVAL = "interval"
FAILURES = "failures"


def check_confidence(run: TransitionBuilder) -> bool:
    """Ask for the model's confidence where there is a reason; return whether it was asked."""
    goal = run.state.goal
    if goal is None or goal.confidence_step == run.state.step or reached(run.state) or not trigger_of(run.state, goal):
        return False
    request_assessment(run, DecisionKind.CONFIDENCE)
    return True


def trigger_of(state: RunState, goal: GoalState) -> str:
    """Return why confidence is checked after this step: requested, uncertain, failures, interval; empty for not at all.

    The interval counts steps from the first: 5, 10, 15, whatever was checked in between.
    """
    settings = state.created.goal_settings
    if goal.doubt:
        return goal.doubt
    helped = goal.helped_step == state.step  # by another agent or a person: that is an answer to the failure
    if goal.consecutive_failures and not goal.consecutive_failures % FAILURES_ASKED[settings.autonomy] and not helped:
        return FAILURES
    return INTERVAL if state.step % settings.confidence_every == 0 else ""


def take_confidence(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take the answer; a low one goes to a person or back to the model."""
    goal = run.state.goal
    if goal is None:
        return
    settings = run.state.created.goal_settings
    trigger = trigger_of(run.state, goal) or INTERVAL
    score = 0.0 if answer is None else min(1.0, max(0.0, answer["confidence"]))
    reason = "the answer could not be read" if answer is None else answer["reason"]
    run.emit(ev.GoalConfidenceMeasured(step=run.state.step, score=score, trigger=trigger, reason=reason))
    low = score < settings.confidence_threshold
    finding = f"Low confidence: {score:.2f}" if low else f"Confidence {score:.2f}, asked for: {trigger}"
    match who_decides(settings.autonomy, trigger, score, settings.confidence_threshold):
        case "person":
            detail = {**confidence_payload(run.state), "confidence": score, "trigger": trigger, "why": reason}
            open_run_gate(run, GATE, f"confidence:{run.state.step}", finding, detail)
        case "model":
            text = f"{finding} ({reason}). Change the way to the goal, or ask a person with REQUEST_GATE."
            run.emit(ev.NoteAdded(step=run.state.step, text=text))
        case "nobody":
            return
