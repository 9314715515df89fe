"""The kinds of runs, as strategies of one step machine.

A strategy is a row of functions. It never loops, and never asks for a decision outside a phase. A phase returns whether
it asked for something: then the run waits, and the phases are walked again after the answer. A check returns whether it
ended the run or made it wait.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import (
    AbandonInstruction,
    CallToolsInstruction,
    FinishInstruction,
    TransferInstruction,
)
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.background.phases import (
    BACKGROUND_ANSWERS,
    BACKGROUND_CHECKS,
    BACKGROUND_LIMITS,
    BACKGROUND_PHASES,
    finish_background,
    give_up_background,
)
from towpath_engine.handlers.decision_requests import request_decision
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.goal.phases import GOAL_ANSWERS, GOAL_CHECKS, GOAL_PHASES, take_claim
from towpath_engine.handlers.goal.retry import check_goal_calls
from towpath_engine.handlers.plan.phases import PLAN_ANSWERS, PLAN_PHASES, continue_plan, step_child_ended
from towpath_engine.handlers.swarm.handoff import (
    answer_or_hand_over,
    finish_like_nested_swarm,
    stop_after_agent_steps,
    take_transfer,
)
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.background import check_background_calls
from towpath_engine.rules.decisions import DecisionRefusal
from towpath_engine.state.run import RunState, Status

Phase = Callable[[TransitionBuilder], bool]
Answer = Callable[[TransitionBuilder, JsonObject | None], None]
"""Takes the answer to an assessment; None for one that can't be read."""


def finish_with_answer(run: TransitionBuilder, instruction: FinishInstruction) -> bool:
    """End a network run with its answer."""
    finish(run, Status.COMPLETED, "responded", "", final=instruction.payload)
    return True


def finish_abandoned(run: TransitionBuilder, instruction: AbandonInstruction) -> bool:
    """End a run that its model gives up."""
    finish(run, Status.ABANDONED, "abandoned", instruction.rationale)
    return True


def allow_calls(_state: RunState, _instruction: CallToolsInstruction) -> DecisionRefusal | None:
    """Let any action through that the agent may take."""
    return None


def allow_transfer(_run: TransitionBuilder, _instruction: TransferInstruction) -> bool:
    """Let another agent of the run act, as its agent wants."""
    return True


@dataclass(frozen=True, kw_only=True)
class RunKindStrategy:
    """What one kind of run does in the one step machine: its phases, checks and answers.

    `phases` come after the calls of a step, `checks` before the loop detectors of the next one, `limits` after.

    `on_finish` takes an answer (RESPOND), `on_give_up` an abandonment; each returns whether it ended the run. Where it
    did not, the phases come next, as after a refusal and a handoff. `check_calls` refuses calls that this kind of run
    does not allow. `on_transfer` takes a transfer that an agent asks for, and returns whether the other agent acts now.
    `act` is what a step does: ask for a decision, or start children. `on_child_ended` is called at the end of each
    child, also while others still run.
    """

    phases: tuple[Phase, ...] = ()
    checks: tuple[Phase, ...] = ()
    limits: tuple[Phase, ...] = ()
    answers: Mapping[DecisionKind, Answer] = field(default_factory=dict)
    on_finish: Callable[[TransitionBuilder, FinishInstruction], bool] = finish_with_answer
    on_give_up: Callable[[TransitionBuilder, AbandonInstruction], bool] = finish_abandoned
    on_transfer: Callable[[TransitionBuilder, TransferInstruction], bool] = allow_transfer
    check_calls: Callable[[RunState, CallToolsInstruction], DecisionRefusal | None] = allow_calls
    act: Callable[[TransitionBuilder], None] = request_decision
    on_child_ended: Callable[[TransitionBuilder, UUID], None] | None = None


PLAN_STRATEGY = RunKindStrategy(
    phases=PLAN_PHASES, answers=PLAN_ANSWERS, act=continue_plan, on_child_ended=step_child_ended
)
"""Of runs that ask no model for decisions: a plan, or the flow of a workflow, decides what comes next."""

STRATEGIES: dict[str, RunKindStrategy] = {
    "network": RunKindStrategy(),
    "goal": RunKindStrategy(
        phases=GOAL_PHASES, checks=GOAL_CHECKS, answers=GOAL_ANSWERS, on_finish=take_claim, check_calls=check_goal_calls
    ),
    "background": RunKindStrategy(
        phases=BACKGROUND_PHASES,
        checks=BACKGROUND_CHECKS,
        limits=BACKGROUND_LIMITS,
        answers=BACKGROUND_ANSWERS,
        on_finish=finish_background,
        on_give_up=give_up_background,
        check_calls=check_background_calls,
    ),
    "plan": PLAN_STRATEGY,
    "workflow": PLAN_STRATEGY,
    "handoff": RunKindStrategy(
        limits=(stop_after_agent_steps,),
        on_finish=answer_or_hand_over,
        on_transfer=take_transfer,
        on_child_ended=finish_like_nested_swarm,
    ),
    "team": RunKindStrategy(limits=(stop_after_agent_steps,)),
}


def strategy_of(run: TransitionBuilder) -> RunKindStrategy:
    """Return the strategy of the run's kind; of a swarm, that of its mode, unless its lead pursues a goal."""
    created = run.state.created
    by_kind = created.swarm is None or created.goal is not None
    return STRATEGIES[created.kind if by_kind or created.swarm is None else created.swarm.swarm.mode]
