"""Starts a step of a plan or workflow: renders what its agents are asked, and starts their child runs.

Everything that a step asks is rendered before it begins. So the input of its agents depends on earlier steps alone, and
an undefined reference starts nothing.
"""

from datetime import datetime

from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan import PlanAgentCall, PlanStep
from towpath_contracts.networks.references import BINDINGS, RESULT
from towpath_contracts.networks.swarm import CompiledSwarm, SelectedSwarm
from towpath_contracts.runs.children import ChildTask
from towpath_engine.handlers.children import spawn_children, stop_child
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import active_ms
from towpath_engine.reducers.references import size_of
from towpath_engine.rules.members import nested_swarms
from towpath_engine.rules.plan_goals import goal_of
from towpath_engine.rules.plan_results import current_step, failed, stage_answer, succeeded
from towpath_engine.rules.templates import AgentInputTooLargeError, render_input
from towpath_engine.state.plan import PlanRunState
from towpath_engine.state.run import RunState

STEP_CHARS = 200_000
"""What all agents of one step are asked, together."""

STEP_BYTES = 512 * 1024
"""The same in JSON, where one character may take six bytes: it is one event, and travels as one message."""

PURPOSE = "plan_step"
"""What the children of a composed run are for."""


def inputs_of(state: RunState, held: PlanRunState, step: PlanStep) -> tuple[str, ...]:
    """Return what each agent of *step* is asked.

    Raises UndefinedReferenceError and AgentInputTooLargeError.
    """
    plan = held.plan
    chained = plan is not None and plan.chain and held.reports
    previous = stage_answer(state, held) if chained else state.created.user_message
    scopes = {RESULT: held.results, BINDINGS: plan.bindings if plan is not None else {}}
    inputs = tuple(render_input(call, scopes, previous) for call in step.calls)
    if sum(map(len, inputs)) > STEP_CHARS or size_of(inputs) > STEP_BYTES:
        msg = (
            f"what the agents of the step are asked has more than {STEP_CHARS} characters together, "
            f"or {STEP_BYTES} bytes as JSON"
        )
        raise AgentInputTooLargeError(msg)
    return inputs


def start_children(run: TransitionBuilder) -> None:
    """Start as many agents of the current step as may run at the same time; none while a person is asked."""
    held = run.state.composition
    if held is None or run.state.waits_at_run_gate:
        return
    step = current_step(held)
    begun = len(run.state.children)
    free = _width(run.state, step) - sum(not child.ended for child in run.state.children)
    chosen = list(enumerate(step.calls))[begun : begun + max(0, free)]
    if chosen:
        spawn_children(run, [_task(run.state, held, step, place, call, run.now) for place, call in chosen])


def _width(state: RunState, step: PlanStep) -> int:
    """Return how many agents of *step* run at once: the least that the step and its run say."""
    block = step.parallel.max_concurrency if step.parallel is not None else None
    return min(limit for limit in (block, state.max_parallel, len(step.calls)) if limit is not None)


def _task(
    state: RunState, held: PlanRunState, step: PlanStep, place: int, call: PlanAgentCall, now: datetime
) -> ChildTask:
    swarm = nested_swarms(state).get(call.agent_key) if call.agent_key not in state.snapshot.agents else None
    path = state.created.swarm.path if state.created.swarm is not None else ()
    goal = goal_of(state, call.acceptance_criteria, held.inputs[place])
    within = None if swarm is None else SelectedSwarm(name=call.agent_key, path=(*path, call.agent_key), swarm=swarm)
    return ChildTask(
        agent_key=call.agent_key if swarm is None else swarm.first_agent,
        user_message=held.inputs[place],
        goal=goal,
        swarm=within,
        max_steps=_steps(state, swarm, goal),
        timeout_ms=_time_left(state, held, step, call, now),
        purpose=PURPOSE,
        subject=step.id if step.type == "agent" else f"{step.id}[{place}]",
        response_schema=state.created.response_schema if _answers(held, step) else None,
    )


def _answers(held: PlanRunState, step: PlanStep) -> bool:
    """Return whether the answer of the one agent of *step* is that of the run."""
    return held.plan is not None and held.plan.chain and step == held.plan.steps[-1] and step.type == "agent"


def _steps(state: RunState, nested: CompiledSwarm | None, goal: GoalTask | None) -> int | None:
    """Return the steps of an agent, or of a nested swarm; where nothing limits them, as many as the run may.

    A goal has as many as its network gives to goals.
    """
    if goal is not None and goal.settings is not None and goal.settings.max_steps is not None:
        return goal.settings.max_steps
    if nested is not None:
        return nested.max_steps
    own = state.created.swarm
    return None if own is None else own.swarm.agent_steps


def _time_left(state: RunState, held: PlanRunState, step: PlanStep, call: PlanAgentCall, now: datetime) -> int | None:
    """Return the time of an agent: its own, and what is left of its step's; the run's is `spawn`'s to see to."""
    spent = active_ms(state, now) - held.began_ms
    left = None if step.timeout_ms is None else max(1, step.timeout_ms - spent)
    limits = [limit for limit in (call.timeout_ms, left) if limit is not None]
    return min(limits, default=None)


def child_of_step_ended(run: TransitionBuilder) -> None:
    """Start more agents of the step; or stop all others, where the end of one decides it."""
    held = run.state.composition
    if held is None or held.phase != "awaiting_results":
        return
    why = _decided(run.state, current_step(held))
    if not why:
        start_children(run)
        return
    for child in run.state.children:
        stop_child(run, child, why)


def _decided(state: RunState, step: PlanStep) -> str:
    """Return what decides a step while agents of it still run; empty where nothing does."""
    if step.parallel is None:
        return ""
    match step.parallel.merge_strategy:
        case "fail_fast":
            return "another agent of its step has failed" if any(map(failed, state.children)) else ""
        case "first_success":
            return "another agent of its step was first" if any(map(succeeded, state.children)) else ""
        case "collect":
            return ""
