"""What a kind of run adds to the one step machine.

A strategy is a row of functions; it never loops, and never asks for a decision of its own accord outside a phase.
A phase says whether it asked for something (then the run waits for the answer and the phases are walked again), a check
whether it ended the run or made it wait.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import CallTools, Finish, GiveUp, Transfer
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.background.phases import (
    BACKGROUND_ANSWERS,
    BACKGROUND_CHECKS,
    BACKGROUND_LIMITS,
    BACKGROUND_PHASES,
    background_done,
    background_given_up,
)
from towpath_engine.handlers.decision_requests import request_decision
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.goal.phases import GOAL_ANSWERS, GOAL_CHECKS, GOAL_PHASES, goal_claimed
from towpath_engine.handlers.goal.retry import objection
from towpath_engine.handlers.plan.phases import COMPOSED_ANSWERS, COMPOSED_PHASES, compose, step_child_ended
from towpath_engine.handlers.swarm.handoff import answered, nested_ended, routed, stop_after_agent_steps
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.background import background_objection
from towpath_engine.rules.decisions import Refusal
from towpath_engine.state.run import RunState, Status

Phase = Callable[[TransitionBuilder], bool]
Answer = Callable[[TransitionBuilder, JsonObject | None], None]
"""Takes the answer to an assessment; None for one that can't be read."""


def respond(t: TransitionBuilder, instruction: Finish) -> bool:
    """End a network run with its answer."""
    finish(t, Status.COMPLETED, "responded", "", final=instruction.payload)
    return True


def abandon(t: TransitionBuilder, instruction: GiveUp) -> bool:
    """End a run that its model gives up."""
    finish(t, Status.ABANDONED, "abandoned", instruction.rationale)
    return True


def no_objection(_state: RunState, _instruction: CallTools) -> Refusal | None:
    """Let any action through that the agent may take."""
    return None


def pass_on(_t: TransitionBuilder, _instruction: Transfer) -> bool:
    """Let another agent of the run act, as its agent wants."""
    return True


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """`phases` come after the calls of a step, `checks` before the loop detectors of the next one, `limits` after.

    `done` takes an answer (RESPOND), `give_up` an abandonment; each says whether it ended the run. Where not, the
    phases are walked, as after a refusal and a handoff. `objection` refuses actions that the kind does not take.
    `hands_over` looks at a transfer that an agent wants, and says whether the other one is to act. `act` is what a step
    does: ask for a decision, or start what is to be done. `child_ended` looks at the end of each child, also while
    others still run.
    """

    phases: tuple[Phase, ...] = ()
    checks: tuple[Phase, ...] = ()
    limits: tuple[Phase, ...] = ()
    answers: Mapping[DecisionKind, Answer] = field(default_factory=dict)
    done: Callable[[TransitionBuilder, Finish], bool] = respond
    give_up: Callable[[TransitionBuilder, GiveUp], bool] = abandon
    hands_over: Callable[[TransitionBuilder, Transfer], bool] = pass_on
    objection: Callable[[RunState, CallTools], Refusal | None] = no_objection
    act: Callable[[TransitionBuilder], None] = request_decision
    child_ended: Callable[[TransitionBuilder, UUID], None] | None = None


COMPOSED = Strategy(phases=COMPOSED_PHASES, answers=COMPOSED_ANSWERS, act=compose, child_ended=step_child_ended)
"""Of runs that ask no model for decisions: a plan, or the flow of a workflow, says what comes next."""

STRATEGIES: dict[str, Strategy] = {
    "network": Strategy(),
    "goal": Strategy(
        phases=GOAL_PHASES, checks=GOAL_CHECKS, answers=GOAL_ANSWERS, done=goal_claimed, objection=objection
    ),
    "background": Strategy(
        phases=BACKGROUND_PHASES,
        checks=BACKGROUND_CHECKS,
        limits=BACKGROUND_LIMITS,
        answers=BACKGROUND_ANSWERS,
        done=background_done,
        give_up=background_given_up,
        objection=background_objection,
    ),
    "plan": COMPOSED,
    "workflow": COMPOSED,
    "handoff": Strategy(limits=(stop_after_agent_steps,), done=answered, hands_over=routed, child_ended=nested_ended),
    "team": Strategy(limits=(stop_after_agent_steps,)),
}


def strategy_of(t: TransitionBuilder) -> Strategy:
    """Return the strategy of the run's kind; of a swarm, that of its mode."""
    created = t.state.created
    return STRATEGIES[created.kind if created.swarm is None else created.swarm.swarm.mode]
