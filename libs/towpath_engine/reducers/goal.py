"""Applies events to the state of a goal run.

Calls of one action are looked at together, in call order, once all have joined.
"""

from collections.abc import Iterable

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.decision import CallToolsInstruction, FinishInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import starts_child
from towpath_contracts.text import truncate
from towpath_contracts.tools.reports import MAX_ARTIFACTS, read_artifacts, read_tests, report_fault
from towpath_engine.expressions.criterion import names_in
from towpath_engine.reducers.loops.signatures import call_signature
from towpath_engine.state.goal import DEEDS_KEPT, RESULT_BYTES, RUNGS_KEPT, SIGNATURES_KEPT, STEPS_KEPT, GoalState
from towpath_engine.state.replace import replace
from towpath_engine.state.run import ACTION_KINDS, RunState, StepCall, StepChild
from towpath_readings.execution_log import REASONING_CHARS


def is_artifact(state: RunState, path: str) -> bool:
    """Return whether an acceptance criterion of the run names the file *path* as an artifact."""
    goal = state.created.goal
    if goal is None:
        return False
    named = (f"'{path}'", f'"{path}"')
    wanted = (one.when for one in goal.acceptance_criteria if one.when is not None)
    return any(any(name in when for name in named) and "artifacts" in names_in(when) for when in wanted)


OUT_OF_DOUBT = ""
UNCERTAIN = "uncertain"
REQUESTED = "requested"
MODEL = "model"
SPECIALIST = "specialist"


def update_goal(before: RunState, after: RunState, goal: GoalState, event: ev.AnyEvent) -> GoalState:  # noqa: C901
    """Return what *goal* is once *event* has made *after* of *before*."""
    match event:
        case ev.DecisionRequested():
            return _requested(before, goal, event)
        case ev.DecisionReceived() if before.asked in ACTION_KINDS:
            doubt = _stated_doubt(event.decision, after.created.goal_settings.confidence_threshold)
            return replace(goal, doubt=doubt or goal.doubt)
        case ev.DecisionRefused():
            return replace(goal, refused=event.code, refusal=event.feedback, refusals=goal.refusals + 1)
        case ev.InstructionIssued():
            return _instructed(goal, event)
        case ev.ToolCallFinished() | ev.ToolCallDenied() if all(call.status for call in after.calls):
            return _joined(after, goal)
        case ev.WorkspaceChanged():
            return _written(after, goal, event)
        case ev.StepResultValidated():
            return _validated(after, goal, event)
        case ev.ProgressMeasured():
            return _measured(goal, event)
        case ev.ConfidenceRequested():
            return replace(goal, doubt=REQUESTED)
        case ev.GoalConfidenceMeasured():
            return replace(goal, confidence=event.score, confidence_step=event.step, doubt=OUT_OF_DOUBT)
        case ev.DenialEscalated():
            rungs = (*goal.rungs, f"{event.tool}:{event.rung}")
            return replace(goal, rungs=rungs[-RUNGS_KEPT:], helped_step=event.step, helped_by=event.rung)
        case ev.GateClosed():
            return _permitted(before, goal, event)
        case ev.ChildEnded() if all(child.ended for child in after.children):
            return _helped(after, goal)
        case _:
            return goal


def _requested(before: RunState, goal: GoalState, event: ev.DecisionRequested) -> GoalState:
    """A new step begins anew; a further request of the same step is another attempt, unless it corrects a refusal.

    A question that was given up unanswered and is asked once more changes nothing.
    """
    if event.kind not in ACTION_KINDS or before.unanswered:
        return goal
    if event.step != before.step:
        return replace(goal, attempt=1, tried=(), refusals=0, refused="", refusal="", claimed=None, misreported="")
    if goal.refused:
        return replace(goal, refused="", refusal="")
    return replace(goal, attempt=goal.attempt + 1, refusals=0)


def _stated_doubt(decision: JsonObject, threshold: float) -> str:
    """Return why the author of *decision* wants to be looked at, if it does."""
    if decision.get("request_confidence") is True:
        return REQUESTED
    stated = decision.get("confidence")
    unsure = isinstance(stated, int | float) and not isinstance(stated, bool) and stated < threshold
    return UNCERTAIN if unsure or decision.get("uncertain") is True else OUT_OF_DOUBT


def _instructed(goal: GoalState, event: ev.InstructionIssued) -> GoalState:
    match event.instruction:
        case CallToolsInstruction():
            tried = (*goal.tried, call_signature(event.instruction.calls))
            return replace(goal, tried=tried[-SIGNATURES_KEPT:])
        case FinishInstruction():
            return replace(goal, claimed=event.instruction.payload)
        case _:
            return goal


def _joined(state: RunState, goal: GoalState) -> GoalState:
    tests, made, expected, fresh = goal.tests, goal.artifacts, goal.expected_artifacts, goal.fresh
    for call in state.calls:
        if call.status != "succeeded":
            continue
        shape = state.snapshot.all_tools[call.call.tool].reports
        found = read_artifacts(call.result) if shape == "artifacts" else None
        if shape == "tests":
            tests, fresh = read_tests(call.result), True
        elif found is not None:
            made, expected, fresh = _with(made, found[0]), found[1] or expected, True
    results = tuple(_result(call) for call in state.calls)
    return replace(
        goal,
        tests=tests,
        artifacts=made,
        expected_artifacts=expected,
        fresh=fresh,
        results=results,
        misreported=_misreported(state),
        acted=goal.acted or any(_is_deed(state, call) for call in state.calls),
        deeds=_with_deeds(goal, [_deed(state, call) for call in state.calls if _is_deed(state, call)]),
    )


def _is_deed(state: RunState, call: StepCall) -> bool:
    """Return whether *call* did something: what a run notes and plans for itself is only words."""
    spec = state.snapshot.all_tools[call.call.tool]
    return call.status == "succeeded" and (not spec.internal or starts_child(spec.name))


def _deed(state: RunState, call: StepCall) -> JsonObject:
    return {"name": str(call.call.execution_id), "what": f"call of {call.call.tool}, step {state.step}"}


def _with_deeds(goal: GoalState, new: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Add what was done; a step whose calls are looked at once more adds nothing."""
    by_name = {str(one["name"]): one for one in (*goal.deeds, *new)}
    return tuple(by_name.values())[-DEEDS_KEPT:]


def _misreported(state: RunState) -> str:
    """Name the calls that worked but whose results are not what their tools declare, and what is wrong with each."""
    faults = [
        (call.call.tool, report_fault(state.snapshot.all_tools[call.call.tool].reports, call.result))
        for call in state.calls
        if call.status == "succeeded"
    ]
    return truncate("; ".join(f"the result of {tool} {fault}" for tool, fault in faults if fault), REASONING_CHARS)


def _with(made: tuple[JsonObject, ...], new: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Add artifacts; one of the same name takes the place of the one before."""
    by_name = {one["name"]: one for one in made}
    for one in new:
        by_name.pop(one["name"], None)
        by_name[one["name"]] = one
    return tuple(by_name.values())[-MAX_ARTIFACTS:]


def _written(state: RunState, goal: GoalState, event: ev.WorkspaceChanged) -> GoalState:
    """A file of the workspace is an artifact where a criterion names it as one; a deleted one is none any more.

    Other files are the model's own notes: what it writes there is no evidence for the goal.
    """
    gone = {change.path for change in event.changes if change.digest is None}
    kept = tuple(one for one in goal.artifacts if one["name"] not in gone)
    new = [
        {"name": change.path, "kind": "file", "size": 0, "description": "in the workspace"}
        for change in event.changes
        if change.digest is not None and is_artifact(state, change.path)
    ]
    if not new and len(kept) == len(goal.artifacts):
        return goal
    return replace(goal, artifacts=_with(kept, new), fresh=True)


def _result(call: StepCall) -> JsonObject:
    small = len(canonical_json(call.result)) <= RESULT_BYTES
    return {"tool": call.call.tool, "status": call.status, "result": call.result if small else None}


def _validated(state: RunState, goal: GoalState, event: ev.StepResultValidated) -> GoalState:
    """A success lowers the count of failures by one, and ends their row."""
    kept: JsonObject = {
        "step": event.step,
        "agent": state.agent_key,
        "attempts": event.attempt,
        "actions": [{"tool": call.call.tool, "status": call.status} for call in state.calls],
        "success": event.success,
        "reason": truncate(event.reason, REASONING_CHARS),
        "error": event.error_signature,
        "progress": goal.progress,
    }
    return replace(
        goal,
        met=event.criteria,
        judged_step=event.step if event.source == MODEL else goal.judged_step,
        validated_step=event.step,
        succeeded=event.success,
        failures=max(0, goal.failures - 1) if event.success else goal.failures + 1,
        consecutive_failures=0 if event.success else goal.consecutive_failures + 1,
        doubt=UNCERTAIN if event.uncertain else goal.doubt,
        last_steps=(*_others(goal, event.step), kept)[-STEPS_KEPT:],
    )


def _others(goal: GoalState, step: int) -> Iterable[JsonObject]:
    """A step that is looked at once more is still one step."""
    return (one for one in goal.last_steps if one["step"] != step)


def _measured(goal: GoalState, event: ev.ProgressMeasured) -> GoalState:
    return replace(
        goal,
        progress=event.score,
        progress_source=event.source,
        progress_metrics=event.metrics,
        progress_step=event.step,
        measured_tests=goal.tests,
        fresh=False,
    )


def _helped(state: RunState, goal: GoalState) -> GoalState:
    """What specialists did stands beside what was denied; where one did it, the step is looked at once more.

    A specialist's claim to be done is not enough: its log must hold a call that succeeded.
    """
    asked = [child for child in state.children if child.purpose == SPECIALIST]
    results = tuple(_done_by(child) for child in asked)
    again = any(child.did_subject for child in asked)
    return replace(
        goal,
        results=(*goal.results, *results),
        validated_step=0 if again else goal.validated_step,
        progress_step=0 if again else goal.progress_step,
        refused="" if again else goal.refused,
        refusal="" if again else goal.refusal,
        acted=goal.acted or again,
        deeds=_with_deeds(
            goal,
            [
                {"name": str(c.child_id), "what": f"run of {c.agent_key} that did {c.subject}"}
                for c in asked
                if c.did_subject
            ],
        ),
    )


def _done_by(child: StepChild) -> JsonObject:
    small = len(canonical_json(child.final)) <= RESULT_BYTES
    return {
        "tool": child.subject,
        "status": "succeeded" if child.did_subject else "failed",
        "result": child.final if small else None,
        "agent": child.agent_key,
        "run_id": str(child.child_id),
    }


def _permitted(before: RunState, goal: GoalState, event: ev.GateClosed) -> GoalState:
    """A person allowed a denied tool, so a later denial of it may ask for each kind of help again."""
    gate = next((g for g in before.gates if g.gate_id == event.gate_id), None)
    if gate is None or event.verdict != "approved" or not gate.key.startswith("denied:"):
        return goal
    tool = gate.key.removeprefix("denied:")
    return replace(goal, rungs=tuple(rung for rung in goal.rungs if rung.rpartition(":")[0] != tool))
