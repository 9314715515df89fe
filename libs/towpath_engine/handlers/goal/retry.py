"""Another attempt at a step whose action failed: a different one, after a wait.

At most three actions a step, two and then four seconds apart, and no two alike. A model that only repeats itself
has failed the step; that is said, and the run goes on.
"""

from towpath_contracts.decisions.decision import CallTools
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_engine.handlers.decision_requests import back_off, request_assessment
from towpath_engine.handlers.goal.denials import points_elsewhere, seek_alternative
from towpath_engine.handlers.goal.validate import REPEATED, action_failed
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loop_signatures import call_signature, errors_of
from towpath_engine.rules.decisions import Refusal
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

MAX_REFUSED = 3
"""Proposals for one attempt that are refused before the step has failed."""


def retry(t: TransitionBuilder) -> bool:
    """Ask for another action where the last one failed; says whether it did."""
    goal = t.state.goal
    if goal is None or goal.validated_step == t.state.step:
        return False
    if goal.refused:
        return _ask_again(t, goal)
    if not action_failed(t.state) or goal.attempt >= t.state.created.goal_settings.step_attempts:
        return False
    if points_elsewhere(t.state):
        return seek_alternative(t)
    attempt = goal.attempt + 1
    wait_s = wait_before(attempt)
    why = errors_of(t.state.calls)
    back_off(t, attempt, wait_s, why)
    most = t.state.created.goal_settings.step_attempts
    text = f"The action failed ({why}). This is attempt {attempt} of {most}: take a different action."
    t.emit(ev.NoteAdded(step=t.state.step, text=text))
    request_assessment(t, DecisionKind.REPLAN)
    return True


def wait_before(attempt: int) -> float:
    """Return the seconds before the *attempt*th action of a step: 2, 4, 8, …"""
    return float(2 ** (attempt - 1))


def _ask_again(t: TransitionBuilder, goal: GoalState) -> bool:
    """Only a further attempt is asked for again in the same step; a refused first proposal is a step of its own."""
    if goal.attempt == 1 or goal.refusals >= MAX_REFUSED:
        return False
    request_assessment(t, DecisionKind.REPLAN)
    return True


def objection(state: RunState, instruction: CallTools) -> Refusal | None:
    """Refuse a further attempt that is an action of this step once more."""
    goal = state.goal
    if goal is None or goal.attempt == 1 or call_signature(instruction.calls) not in goal.tried:
        return None
    names = ", ".join(call.tool for call in instruction.calls)
    feedback = f"{names} with these arguments was tried in this step already, and failed. Take a different action."
    return Refusal(code=REPEATED, feedback=feedback)
