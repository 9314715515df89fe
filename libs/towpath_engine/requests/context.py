"""Selects what the prompts of each kind of run show beside those of a network run."""

from towpath_contracts.base import JsonObject
from towpath_engine.reducers.conversation import conversation_section
from towpath_engine.requests.background_context import background_section, reflection_section, summary_section
from towpath_engine.requests.goal_context import goal_assessment, goal_section
from towpath_engine.state.run import ACTION_KINDS, RunState


def run_section(state: RunState) -> JsonObject | None:
    """Return what every prompt of the run shows; None for a network run."""
    if state.goal is not None:
        return goal_section(state, state.goal)
    if state.swarm is not None:
        return conversation_section(state)
    return background_section(state)


def assessment_section(state: RunState) -> JsonObject | None:
    """Return what the pending assessment is to judge; None where a decision is asked for."""
    if state.asked in ACTION_KINDS:
        return None
    calls = [
        {"tool": c.call.tool, "arguments": c.shown_args(), "status": c.status, "result": c.result} for c in state.calls
    ]
    told: JsonObject = {"kind": state.asked, "step": state.step, "calls": calls}
    if state.goal is not None:
        return {**told, **goal_assessment(state, state.goal)}
    if state.background is None:
        return told
    return {**told, **(summary_section(state) if state.asked == "summarize" else reflection_section(state))}
