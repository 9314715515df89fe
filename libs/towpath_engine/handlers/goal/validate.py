"""Validates each step of a goal run, after all its attempts.

A failed action is judged by its outcome alone. A model is asked where the outcome does not decide; an answer that can't
be read counts as a failed step.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import starts_child
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loops.signatures import errors_of
from towpath_engine.rules.criteria import (
    criteria_of,
    describe_criteria,
    describe_unmet,
    has_texts,
    may_be_judged,
    met_now,
    reached,
    successful_specialists,
    unshown,
)
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

NOT_REACHED = "goal_not_reached"
"""The code of a refused claim."""

REPEATED = "action_repeated"
"""The code of a further attempt that is the same as one before."""


def action_failed(state: RunState) -> bool:
    """Return whether every call of the step's last action failed."""
    return bool(state.calls) and all(call.status != "succeeded" for call in state.calls)


def validate(run: TransitionBuilder) -> bool:
    """Validate the step by its record, or ask a model; return whether it was asked."""
    goal = run.state.goal
    if goal is None or goal.validated_step == run.state.step:
        return False
    if goal.claimed is not None and not criteria_of(run.state):
        return False  # progress decides, and is measured next
    if goal.refused:
        _emit_measured(run, goal, "outcome", success=False, reason=_refused(goal), signature=f"refused:{goal.refused}")
    elif action_failed(run.state) and not successful_specialists(run.state):
        reason, signature = _failure(run.state, goal), errors_of(run.state.calls)
        _emit_measured(run, goal, "outcome", success=False, reason=reason, signature=signature)
    elif _needs_model(run.state, goal):
        request_assessment(run, DecisionKind.VALIDATE)
        return True
    else:
        _by_record(run, goal)
    return False


def take_validation(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take a model's judgement of the step; one that can't be read counts as not valid."""
    goal = run.state.goal
    if goal is None:
        return
    judged = answer or {"valid": False, "reason": "the validation could not be read", "criteria": [], "uncertain": True}
    met = met_now(run.state, goal, judged)
    without = unshown(run.state, goal, judged)
    unmet = describe_unmet(run.state, met) if goal.claimed is not None else ""
    success = judged["valid"] and not unmet
    reason = f"not done: {unmet}" if unmet else judged["reason"]
    signature = "" if success else f"validation:{NOT_REACHED if unmet else 'not_valid'}"
    if without:
        missing = f"nothing of this run is named that shows {describe_criteria(run.state, without)}"
        reason = f"{reason}; {missing}" if reason else missing
        if goal.claimed is not None:
            run.emit(ev.NoteAdded(step=run.state.step, text=f"{missing[0].upper()}{missing[1:]}: do what shows it."))
    _emit(run, goal, "model", success, reason, met, signature, uncertain=judged["uncertain"])


def answer_claim(run: TransitionBuilder) -> bool:
    """Tell a model that claims to be done what is missing; the run goes on."""
    goal = run.state.goal
    if goal is None or goal.claimed is None or goal.refused == NOT_REACHED:
        return False
    done = reached(run.state)
    if goal.validated_step != run.state.step:  # no criteria: what was measured decides
        reason = f"progress is {goal.progress:.2f} by {goal.progress_source}"
        _emit_measured(
            run, goal, "none", success=done, reason=reason, signature="" if done else f"refused:{NOT_REACHED}"
        )
    if not done:
        run.emit(
            ev.DecisionRefused(
                step=run.state.step,
                epoch=run.state.epoch,
                agent_key=run.state.agent_key,
                code=NOT_REACHED,
                feedback=_not_done(run.state),
            )
        )
    return False


def _not_done(state: RunState) -> str:
    goal = state.goal or GoalState()
    unmet = describe_unmet(state, goal.met)
    if not may_be_judged(state, goal) and (has_texts(state) or not criteria_of(state)):
        return "Not done: no call has succeeded in this run, and words alone show nothing. Do it with your tools."
    if unmet:
        return f"Not done: these acceptance criteria are not met: {unmet}. Go on."
    if criteria_of(state):
        return "Not done: nobody could confirm that the acceptance criteria are met. Go on."
    return f"Not done: progress is {goal.progress:.2f} by {goal.progress_source}, not 1. Go on."


def _needs_model(state: RunState, goal: GoalState) -> bool:
    """Return whether the record is not enough: a text must be judged, or a result has no declared shape."""
    texts = has_texts(state)
    if goal.claimed is not None:
        return texts
    if not state.created.goal_settings.validate_steps or not state.calls:
        return False
    return texts or not _self_evident(state)


def _self_evident(state: RunState) -> bool:
    if successful_specialists(state):
        return True
    specs = [state.snapshot.all_tools[call.call.tool] for call in state.calls]
    known = all(spec.reports or (spec.internal and not starts_child(spec.name)) for spec in specs)
    return known and all(call.status == "succeeded" for call in state.calls)


def _by_record(run: TransitionBuilder, goal: GoalState) -> None:
    met = met_now(run.state, goal)
    unmet = describe_unmet(run.state, met) if goal.claimed is not None else ""
    source = "outcome" if run.state.calls or goal.claimed is not None else "none"
    signature = f"refused:{NOT_REACHED}" if unmet else ""
    _emit(run, goal, source, not unmet, f"not done: {unmet}" if unmet else _by_others(run.state), met, signature)


def _by_others(state: RunState) -> str:
    return "; ".join(
        f"{child.agent_key} did {child.subject} in run {child.child_id}" for child in successful_specialists(state)
    )


def _failure(state: RunState, goal: GoalState) -> str:
    names = ", ".join(sorted({call.call.tool for call in state.calls}))
    many = f"after {goal.attempt} attempts" if goal.attempt > 1 else "at the first attempt"
    return f"failed {many}: {names}: {errors_of(state.calls)}"


def _refused(goal: GoalState) -> str:
    if goal.attempt == 1:
        return goal.refusal
    if goal.refused == REPEATED:
        return f"only repeats: attempt {goal.attempt} was proposed {goal.refusals} times as it had been tried before"
    return f"no usable other action in attempt {goal.attempt}: {goal.refusal}"


def _emit_measured(
    run: TransitionBuilder, goal: GoalState, source: str, *, success: bool, reason: str, signature: str
) -> None:
    _emit(run, goal, source, success, reason, met_now(run.state, goal), signature)


def _emit(
    run: TransitionBuilder,
    goal: GoalState,
    source: str,
    success: bool,
    reason: str,
    met: tuple[int, ...],
    signature: str,
    *,
    uncertain: bool = False,
) -> None:
    if goal.misreported:
        reason = f"{reason}; {goal.misreported}" if reason else goal.misreported
        run.emit(ev.NoteAdded(step=run.state.step, text=f"{goal.misreported}. It counts as no report."))
    run.emit(
        ev.StepResultValidated(
            step=run.state.step,
            attempt=goal.attempt,
            source=source,
            success=success,
            reason=reason,
            criteria=met,
            error_signature=signature,
            uncertain=uncertain,
        )
    )
