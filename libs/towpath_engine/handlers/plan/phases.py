"""Plans, and workflows of swarms, which are plans whose steps get the answers of the step before.

Such a run asks no model what to do next: its action is to start the children of its next step. Everything it knows is
in its log, so after a crash it goes on at the same step. A step that does not succeed ends the plan.
"""

from collections.abc import Callable
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.plan import ParallelAgentCalls, Plan, PlanAgentCall, PlanStep, PlanStepResult, PlanTask
from towpath_contracts.networks.plan_checks import PLAN_INVALID, check_plan
from towpath_contracts.networks.references import UndefinedReferenceError
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_engine.handlers.children import can_spawn, pending_children, too_deep
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.final_reports import report_step_end, skip_remaining_steps
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.plan.start_step import child_of_step_ended, inputs_of, start_children
from towpath_engine.handlers.plan_status import move_plan
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.planner import MAX_ATTEMPTS, correction_request, faults_error, unshown_fields
from towpath_engine.rules.members import members_of
from towpath_engine.rules.plan_goals import goal_faults
from towpath_engine.rules.plan_results import (
    FinishedPlanStep,
    current_step,
    error,
    outcome_of,
    output_of,
    skipped,
    stage_answer,
)
from towpath_engine.rules.templates import AgentInputTooLargeError
from towpath_engine.state.plan import PlanRunState
from towpath_engine.state.run import RunState, Status

PLAN_FAILED = "plan_failed"
COMPLETED = "plan_completed"


def continue_plan(run: TransitionBuilder) -> None:
    """Take the plan, ask a model for one, or start its next step: a plan asks for no decision."""
    held = run.state.composition or PlanRunState()
    match held.phase:
        case "plan_init":
            _begin(run)
        case "planner_active":
            request_assessment(run, DecisionKind.COMPILE_PLAN)
        case "plan_validated" | "merging_results":
            _dispatch(run)
        case _:
            return  # children of a step are under way: the end of the last one comes here again


def _begin(run: TransitionBuilder) -> None:
    task, swarm = run.state.created.plan, run.state.created.swarm
    move_plan(run, "start_plan")
    if swarm is not None:
        _accept(run, flow_plan(swarm.swarm), "flow")
    elif task is not None and task.plan is not None:
        _take(run, task, task.plan, "given")
    else:
        request_assessment(run, DecisionKind.COMPILE_PLAN)
    if not run.state.is_final and run.state.composition is not None and run.state.composition.phase == "plan_validated":
        _dispatch(run)


def flow_plan(swarm: CompiledSwarm) -> Plan:
    """Return the stages of a workflow as a plan: what one stage gives, the next is asked."""
    steps = []
    for place, stage in enumerate(swarm.stages, start=1):
        calls = tuple(PlanAgentCall(agent_key=name, result_key=name) for name in stage)
        name = f"stage_{place:02d}"
        if len(calls) == 1:
            steps.append(PlanStep(id=name, type="agent", agent=calls[0]))
        else:
            block = ParallelAgentCalls(steps=calls, merge_strategy="fail_fast")
            steps.append(PlanStep(id=name, type="parallel", parallel=block))
    return Plan(id="flow", steps=tuple(steps), chain=True)


def _accept(run: TransitionBuilder, plan: Plan, origin: str) -> None:
    run.emit(ev.PlanAccepted.model_validate({"plan": plan, "origin": origin}))
    move_plan(run, "planner_finished")


def _take(run: TransitionBuilder, task: PlanTask, written: JsonObject | None, origin: str) -> list[str]:
    """Accept a plan, or return what is wrong with it; one that the caller gave is not asked for again."""
    faults = ["the answer is no JSON object"]
    if written is not None:
        most = run.state.caps.plan_steps
        plan, found = check_plan(written, agents=members_of(run.state), bindings=task.bindings, most_steps=most)
        if plan is not None:
            found = list(goal_faults(plan, run.state.snapshot) if origin == "given" else unshown_fields(plan))
        if plan is not None and not found:
            _accept(run, plan.model_copy(update={"bindings": {**plan.bindings, **task.bindings}}), origin)
            return []
        faults = [one.detail for one in found]
    if origin == "given":
        _refuse(run, faults)
    return faults


def _refuse(run: TransitionBuilder, faults: list[str]) -> None:
    failure = faults_error(PLAN_INVALID, faults)
    move_plan(run, "validation_failed", error=failure)
    finish(run, Status.FAILED, PLAN_INVALID, failure["message"])


def take_plan(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take the plan that a model wrote. An invalid plan may be corrected once; the model gets every fault."""
    task, held = run.state.created.plan, run.state.composition
    if task is None or held is None or held.phase != "planner_active":
        return
    faults = _take(run, task, answer, "planned")
    if not faults:
        return
    if held.attempts >= MAX_ATTEMPTS:
        _refuse(run, faults)
    else:
        move_plan(run, "start_plan", error=correction_request(faults, answer))


def _dispatch(run: TransitionBuilder) -> None:
    """Begin the next step: everything that it asks is rendered before anything starts."""
    held = run.state.composition
    if held is None or held.plan is None:
        return
    step = held.plan.steps[len(held.reports)]
    move_plan(run, "next_step" if held.phase == "merging_results" else "dispatch_step", step_id=step.id)
    if not can_spawn(run.state):
        _fail(run, FinishedPlanStep(report=_unstarted(step, "depth_exceeded", too_deep(run.state))))
        return
    try:
        inputs = inputs_of(run.state, held, step)
    except UndefinedReferenceError as undefined:
        _fail(run, FinishedPlanStep(report=_unstarted(step, "reference_undefined", str(undefined))))
        return
    except AgentInputTooLargeError as large:
        _fail(run, FinishedPlanStep(report=_unstarted(step, "input_too_large", str(large))))
        return
    run.emit(ev.PlanStepStarted(index=len(held.reports), step_id=step.id, inputs=inputs))
    start_children(run)
    move_plan(run, "step_dispatched", step_id=step.id)


def _unstarted(step: PlanStep, code: str, message: str) -> PlanStepResult:
    return skipped(step).model_copy(update={"status": "failed", "error": error(code, message)})


def close_step(run: TransitionBuilder) -> bool:
    """Record the outcome of the step once all its children have ended, and end the run where that decides it."""
    held = run.state.composition
    if held is None or held.phase != "awaiting_results" or pending_children(run.state):
        return False
    child_of_step_ended(run)  # agents that were not started because a person was asked
    if pending_children(run.state):
        return False
    step, outcome = current_step(held), outcome_of(run.state, held)
    if outcome.report.status != "success":
        _fail(run, outcome)
        return False
    report_step_end(run, outcome)
    move_plan(run, "parallel_complete" if step.type == "parallel" else "step_succeeded", step_id=step.id)
    if held.plan is not None and held.at + 1 == len(held.plan.steps):
        _complete(run)
    return False


def _fail(run: TransitionBuilder, outcome: FinishedPlanStep) -> None:
    """A step that does not succeed ends the plan; what comes after it is skipped."""
    report = outcome.report
    report_step_end(run, outcome)
    why = report.error or error(PLAN_FAILED, f"the step is {report.status}")
    move_plan(run, "step_failed", step_id=report.id, error=why)
    skip_remaining_steps(run)
    finish(run, Status.FAILED, PLAN_FAILED, f"step {report.id} is {report.status}: {why['code']}: {why['message']}")


def _complete(run: TransitionBuilder) -> None:
    move_plan(run, "all_done")
    held = run.state.composition or PlanRunState()
    chained = held.plan is not None and held.plan.chain
    final = _final_answer(run.state, held) if chained else output_of(held).model_dump(mode="json")
    finish(run, Status.COMPLETED, COMPLETED, "", final=final)


def _final_answer(state: RunState, held: PlanRunState) -> JsonObject:
    """Return what a workflow gives: the answer of its last agent, or those of its last stage, joined."""
    answer = state.children[0].final if current_step(held).type == "agent" else None
    return {"message": stage_answer(state, held)} if answer is None else answer


def step_child_ended(run: TransitionBuilder, _child_id: UUID) -> None:
    """React to the end of a child while others of its step may still run."""
    child_of_step_ended(run)


PLAN_PHASES: tuple[Callable[[TransitionBuilder], bool], ...] = (close_step,)
PLAN_ANSWERS: dict[DecisionKind, Callable[[TransitionBuilder, JsonObject | None], None]] = {
    DecisionKind.COMPILE_PLAN: take_plan
}
