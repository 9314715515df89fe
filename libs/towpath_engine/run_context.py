"""What the prompts of goal and background runs show beside those of a network run (features C1, C8, D4, D13)."""

from towpath_contracts.base import JsonObject
from towpath_engine.evolve import ACTING
from towpath_engine.state import RunState


def run_section(state: RunState) -> JsonObject | None:
    """Return what every prompt of the run shows; None for a network run."""
    task = state.created
    if task.goal is not None and state.goal is not None:
        criteria = [
            {"number": number, "criterion": criterion.words(), "met": number in state.goal.met}
            for number, criterion in enumerate(task.goal.acceptance_criteria)
        ]
        return {
            "goal": task.goal.goal,
            "acceptance_criteria": criteria,
            "constraints": task.goal.constraints,
            "progress": state.goal.progress,
        }
    if task.background is not None:
        return {"objective": task.background.objective}
    return None


def assessment_section(state: RunState) -> JsonObject | None:
    """Return what the pending assessment is to judge; None where a decision is asked for."""
    if state.asked in ACTING:
        return None
    calls = [
        {"tool": c.call.tool, "arguments": c.shown_args(), "status": c.status, "result": c.result} for c in state.calls
    ]
    return {"kind": state.asked, "step": state.step, "calls": calls}
