"""Looks for help after a denied action: an allowed alternative, then a specialist, then a person.

Each of the three is tried once per tool. A denial never ends a run, and gives no right that the tool-access service
does not give. A denial that other arguments could avoid is not about rights: such an action is retried.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.text import truncate
from towpath_contracts.tools.violations import DenialCode
from towpath_engine.handlers.children import can_spawn, spawn_children
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.goal.validate import action_failed
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.autonomy import asks_specialist_without_person
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState, StepCall, StepChild

ALTERNATIVE, SPECIALIST, PERSON = "alternative", "specialist", "person"

GATE = "permission"

ARGUMENT_CHARS = 4_000
"""Of a denied call, in the task of a specialist."""


def can_ask_specialist(state: RunState, agent_key: str, call: StepCall) -> bool:
    """Return whether *agent_key* can be asked about *call*: it exists, is another, and was not asked in this step."""
    asked = any(c.purpose == SPECIALIST and c.subject == call.call.tool for c in state.children)
    known = agent_key in state.snapshot.agents and agent_key != state.agent_key
    return known and not asked and can_spawn(state)


def ask_specialist(run: TransitionBuilder, agent_key: str, call: StepCall, reason: str) -> None:
    """Start the specialist's run; what it answers is shown to this agent as an output of `agent:<key>`."""
    tool, arguments = call.call.tool, truncate(canonical_json(call.shown_args()), ARGUMENT_CHARS)
    wanted = (
        f"{run.state.agent_key} may not call {tool} ({reason}). Do what it needs and answer with the result. "
        f"The call it wanted: {tool} {arguments}. What it is for: {run.state.created.user_message}"
    )
    spawn_children(run, [ChildTask(agent_key=agent_key, user_message=wanted, purpose=SPECIALIST, subject=tool)])


def denied_call(state: RunState) -> StepCall | None:
    """Return the denied call of a failed action that another tool, agent or person could help with."""
    if not action_failed(state):
        return None
    return next((call for call in state.calls if call.status == "denied" and _helped_by_others(_denial(call))), None)


def _denial(call: StepCall) -> dict[str, Any]:
    return call.result if isinstance(call.result, dict) else {}


def _helped_by_others(denial: JsonObject) -> bool:
    if denial.get("alternatives") or denial.get("allowed_tools") or denial.get("specialists"):
        return True
    person = denial.get("escalation")
    return person is None or bool(person.get("role"))


def is_denied(state: RunState) -> bool:
    """Return whether the action was denied, so that help is sought instead of another attempt."""
    return denied_call(state) is not None


def _alternatives(denial: JsonObject) -> list[str]:
    named = [one["tool"] for one in denial.get("alternatives", ())]
    return named or list(denial.get("allowed_tools", ()))


def _climbed(goal: GoalState, tool: str, rung: str) -> bool:
    return f"{tool}:{rung}" in goal.rungs


def seek_alternative(run: TransitionBuilder) -> bool:
    """Ask for an allowed action in the same step, once; return whether it did."""
    goal, call = run.state.goal, denied_call(run.state)
    if (
        goal is None
        or call is None
        or goal.helped_step == run.state.step
        or _climbed(goal, call.call.tool, ALTERNATIVE)
    ):
        return False
    allowed = _alternatives(_denial(call))
    if not allowed:
        return False
    names = ", ".join(allowed)
    _sought(run, call, "alternative", names)
    run.emit(ev.NoteAdded(step=run.state.step, text=f"{call.call.tool} was denied. You may use: {names}."))
    request_assessment(run, DecisionKind.REPLAN)
    return True


def seek_help(run: TransitionBuilder) -> bool:
    """Ask a specialist, in a run of its own, or a person after a denied step; return whether a run began."""
    goal, call = run.state.goal, denied_call(run.state)
    if goal is None or call is None:
        return False
    if goal.helped_step == run.state.step and goal.helped_by != ALTERNATIVE:
        if goal.helped_by == SPECIALIST and _asked_in_vain(run.state, call):
            _ask_person(run, call)
        return False
    deadline = run.state.active_deadline()
    if deadline is not None and deadline <= run.now:
        return False  # the next stop check ends the run; a specialist would have no time
    specialist = _specialist(run.state, goal, call)
    if specialist is None or not can_ask_specialist(run.state, specialist, call):
        _ask_person(run, call)
        return False
    _sought(run, call, "specialist", specialist)
    ask_specialist(run, specialist, call, str(_denial(call).get("reason", "")))
    return True


def _asked_in_vain(state: RunState, call: StepCall) -> list[StepChild]:
    """Return the specialists that were asked about *call* and came to no end of their own."""
    asked = [c for c in state.children if c.purpose == SPECIALIST and c.subject == call.call.tool]
    return [c for c in asked if c.ended and c.status != "completed"]


def _ended_as(child: StepChild) -> str:
    return f"{child.status}, {child.reason}" if child.reason else child.status


def _asked_specialists(children: list[StepChild]) -> list[JsonObject]:
    return [{"agent": c.agent_key, "run_id": str(c.child_id), "status": c.status, "reason": c.reason} for c in children]


def _specialist(state: RunState, goal: GoalState, call: StepCall) -> str | None:
    """Return the agent to ask: one that has the right, of those that the goal names where it names any."""
    settings, tool = state.created.goal_settings, call.call.tool
    if _climbed(goal, tool, SPECIALIST) or not asks_specialist_without_person(settings.autonomy):
        return None
    if _denial(call).get("violation_type") == DenialCode.LIMIT:
        return None  # the limit is of the run, whichever of its agents calls
    able = [one["agent_key"] for one in _denial(call).get("specialists", ())]
    named = [key for key in settings.specialists if key in state.snapshot.agents and key != state.agent_key]
    both = [key for key in able if not settings.specialists or key in named]
    return next(iter(both or [key for key in named if tool in state.snapshot.agents[key].equipped_tools]), None)


def _ask_person(run: TransitionBuilder, call: StepCall) -> None:
    _sought(run, call, "person", "")
    denial, tool = _denial(call), call.call.tool
    vain = _asked_in_vain(run.state, call)
    found = "; ".join(f"specialist {c.agent_key} was asked in vain (run {c.child_id}: {_ended_as(c)})" for c in vain)
    summary = f"{run.state.agent_key} may not use {tool}, and {found or 'nothing else was found'}"
    reason = f"{summary}: {denial.get('reason', '')}"
    detail = {
        "tool": tool,
        "args": call.shown_args(),
        "denial": denial,
        **({"asked": _asked_specialists(vain)} if vain else {}),
    }
    open_run_gate(run, GATE, f"denied:{tool}", reason, detail)


def _sought(run: TransitionBuilder, call: StepCall, rung: ev.Rung, target: str) -> None:
    reason = str(_denial(call).get("reason", ""))
    run.emit(ev.DenialEscalated(step=run.state.step, tool=call.call.tool, rung=rung, target=target, reason=reason))
