"""The plan tools: one plan per run, whose steps are set up, added, changed and marked.

A plan is active, completed (every step is done) or abandoned. Ids are S001, S002, …: the next is the highest number
plus one, and a new plan begins at S001. The size of a plan is bounded as a whole.
"""

from collections.abc import Callable
from dataclasses import replace

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.tools.internal_tools import (
    MAX_PLAN_BYTES,
    MAX_PLAN_STEPS,
    MAX_STEP_NOTES,
    PLAN_OBJECTIVE,
    PLAN_TEXT,
    PLAN_TITLE,
    STEP_STATUSES,
)
from towpath_engine.rules.tool_result import InternalToolError, InternalToolResult, checked_ascii, read_arguments
from towpath_engine.state.limits import json_bytes
from towpath_engine.state.workspace import WorkspacePlan, WorkspacePlanStep

NO_PLAN = "No plan is currently initialised."
ACTIVE, COMPLETED, ABANDONED = "active", "completed", "abandoned"
DONE = "done"


class _Step(ClientMessagePart):
    title: str
    details: str | None = None


class _SetUp(ClientMessagePart):
    objective: str
    steps: tuple[_Step, ...] = Field(default=(), max_length=MAX_PLAN_STEPS)


class _PlanUpdate(ClientMessagePart):
    step_id: str
    title: str | None = None
    details: str | None = None


class _Mark(ClientMessagePart):
    step_id: str
    status: str
    note: str | None = None


class _Nothing(ClientMessagePart):
    pass


def apply_plan(
    tool: str, args: JsonObject, plan: WorkspacePlan | None, *, may_reset: bool = True
) -> InternalToolResult:
    """Apply a plan tool; raises InternalToolError. Without *may_reset* an active plan can't be given up."""
    return _TOOLS[tool](args, plan, may_reset)


def _set_up(args: JsonObject, plan: WorkspacePlan | None, may_reset: bool) -> InternalToolResult:
    asked = read_arguments(_SetUp, args)
    objective = checked_ascii("objective", asked.objective, PLAN_OBJECTIVE, required=True)
    steps = tuple(_new_step(place, step) for place, step in enumerate(asked.steps, start=1))
    reset = plan is not None and plan.status == ACTIVE
    if reset and not may_reset:
        raise _not_allowed()
    return _changed(_small(WorkspacePlan(objective=objective, steps=steps)), reset=reset)


def _add(args: JsonObject, plan: WorkspacePlan | None, _may_reset: bool) -> InternalToolResult:
    asked, plan = read_arguments(_Step, args), _active(plan)
    if len(plan.steps) >= MAX_PLAN_STEPS:
        raise InternalToolError("plan_full", f"the plan has {len(plan.steps)} steps; the limit is {MAX_PLAN_STEPS}")
    added = _new_step(_next_number(plan), asked)
    return _changed(_small(replace(plan, steps=(*plan.steps, added)), plan), step_id=added.step_id)


def _update(args: JsonObject, plan: WorkspacePlan | None, _may_reset: bool) -> InternalToolResult:
    asked, plan = read_arguments(_PlanUpdate, args), _active(plan)
    if asked.title is None and asked.details is None:
        raise InternalToolError("arguments_invalid", "give a title or details: there is nothing to change")
    step = _step_of(plan, asked.step_id)
    if asked.title is not None:
        step = replace(step, title=checked_ascii("title", asked.title, PLAN_TITLE, required=True))
    if asked.details is not None:
        step = replace(step, details=checked_ascii("details", asked.details, PLAN_TEXT))
    return _changed(_small(_with_step(plan, step), plan), step_id=step.step_id)


def _mark(args: JsonObject, plan: WorkspacePlan | None, _may_reset: bool) -> InternalToolResult:
    asked = read_arguments(_Mark, args)
    if plan is None:
        raise InternalToolError("plan_missing", NO_PLAN)
    if plan.status == ABANDONED:
        raise InternalToolError("plan_inactive", "The plan is abandoned; set up another one.")
    if asked.status not in STEP_STATUSES:
        raise InternalToolError("arguments_invalid", f"status is one of: {', '.join(STEP_STATUSES)}")
    step = replace(_step_of(plan, asked.step_id), status=asked.status)
    note = checked_ascii("note", asked.note or "", PLAN_TEXT)
    if note:
        step = replace(step, notes=(*step.notes, note)[-MAX_STEP_NOTES:])
    marked = _with_step(plan, step)
    if note:  # a status alone can always be set
        marked = _small(marked, plan)
    return _changed(replace(marked, status=status_of(marked.steps)), step_id=step.step_id)


def _clear(args: JsonObject, plan: WorkspacePlan | None, may_reset: bool) -> InternalToolResult:
    read_arguments(_Nothing, args)
    if plan is None:
        raise InternalToolError("plan_missing", NO_PLAN)
    if plan.status == ABANDONED:
        raise InternalToolError("plan_inactive", "The plan is abandoned already.")
    if plan.status == ACTIVE and not may_reset:
        raise _not_allowed()
    return _changed(replace(plan, status=ABANDONED, steps=()), reset=plan.status == ACTIVE)


def _read(args: JsonObject, plan: WorkspacePlan | None, _may_reset: bool) -> InternalToolResult:
    read_arguments(_Nothing, args)
    if plan is None:
        raise InternalToolError("plan_missing", NO_PLAN)
    return InternalToolResult(result=plan.as_json())


_TOOLS: dict[str, Callable[[JsonObject, WorkspacePlan | None, bool], InternalToolResult]] = {
    "plan_setup": _set_up,
    "plan_add_step": _add,
    "plan_update_step": _update,
    "plan_mark_step": _mark,
    "plan_clear": _clear,
    "plan_read": _read,
}


def status_of(steps: tuple[WorkspacePlanStep, ...]) -> str:
    """Return what a plan with *steps* is once one was marked: completed when all are done, also when there are none."""
    return COMPLETED if all(step.status == DONE for step in steps) else ACTIVE


def _changed(plan: WorkspacePlan, *, reset: bool = False, step_id: str = "") -> InternalToolResult:
    result: JsonObject = {"plan_status": plan.status, "steps": [f"{s.step_id} {s.status}" for s in plan.steps]}
    return InternalToolResult(result={"step_id": step_id, **result} if step_id else result, plan=plan, reset=reset)


def _active(plan: WorkspacePlan | None) -> WorkspacePlan:
    if plan is None:
        raise InternalToolError("plan_missing", NO_PLAN)
    if plan.status != ACTIVE:
        raise InternalToolError("plan_inactive", f"The plan is {plan.status}; only an active one is changed.")
    return plan


def _new_step(number: int, asked: _Step) -> WorkspacePlanStep:
    title = checked_ascii("title", asked.title, PLAN_TITLE, required=True)
    return WorkspacePlanStep(
        step_id=f"S{number:03d}", title=title, details=checked_ascii("details", asked.details or "", PLAN_TEXT)
    )


def _next_number(plan: WorkspacePlan) -> int:
    """The highest number plus one; ids whose rest is no number are skipped."""
    numbers = [int(step.step_id[1:]) for step in plan.steps if step.step_id[1:].isdecimal()]
    return max(numbers, default=0) + 1


def _step_of(plan: WorkspacePlan, step_id: str) -> WorkspacePlanStep:
    for step in plan.steps:
        if step.step_id == step_id.strip().upper():
            return step
    known = ", ".join(step.step_id for step in plan.steps) or "none"
    raise InternalToolError("plan_step_unknown", f"There is no step {step_id!r}; steps are: {known}.")


def _with_step(plan: WorkspacePlan, changed: WorkspacePlanStep) -> WorkspacePlan:
    return replace(plan, steps=tuple(changed if s.step_id == changed.step_id else s for s in plan.steps))


def _small(changed: WorkspacePlan, before: WorkspacePlan | None = None) -> WorkspacePlan:
    """Return *changed*; raises InternalToolError where it is too large, unless it became smaller."""
    size = json_bytes(changed.as_json())
    if size > MAX_PLAN_BYTES and (before is None or size >= json_bytes(before.as_json())):
        hint = "Shorten details with plan_update_step, mark without a note, or write what you found to a file."
        raise InternalToolError(
            "plan_too_large", f"the plan would have {size} bytes; the limit is {MAX_PLAN_BYTES}", hint
        )
    return changed


def _not_allowed() -> InternalToolError:
    hint = "Go on with the plan: add, update or mark its steps."
    return InternalToolError("plan_reset_refused", "This plan may not be given up: no reflection justified it.", hint)
