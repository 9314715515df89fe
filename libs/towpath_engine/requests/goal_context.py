"""What the prompts of a goal run show: a pure function of the state, bounded like it."""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.evidence import EVIDENCE, TEXT_CRITERIA
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.rules.criteria import criteria_of, shown_criteria, successful_specialists
from towpath_engine.rules.evidence import evidence_of, needs_evidence
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState


def goal_section(state: RunState, goal: GoalState) -> JsonObject:
    """Return what every prompt of the run shows: what is wanted, how far it is, and what came of the last steps."""
    task = state.created.goal
    shown: JsonObject = {
        "goal": "" if task is None else task.goal,
        "acceptance_criteria": shown_criteria(state, goal),
        "constraints": {} if task is None else task.constraints,
        "progress": goal.progress,
    }
    if goal.tests is not None:
        shown["tests"] = goal.tests
    if goal.artifacts:
        shown["artifacts"] = [{"name": one["name"], "kind": one["kind"]} for one in goal.artifacts]
    if goal.last_steps:
        shown["last_steps"] = list(goal.last_steps)
    return shown


def goal_assessment(state: RunState, goal: GoalState) -> JsonObject:
    """Return what the pending assessment is to judge, beside the calls of the step."""
    if state.asked == DecisionKind.CONFIDENCE:
        return confidence_payload(state)
    evidence = _evidence(state, goal)
    if goal.claimed is not None:
        return {"claimed": goal.claimed, "results": list(goal.results), **evidence}
    return {"results": list(goal.results), **evidence} if successful_specialists(state) else evidence


def _evidence(state: RunState, goal: GoalState) -> JsonObject:
    """Return what a judgement may name, and for which criteria it has to; nothing where it need not."""
    if not needs_evidence(state):
        return {}
    texts = [n for n, one in enumerate(criteria_of(state)) if one.when is None]
    return {EVIDENCE: evidence_of(state, goal), **({TEXT_CRITERIA: texts} if texts else {})}


def confidence_payload(state: RunState) -> JsonObject:
    """Return what a confidence check is about."""
    goal = state.goal or GoalState()
    return {
        "agent_id": state.agent_key,
        "task_id": str(state.run_id),
        "current_step": state.step,
        "goal": state.created.goal.goal if state.created.goal is not None else "",
        "progress_score": goal.progress,
        "last_steps": list(goal.last_steps),
        "artifacts": list(goal.artifacts),
    }
