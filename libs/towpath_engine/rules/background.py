"""What a background run may not do yet, and when there is a reason to reflect."""

from towpath_contracts.decisions.decision import CallToolsInstruction, ToolCall
from towpath_engine.reducers.background import DENIED, REFLECTED_UPON
from towpath_engine.reducers.loops.signatures import call_signature
from towpath_engine.rules.decisions import DecisionRefusal
from towpath_engine.rules.plan_tools import COMPLETED
from towpath_engine.state.run import RunState
from towpath_engine.state.workspace import needs_plan

SET_UP = "plan_setup"


def check_background_calls(state: RunState, instruction: CallToolsInstruction) -> DecisionRefusal | None:
    """Return what speaks against an action of a background run; None where nothing does."""
    found = _refused_calls(state, instruction.calls)
    return None if found is None else DecisionRefusal(code=found[0], feedback=found[1])


def _refused_calls(state: RunState, calls: tuple[ToolCall, ...]) -> tuple[str, str] | None:
    """Return code and feedback where *calls* may not run now; None where they may."""
    background = state.background
    if background is None:
        return None
    plans = SET_UP in state.snapshot.agents[state.agent_key].equipped_tools
    if plans and needs_plan(tuple(call.tool for call in calls), state.desk, with_steps=plans_need_steps(state)):
        return "plan_required", _what_plan(state)
    repeated = [call.tool for call in calls if call_signature((call,)) in background.failed]
    if repeated and state.created.background_settings.enable_reflection and not background.retry_allowed:
        names = ", ".join(dict.fromkeys(repeated))
        return "retry_unchanged", f"{names} has just failed with these arguments. Use other ones, or another tool."
    return None


def plans_need_steps(state: RunState) -> bool:
    """Return whether a plan without steps is none; a run says so from its beginning, or never."""
    return state.created.background_settings.plan_needs_steps is True


def _what_plan(state: RunState) -> str:
    plan = state.desk.plan if state.desk is not None else None
    if plan is not None and plan.status == "active":
        return f"The plan has no step. Add one with plan_add_step, or set it up anew with {SET_UP}; then act."
    if plan is None or plan.status == "abandoned":
        return f"There is no active plan. Set one up first, with {SET_UP}; then act."
    return (
        f"The plan is {plan.status}: no step is open. Answer with RESPOND, or reopen a step with plan_mark_step, or "
        f"set up another plan with {SET_UP}, before you act."
    )


def reflection_reasons(state: RunState) -> tuple[str, ...]:
    """Return what there is to reflect upon, as text for the model."""
    background = state.background
    if background is None:
        return ()
    found = []
    if background.went in REFLECTED_UPON and background.iteration:
        how = "was denied" if background.went == DENIED else "failed"
        found.append(f"the last action {how}: {background.last_error}")
    if plan_is_completed(state):
        found.append("every step of the plan is done: is the objective reached, and is no work left?")
    return tuple(found)


def plan_is_completed(state: RunState) -> bool:
    """Return whether the run has a plan whose every step is done."""
    return state.desk is not None and state.desk.plan is not None and state.desk.plan.status == COMPLETED
