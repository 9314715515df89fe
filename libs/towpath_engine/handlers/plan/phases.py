"""Composed runs: plans, and workflows of swarms, which are plans whose inputs are chained.

A composed run asks no model what to do next: its act is to start the children of its next step. Everything it
knows is in its log, so a crash resumes at the step it was in. A step that does not succeed ends the plan.
"""

from collections.abc import Callable
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.plan import AgentCall, ParallelBlock, Plan, PlanStep, PlanTask, StepReport
from towpath_contracts.networks.plan_checks import PLAN_INVALID, check_plan
from towpath_contracts.networks.references import UndefinedReferenceError
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.tree_limits import MAX_DEPTH
from towpath_engine.handlers.children import may_spawn, pending_children
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.final_reports import skip_rest, tell
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.plan.start_step import child_of_step_ended, inputs_of, start_children
from towpath_engine.handlers.plan_status import move
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.requests.planner import MAX_ATTEMPTS, faults_error, to_be_mended
from towpath_engine.rules.members import members_of
from towpath_engine.rules.plan_results import Outcome, current_step, error, outcome_of, output_of, skipped, stage_said
from towpath_engine.rules.templates import InputTooLargeError
from towpath_engine.state.plan import Composition
from towpath_engine.state.run import RunState, Status

PLAN_FAILED = "plan_failed"
COMPLETED = "plan_completed"


def compose(t: TransitionBuilder) -> None:
    """Do what a composed run does instead of asking for a decision: take its plan, have it written, or go on in it."""
    held = t.state.composition or Composition()
    match held.phase:
        case "plan_init":
            _begin(t)
        case "planner_active":
            request_assessment(t, DecisionKind.COMPILE_PLAN)
        case "plan_validated" | "merging_results":
            _dispatch(t)
        case _:
            return  # children of a step are under way: whoever ends last comes here again


def _begin(t: TransitionBuilder) -> None:
    task, swarm = t.state.created.plan, t.state.created.swarm
    move(t, "start_plan")
    if swarm is not None:
        _accept(t, flow_plan(swarm.swarm), "flow")
    elif task is not None and task.plan is not None:
        _take(t, task, task.plan, "given")
    else:
        request_assessment(t, DecisionKind.COMPILE_PLAN)
    if not t.state.is_final and t.state.composition is not None and t.state.composition.phase == "plan_validated":
        _dispatch(t)


def flow_plan(swarm: CompiledSwarm) -> Plan:
    """Return the stages of a workflow as a plan: what one stage gives, the next is asked."""
    steps = []
    for place, stage in enumerate(swarm.stages, start=1):
        calls = tuple(AgentCall(agent_key=name, result_key=name) for name in stage)
        name = f"stage_{place:02d}"
        if len(calls) == 1:
            steps.append(PlanStep(id=name, type="agent", agent=calls[0]))
        else:
            block = ParallelBlock(steps=calls, merge_strategy="fail_fast")
            steps.append(PlanStep(id=name, type="parallel", parallel=block))
    return Plan(id="flow", steps=tuple(steps), chain=True)


def _accept(t: TransitionBuilder, plan: Plan, origin: str) -> None:
    t.emit(ev.PlanAccepted.model_validate({"plan": plan, "origin": origin}))
    move(t, "planner_finished")


def _take(t: TransitionBuilder, task: PlanTask, written: JsonObject | None, origin: str) -> list[str]:
    """Accept a plan, or return what is wrong with it; one that the caller gave is not asked for again."""
    faults = ["the answer is no JSON object"]
    if written is not None:
        plan, found = check_plan(written, agents=members_of(t.state), bindings=task.bindings)
        if plan is not None:
            _accept(t, plan.model_copy(update={"bindings": {**plan.bindings, **task.bindings}}), origin)
            return []
        faults = [one.detail for one in found]
    if origin == "given":
        _refuse(t, faults)
    return faults


def _refuse(t: TransitionBuilder, faults: list[str]) -> None:
    told = faults_error(PLAN_INVALID, faults)
    move(t, "validation_failed", error=told)
    finish(t, Status.FAILED, PLAN_INVALID, told["message"])


def planned(t: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take the plan that a model wrote; one that can't be carried out it may mend once, told every fault."""
    task, held = t.state.created.plan, t.state.composition
    if task is None or held is None or held.phase != "planner_active":
        return
    faults = _take(t, task, answer, "planned")
    if not faults:
        return
    if held.attempts >= MAX_ATTEMPTS:
        _refuse(t, faults)
    else:
        move(t, "start_plan", error=to_be_mended(faults, answer))


def _dispatch(t: TransitionBuilder) -> None:
    """Begin the next step: everything that it asks is rendered before anything starts."""
    held = t.state.composition
    if held is None or held.plan is None:
        return
    step = held.plan.steps[len(held.reports)]
    move(t, "next_step" if held.phase == "merging_results" else "dispatch_step", step_id=step.id)
    if not may_spawn(t.state):
        _fail(t, Outcome(report=_unstarted(step, "depth_exceeded", f"children stand at most {MAX_DEPTH} deep")))
        return
    try:
        inputs = inputs_of(t.state, held, step)
    except UndefinedReferenceError as undefined:
        _fail(t, Outcome(report=_unstarted(step, "reference_undefined", str(undefined))))
        return
    except InputTooLargeError as large:
        _fail(t, Outcome(report=_unstarted(step, "input_too_large", str(large))))
        return
    t.emit(ev.PlanStepStarted(index=len(held.reports), step_id=step.id, inputs=inputs))
    start_children(t)
    move(t, "step_dispatched", step_id=step.id)


def _unstarted(step: PlanStep, code: str, message: str) -> StepReport:
    return skipped(step).model_copy(update={"status": "failed", "error": error(code, message)})


def close_step(t: TransitionBuilder) -> bool:
    """Say what came of the step once all its children have ended, and end the run where that decides it."""
    held = t.state.composition
    if held is None or held.phase != "awaiting_results" or pending_children(t.state):
        return False
    child_of_step_ended(t)  # agents that were not started because a person was asked
    if pending_children(t.state):
        return False
    step, outcome = current_step(held), outcome_of(t.state, held)
    if outcome.report.status != "success":
        _fail(t, outcome)
        return False
    tell(t, outcome)
    move(t, "parallel_complete" if step.type == "parallel" else "step_succeeded", step_id=step.id)
    if held.plan is not None and held.at + 1 == len(held.plan.steps):
        _complete(t)
    return False


def _fail(t: TransitionBuilder, outcome: Outcome) -> None:
    """A step that does not succeed ends the plan; what comes after it is skipped."""
    report = outcome.report
    tell(t, outcome)
    why = report.error or error(PLAN_FAILED, f"the step is {report.status}")
    move(t, "step_failed", step_id=report.id, error=why)
    skip_rest(t)
    finish(t, Status.FAILED, PLAN_FAILED, f"step {report.id} is {report.status}: {why['code']}: {why['message']}")


def _complete(t: TransitionBuilder) -> None:
    move(t, "all_done")
    held = t.state.composition or Composition()
    chained = held.plan is not None and held.plan.chain
    final = _last_words(t.state, held) if chained else output_of(held).model_dump(mode="json")
    finish(t, Status.COMPLETED, COMPLETED, "", final=final)


def _last_words(state: RunState, held: Composition) -> JsonObject:
    """Return what a workflow gives: the answer of its last agent, or those of its last stage, joined."""
    answer = state.children[0].final if current_step(held).type == "agent" else None
    return {"message": stage_said(state, held)} if answer is None else answer


def step_child_ended(t: TransitionBuilder, _child_id: UUID) -> None:
    """Look at the end of a child while others of its step may still run."""
    child_of_step_ended(t)


COMPOSED_PHASES: tuple[Callable[[TransitionBuilder], bool], ...] = (close_step,)
COMPOSED_ANSWERS: dict[DecisionKind, Callable[[TransitionBuilder, JsonObject | None], None]] = {
    DecisionKind.COMPILE_PLAN: planned
}
