"""Calls that are child runs: a team's delegates, with or without a goal, and plans by `agent_orchestrate`.

A permitted call starts one child, whose record names the call; so a permission that is delivered again starts nothing.
The call is open until the child has ended. That end is the call's outcome, and is reported to the ledger.
"""

from pydantic import ValidationError

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.child_tools import DELEGATE, ORCHESTRATE, DelegatedTask
from towpath_contracts.networks.plan import PlanRunResult, PlanTask
from towpath_contracts.networks.plan_checks import PLAN_BYTES, PLAN_INVALID, check_plan
from towpath_contracts.networks.swarm import SelectedSwarm
from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.internal_tools import MAX_FAILURE_CHARS
from towpath_engine.handlers.children import can_spawn, spawn_children, too_deep
from towpath_engine.handlers.gates import close_gate
from towpath_engine.handlers.internal_outcomes import end_own_call
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.references import is_reference, size_of
from towpath_engine.rules.plan_goals import delegate_faults, goal_of
from towpath_engine.rules.tool_result import InternalToolError, read_arguments
from towpath_engine.state.run import RunState, Status, StepCall, StepChild

DEPTH_EXCEEDED = "depth_exceeded"
DELEGATION_FAILED = "delegation_failed"
PLAN_FAILED = "plan_failed"
CRITERION_INVALID = "criterion_invalid"
PURPOSE_PLAN, PURPOSE_DELEGATE = "orchestrate", "delegate"

GOAL_REPORT = ("goal", "criteria", "progress", "last_output")
"""What the end of a goal run says of the goal, where it has no answer."""


def start_child(
    run: TransitionBuilder, call: StepCall, args: JsonObject, fact: facts.InternalToolPermittedFact
) -> bool:
    """Start the child run that a permitted call stands for; return whether the call failed instead.

    A call that fails reports every reason at once. Its caller goes on from there.
    """
    tool = call.call.tool
    if any(child.execution_id == fact.execution_id for child in run.state.children):
        return False
    close_gate(run, fact.execution_id, "settled", "the call has started")
    if stop_at_deadline(run):
        return False
    try:
        task = _plan_task(run.state, args) if tool == ORCHESTRATE else _delegate_task(run.state, tool, args)
    except InternalToolError as error:
        failure = ToolFailure(code=error.code, message=_cut(str(error)), hint=error.hint, began=False)
        end_own_call(run, call, failure=failure, policy_version=fact.policy_version)
        return True
    of_call = {"execution_id": fact.execution_id, "subject": tool, "policy_version": fact.policy_version}
    spawn_children(run, [task.model_copy(update=of_call)])
    return False


def _check_depth(state: RunState) -> None:
    if not can_spawn(state):
        raise InternalToolError(DEPTH_EXCEEDED, too_deep(state), "Do the work yourself, with your other tools.")


def _plan_task(state: RunState, args: JsonObject) -> ChildTask:
    _check_depth(state)
    try:
        asked = PlanTask.model_validate(args)
    except ValidationError as error:
        entries = error.errors(include_url=False, include_input=False)
        fault = "; ".join(located_message(entry, "arguments") for entry in entries)
        raise InternalToolError("arguments_invalid", fault) from error
    if (size := size_of(asked.bindings)) > PLAN_BYTES:
        raise InternalToolError("arguments_invalid", f"the bindings have {size} bytes; the limit is {PLAN_BYTES}")
    if asked.plan is not None:
        agents, most = state.snapshot.plan_members, state.caps.plan_steps
        _plan, faults = check_plan(
            asked.plan, agents=agents, bindings=asked.bindings, most_steps=most, self_contained=True
        )
        if faults:
            raise InternalToolError(PLAN_INVALID, "; ".join(one.detail for one in faults))
    return ChildTask(
        agent_key=state.agent_key,
        user_message=asked.prompt or "",
        plan=asked,
        timeout_ms=asked.timeout_ms,
        purpose=PURPOSE_PLAN,
    )


def _delegate_task(state: RunState, tool: str, args: JsonObject) -> ChildTask:
    name, task = tool.removeprefix(DELEGATE), state.created.swarm
    swarm = None if task is None else task.swarm
    if task is None or swarm is None or name not in swarm.delegates or state.agent_key != swarm.lead:
        raise InternalToolError("tool_unknown", f"{state.agent_key} leads no team here that {name} is in")
    _check_depth(state)
    nested = swarm.swarms.get(name)
    asked = read_arguments(DelegatedTask, args)
    if faults := delegate_faults(name, asked.acceptance_criteria, nested, state.snapshot):
        raise InternalToolError(CRITERION_INVALID, "; ".join(faults), "Mend the criteria, or leave them out.")
    goal = goal_of(state, asked.acceptance_criteria, asked.task)
    steps = swarm.agent_steps if nested is None else nested.max_steps
    if goal is not None and goal.settings is not None and goal.settings.max_steps is not None:
        steps = goal.settings.max_steps
    return ChildTask(
        agent_key=name if nested is None else nested.first_agent,
        user_message=asked.task,
        goal=goal,
        swarm=None if nested is None else SelectedSwarm(name=name, path=(*task.path, name), swarm=nested),
        max_steps=min(steps, asked.max_steps or steps),
        timeout_ms=asked.timeout_ms,
        purpose=PURPOSE_DELEGATE,
    )


def close_call_of(run: TransitionBuilder, child: StepChild) -> StepCall | None:
    """End the call that *child* answers; return the call, or None where there is no such open call."""
    call = None if child.execution_id is None else run.state.open_call(child.execution_id)
    if call is None:
        return None
    final = child.final or {}
    if call.call.tool == ORCHESTRATE and _is_report(final):
        report = _report(child, final)
        end_own_call(run, call, result=report, failure=None if report["success"] else _plan_failed(report), child=child)
    elif child.status == Status.COMPLETED:
        end_own_call(run, call, result=_reached(call, final) if _has_goal(call) else final, child=child)
    else:
        result = _not_reached(final) if _has_goal(call) else None
        end_own_call(run, call, result=result, failure=_failure(call, child, final), child=child)
    return call


def _has_goal(call: StepCall) -> bool:
    return call.call.tool != ORCHESTRATE and bool(call.shown_args().get("acceptance_criteria"))


def _reached(call: StepCall, final: JsonObject) -> JsonObject:
    """Return what a delegate reports whose goal is reached: its criteria, and its answer or else its last output."""
    asked = DelegatedTask.model_validate(call.shown_args())
    met = [{"number": n, "criterion": one.words(), "met": True} for n, one in enumerate(asked.acceptance_criteria)]
    answer = final["last_output"] if set(final) == set(GOAL_REPORT) else final
    return {"goal": "reached", "criteria": met, "answer": answer}


def _not_reached(final: JsonObject) -> JsonObject:
    """Return what a delegate reports whose goal is not reached: how far it came, as far as its end says so."""
    return {"goal": "not_reached", **{name: final[name] for name in GOAL_REPORT if name in final}}


def _is_report(final: JsonObject) -> bool:
    """Return whether *final* is a plan's report of its steps; a plan that could not be made has none."""
    return is_reference(final) or bool(final.get("steps"))


def _report(child: StepChild, final: JsonObject) -> JsonObject:
    """Return what a plan reports of itself; of a large one its beginning, and whether it succeeded."""
    if is_reference(final):
        return {"success": child.status == Status.COMPLETED, **final}
    return {"success": False, **{name: final[name] for name in PlanRunResult.model_fields if name in final}}


def _plan_failed(report: JsonObject) -> ToolFailure:
    """Return the failure of a plan that ran and did not succeed; its report is the result of the call all the same."""
    errors = [f"{one['step_id']}: {one['error']['message']}" for one in report.get("errors", ())]
    why = "; ".join(errors) or "not every step succeeded"
    return ToolFailure(code=PLAN_FAILED, message=_cut(f"the plan failed: {why}"), began=True)


def _failure(call: StepCall, child: StepChild, final: JsonObject) -> ToolFailure:
    why = f"{child.status}, {child.reason}" if child.reason else child.status
    detail = str(final.get("message", "")) if child.status != Status.COMPLETED else ""
    if call.call.tool == ORCHESTRATE:
        code, message = child.reason or child.status, f"the plan came to no end: {why}"
    else:
        name = call.call.tool.removeprefix(DELEGATE)
        code, message = DELEGATION_FAILED, f"Delegation to '{name}' failed: {why}"
    message = f"{message}: {detail}" if detail else message
    unmet = [f"{one['number']} ({one['criterion']})" for one in final.get("criteria", ()) if not one["met"]]
    if _has_goal(call) and unmet:
        message += f"; these acceptance criteria are not met: {'; '.join(unmet)}"
    return ToolFailure(code=code, message=_cut(message), began=True)


def _cut(text: str) -> str:
    return truncate(text, MAX_FAILURE_CHARS)
