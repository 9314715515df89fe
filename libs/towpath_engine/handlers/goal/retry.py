"""Asks for another attempt at a step whose action failed: a different action, after a wait.

A step has at most three actions, two and then four seconds apart, and no two of them are equal. A model that only
repeats itself has failed the step; the log records that, and the run goes on.
"""

from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_engine.handlers.decision_requests import back_off, request_assessment
from towpath_engine.handlers.goal.denials import is_denied, seek_alternative
from towpath_engine.handlers.goal.validate import REPEATED, action_failed
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loops.signatures import call_signature, errors_of
from towpath_engine.rules.decisions import DecisionRefusal
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

MAX_REFUSED = 3
"""Proposals for one attempt that are refused before the step has failed."""


def retry(run: TransitionBuilder) -> bool:
    """Ask for another action where the last one failed; return whether it asked."""
    goal = run.state.goal
    if goal is None or goal.validated_step == run.state.step:
        return False
    if goal.refused:
        return _ask_again(run, goal)
    if not action_failed(run.state) or goal.attempt >= run.state.created.goal_settings.step_attempts:
        return False
    if is_denied(run.state):
        return seek_alternative(run)
    attempt = goal.attempt + 1
    wait_s = wait_before(attempt)
    why = errors_of(run.state.calls)
    back_off(run, attempt, wait_s, why)
    most = run.state.created.goal_settings.step_attempts
    text = f"The action failed ({why}). This is attempt {attempt} of {most}: take a different action."
    run.emit(ev.NoteAdded(step=run.state.step, text=text))
    request_assessment(run, DecisionKind.REPLAN)
    return True


def wait_before(attempt: int) -> float:
    """Return the seconds before the *attempt*th action of a step: 2, 4, 8, …"""
    return float(2 ** (attempt - 1))


def _ask_again(run: TransitionBuilder, goal: GoalState) -> bool:
    """Only a further attempt is asked for again in the same step; a refused first proposal is a step of its own."""
    if goal.attempt == 1 or goal.refusals >= MAX_REFUSED:
        return False
    request_assessment(run, DecisionKind.REPLAN)
    return True


def check_goal_calls(state: RunState, instruction: CallToolsInstruction) -> DecisionRefusal | None:
    """Refuse a further attempt that is an action of this step once more."""
    goal = state.goal
    if goal is None or goal.attempt == 1 or call_signature(instruction.calls) not in goal.tried:
        return None
    names = ", ".join(call.tool for call in instruction.calls)
    feedback = f"{names} with these arguments was tried in this step already, and failed. Take a different action."
    return DecisionRefusal(code=REPEATED, feedback=feedback)
