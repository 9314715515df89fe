"""What a prompt of a background run shows.

A pure function of the state, in a fixed order: objective, what the caller added, plan, workspace, the last five calls,
pending reflections, and how many failures are left.
"""

from towpath_contracts.base import JsonObject
from towpath_engine.rules.background import SET_UP, reflection_reasons
from towpath_engine.state.limits import json_bytes, take_while_fitting
from towpath_engine.state.run import RunState
from towpath_engine.state.workspace import WorkspacePlan

MAX_LISTED = 200
"""Files that a prompt lists; the tools find the others."""

LISTING_BYTES = 16 * 1024
"""Of that list; most lists of 200 files have less."""

PLAN_SHOWN_BYTES = 32 * 1024
"""Of the plan in a prompt: as much as the outputs of tools have, unless a task sets another limit."""


def background_section(state: RunState) -> JsonObject | None:
    """Return the snapshot of a background run; None for any other run."""
    task, background = state.created.background, state.background
    if task is None or background is None:
        return None
    shown: JsonObject = {"objective": task.objective}
    if task.context_sections:
        shown["context_sections"] = {section.title: section.text for section in task.context_sections}
    if task.deliverable_schema is not None:
        shown["deliverable_schema"] = task.deliverable_schema
    shown["plan"] = _plan(state)
    shown["workspace"] = workspace_listing(state)
    shown["last_calls"] = list(background.last_calls)
    shown["reflections"] = list(background.reflections)
    limit = state.created.background_settings.max_failures
    shown["failures"] = f"{background.failures} in a row of at most {limit}" if background.failures else ""
    return shown


def _plan(state: RunState) -> JsonObject | str:
    plan = state.desk.plan if state.desk is not None else None
    if plan is not None:
        return shown_plan(plan)
    equipped = state.snapshot.agents[state.agent_key].equipped_tools
    return f"none yet: set one up with {SET_UP}" if SET_UP in equipped else ""


def shown_plan(plan: WorkspacePlan) -> JsonObject:
    """Return the plan as a prompt shows it: whole where it is small enough, else with a note of what is left out of it.

    Left out are first all notes of a step but its last one, then notes and details, then the last steps.
    """
    whole = plan.as_json()
    if json_bytes(whole) <= PLAN_SHOWN_BYTES:
        return whole
    last = [{**step, "notes": step["notes"][-1:]} if "notes" in step else step for step in whole["steps"]]
    if json_bytes(last) <= PLAN_SHOWN_BYTES:
        return {**whole, "steps": last, "left_out": "older notes"}
    bare = [{name: step[name] for name in ("step_id", "title", "status")} for step in whole["steps"]]
    kept = take_while_fitting(bare, PLAN_SHOWN_BYTES)
    more = f", and {len(bare) - len(kept)} steps" if len(kept) < len(bare) else ""
    return {**whole, "steps": kept, "left_out": f"notes and details{more}"}


def workspace_listing(state: RunState) -> list[str]:
    """Return one line a file: path, size, version, whether it is read-only."""
    files = state.desk.files if state.desk is not None else {}
    lines = [
        f"{path} ({file.size} bytes, {'read-only' if file.read_only else f'version {file.version}'})"
        for path, file in sorted(files.items())
    ]
    kept = take_while_fitting(lines[:MAX_LISTED], LISTING_BYTES)
    left = len(lines) - len(kept)
    return lines if not left else [*kept, f"and {left} more files"]


def reflection_section(state: RunState) -> JsonObject:
    """Return what a reflection is about."""
    return {"error": "; ".join(reflection_reasons(state))}


def summary_section(state: RunState) -> JsonObject:
    """Return what the final summary is about, and what shape its deliverable has."""
    task, background = state.created.background, state.background
    if task is None or background is None:
        return {}
    shown: JsonObject = {"ending": background.ending, "reason": background.ending_reason}
    if background.rationale:
        shown["rationale"] = background.rationale
    if background.payload is not None:
        shown["final_report"] = background.payload
    if task.deliverable_schema is not None and background.ending == "completed":
        shown["deliverable_schema"] = task.deliverable_schema
    if background.problems:
        shown["problems_of_the_last_deliverable"] = list(background.problems)
    return shown
