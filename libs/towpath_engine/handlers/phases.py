"""Walks the phases that follow an action: validate the result, reflect, check whether to stop.

The phases of the run's kind are walked from the first, each time something was answered; each phase knows from the
state whether it is done for this step. The first phase that asks for something ends the walk.
"""

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import ANSWERS
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.steps import begin_step, finish_instruction, is_awaiting
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.transition import TransitionBuilder


def after_calls_joined(run: TransitionBuilder) -> None:
    """All calls of the step are finished: go on, with the results in call order."""
    if not run.state.created.single_instruction:
        after_act(run)
    elif not stop_at_deadline(run):
        finish_instruction(run)


def after_act(run: TransitionBuilder) -> None:
    """Walk the phases of the run's kind; when none wants anything, check every reason to stop and begin a step.

    While an answer is on its way, or a person is asked about the run, nothing else is asked: whoever answers last
    comes here again. A question that was given up meanwhile comes first: its step is not over.
    """
    if is_awaiting(run.state):
        return
    if run.state.unanswered:
        request_assessment(run, DecisionKind(run.state.asked))
        return
    for phase in strategy_of(run).phases:
        if phase(run) or run.state.is_final or run.state.gates:
            return
    if not run.state.is_final:
        begin_step(run)


def take_assessment(run: TransitionBuilder, kind: DecisionKind, answer: JsonObject) -> None:
    """Take the answer to an assessment; what can't be read is passed on as None, and fails closed."""
    _take(run, kind, validated_answer(kind, answer))


def _take(run: TransitionBuilder, kind: DecisionKind, answer: JsonObject | None) -> None:
    take = strategy_of(run).answers.get(kind)
    if take is not None:
        take(run, answer)
    if not run.state.is_final:
        after_act(run)


def validated_answer(kind: DecisionKind, answer: JsonObject) -> JsonObject | None:
    """Return *answer* with its defaults filled in; None where it is not an answer to *kind*.

    A plan is checked where it is taken, so that every fault of it can be reported.
    """
    if kind is DecisionKind.COMPILE_PLAN:
        return answer
    try:
        return ANSWERS[kind].model_validate(answer).model_dump(mode="json")
    except ValidationError:
        return None


def take_unreadable_assessment(run: TransitionBuilder, kind: DecisionKind) -> None:
    """An assessment whose answer could not be read fails closed; the run goes on."""
    _take(run, kind, None)
