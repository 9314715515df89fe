"""Checks a task, and turns it into the first event of its run.

A task is refused whole, with every reason at once; what is accepted has every default filled in.
"""

from collections.abc import Sequence
from typing import Any

from towpath_contracts.base import with_defaults
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.events.log import RunCreated
from towpath_contracts.json_schema import unusable_schema
from towpath_contracts.networks.background import BACKGROUND_MAX_STEPS, BackgroundRunSettings, BackgroundRunTask
from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_contracts.networks.goal import GOAL_MAX_STEPS, GoalTask
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.spec import NetworkSnapshot, NetworkVersion
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.near_names import SUGGESTED, suggest_name, unknown_agent
from towpath_contracts.problems.registry import REGISTRY, Problem, ProblemDetail, problem
from towpath_contracts.runs.trace_context import parse_traceparent
from towpath_contracts.tasks import SubmitTask, TaskGrantRule
from towpath_contracts.tools.grants import Grants, narrow
from towpath_contracts.tools.name_globs import name_matches
from towpath_engine.rules.plan_goals import goal_settings_of
from towpath_orchestrator.core.run_times import USUAL_TIMES, RunTimes, times_of
from towpath_orchestrator.core.task_attachments import attachment_problems, read_attachments
from towpath_orchestrator.core.task_kinds import (
    goal_problems,
    kind_of,
    mounted,
    objective_problems,
    plan_problems,
    plan_said,
    swarm_of,
    swarm_problems,
)
from towpath_orchestrator.core.threads import turn_problems
from towpath_orchestrator.settings import OrchestratorSettings

TASK_LIMITS = {"user_message": 256 * 1024, "system_params": 32 * 1024, "labels": 16 * 1024, "quoted_inputs": 128 * 1024}
"""Bytes of JSON. Each goes into every message of the run, which the broker limits to 1 MiB."""

MAX_CREATED_BYTES = 950_000
"""Of the first event of a run, as JSON: nobody could read one that no message holds, nor what comes after it."""

MAX_TOLD_TOOLS = 50
"""Tools of the network that are named where a grant names another one."""


def check_task(
    task: SubmitTask, snapshot: NetworkSnapshot, settings: OrchestratorSettings, found: Sequence[ProblemDetail] = ()
) -> Problem | None:
    """Return every reason why *task* can't run on *snapshot*, as one problem; *found* were seen elsewhere."""
    kind = (
        *goal_problems(_goal(task, snapshot), snapshot),
        *objective_problems(_background(task, snapshot), snapshot, task.agent_key),
        *swarm_problems(task, snapshot),
        *plan_problems(task, snapshot, settings.max_plan_steps),
        *mounted(task).problems,
        *attachment_problems(task, snapshot),
        *times_of(settings).problems(task),
        *turn_problems(task),
    )
    details: list[ProblemDetail] = [*_grant_problems(task.grant or (), snapshot), *kind, *found]
    if task.agent_key is not None and task.agent_key not in snapshot.agents:
        detail = unknown_agent(task.agent_key, snapshot.agents)
        details.append(ProblemDetail(pointer="/agent_key", code="agent_not_found", detail=detail))
    if task.model is not None and (fault := model_fault(task.model)):
        details.append(ProblemDetail(pointer="/model", code="model_unknown", detail=fault))
    if task.script is not None and task.model is not None and not task.model.startswith("scripted:"):
        detail = (
            f"{task.model!r} does not play scripts, so the script would never be asked; use scripted:NAME, or no model"
        )
        details.append(ProblemDetail(pointer="/script", code="script_unplayed", detail=detail))
    if task.response_schema is not None and (fault := _schema_fault(task)):
        details.append(ProblemDetail(pointer="/response_schema", code="response_schema_invalid", detail=fault))
    for name, limit in TASK_LIMITS.items():
        size = len(canonical_json(getattr(task, name)).encode())
        if size > limit:
            return problem("request_too_large", f"{name} has {size} bytes; the limit is {limit}")
    if task.script is not None and not settings.scripts_allowed:
        return problem("script_not_allowed", "this platform does not play scripts")
    if not details:
        return None
    shared = details[0].code if len({one.code for one in details}) == 1 else ""
    code = shared if shared in REGISTRY else "request_invalid"  # some codes are of places, such as `condition`
    return problem(code, tell_faults(details), errors=tuple(details))


def _schema_fault(task: SubmitTask) -> str:
    """Return why the task's answers can't be held against its schema."""
    if task.background is not None:
        return "an objective hands over a deliverable: use background.deliverable_schema"
    return unusable_schema(task.response_schema or {})


def _grant_problems(grant: Sequence[TaskGrantRule], snapshot: NetworkSnapshot) -> list[ProblemDetail]:
    """Return which entries name a tool or an operation that the network does not have: they would grant nothing."""
    details: list[ProblemDetail] = []
    for place, entry in enumerate(grant):
        if _is_glob(entry.tool):
            continue
        spec = snapshot.tools.get(entry.tool)
        if spec is None:
            hint = _suggest_tool(entry.tool, snapshot) if len(details) < SUGGESTED else ""
            detail = f"the network has no tool {entry.tool!r}{hint}"
            details.append(ProblemDetail(pointer=f"/grant/{place}/tool", code="tool_unknown", detail=detail))
        elif not name_matches(entry.operation, spec.operation):
            detail = f"the operation of {entry.tool} is {spec.operation!r}"
            details.append(ProblemDetail(pointer=f"/grant/{place}/operation", code="operation_unknown", detail=detail))
    return details


def _suggest_tool(tool: str, snapshot: NetworkSnapshot) -> str:
    more = ", …" if len(snapshot.tools) > MAX_TOLD_TOOLS else ""
    listed = f"; tools are: {', '.join(sorted(snapshot.tools)[:MAX_TOLD_TOOLS])}{more}"
    return suggest_name(tool, snapshot.tools, otherwise=listed)


def _is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def chain_above(parent: RunCreated | None) -> Grants:
    """Return the grants that a task given by the run *parent* stands under, or those of a task of its own: none."""
    return () if parent is None else narrow(parent.grants, parent.grant)


def created_event(
    task: SubmitTask,
    version: NetworkVersion,
    snapshot: NetworkSnapshot,
    caller: str,
    script_digest: str | None,
    parent: RunCreated | None = None,
    planner_model: str | None = None,
    times: RunTimes = USUAL_TIMES,
) -> RunCreated:
    """Return the first event of the run: the task with every default filled in.

    *planner_model* is the platform's choice, for tasks that name no model and may have a plan made.
    Under *parent* it has every grant of that run and its own: rights only narrow. Raises GrantChainTooLongError.
    """
    above = chain_above(parent)
    narrow(above, None if task.grant is None else [rule.model_dump(mode="json") for rule in task.grant])
    model = task.model or ("scripted:task" if task.script is not None else None)
    attached = read_attachments(task)
    goal, background = _goal(task, snapshot), _background(task, snapshot)
    return RunCreated(
        kind=kind_of(task, snapshot),
        goal=goal,
        background=background,
        plan=_plan(task),
        swarm=swarm_of(task, snapshot),
        workspace=mounted(task).files,
        project=version.project,
        caller=caller,
        network=version.name,
        version=version.version,
        snapshot_digest=version.digest,
        agent_key=task.agent_key or snapshot.default_agent_key,
        user_message=task.user_message or _said(task),
        system_params=task.system_params,
        quoted_inputs=task.quoted_inputs,
        model=model,
        script_digest=script_digest,
        max_steps=task.max_steps or _steps(goal, background) or snapshot.max_steps,
        max_tool_errors=task.max_tool_errors or snapshot.max_tool_errors,
        timeout_ms=times.of(task, snapshot),
        step_timeout_ms=snapshot.step_timeout_ms,
        context_limit=snapshot.context_limit,
        grant=None if task.grant is None else tuple(rule.model_dump(mode="json") for rule in task.grant),
        grants=above,
        labels=task.labels,
        debug=task.debug,
        single_instruction=task.single_instruction,
        response_schema=task.response_schema,
        priority=task.priority,
        budget=task.budget,
        model_settings=task.model_settings,
        traceparent=_recorded(task.traceparent),
        planner_model=planner_model if model is None and _may_plan(task, snapshot) else None,
        messages=attached.turns,
        epoch_turns=True,
        attachments=attached.stored,
    )


def replayed_by_script(task: RunCreated, script_digest: str) -> RunCreated:
    """Return the task of a fork whose script decides in the place of the models that its parent asked.

    It brings its judgements, plans and summaries along. A judge, or who writes summaries, that was asked beside a
    script goes on.
    """
    scripted: dict[str, Any] = {"script_digest": script_digest, "model": "scripted:task", "planner_model": None}
    if task.goal is not None and task.script_digest is None:
        settings = task.goal_settings.model_copy(update={"judge_model": None})
        scripted["goal"] = task.goal.model_copy(update={"settings": settings})
    if task.background is not None and task.script_digest is None:
        written = task.background_settings.model_copy(update={"summarize_model": None})
        scripted["background"] = task.background.model_copy(update={"settings": written})
    return task.model_copy(update=scripted)


def size_problem(created: RunCreated) -> Problem | None:
    """Return why a run can't begin with all that its task, and the run that it continues, give it."""
    size = len(created.model_dump_json().encode())
    if size <= MAX_CREATED_BYTES:
        return None
    with_earlier = ", with what it has of the run before it" if created.continues is not None else ""
    detail = f"the run would begin with {size} bytes{with_earlier}; the limit is {MAX_CREATED_BYTES}"
    return problem("request_too_large", detail)


def _recorded(traceparent: str | None) -> str | None:
    """Return what names the caller's span, where that is recorded: below another one a run would have no parent."""
    span = parse_traceparent(traceparent)
    return span.traceparent if span is not None and span.sampled else None


def _may_plan(task: SubmitTask, snapshot: NetworkSnapshot) -> bool:
    """Return whether a model may be asked for a plan: by the task, or by an agent that may call the tool."""
    asked = task.plan is not None and task.plan.prompt is not None
    return asked or any(ORCHESTRATE in agent.equipped_tools for agent in snapshot.agents.values())


def _said(task: SubmitTask) -> str:
    """Return what stands for the user's message where the task gives none."""
    if task.goal is not None:
        return task.goal.goal
    return task.background.objective if task.background is not None else plan_said(task)


def _plan(task: SubmitTask) -> PlanTask | None:
    """Return the task's plan; its time is the run's."""
    return None if task.plan is None else task.plan.model_copy(update={"timeout_ms": None})


def _goal(task: SubmitTask, snapshot: NetworkSnapshot) -> GoalTask | None:
    """Return the task's goal with its settings filled in: the task's own, else the network's, else the defaults."""
    if task.goal is None:
        return None
    settings = goal_settings_of(snapshot.goal, task.goal.settings)
    if task.script is not None and (task.goal.settings is None or task.goal.settings.judge_model is None):
        # A script brings its judgements along, whatever the network's judge is.
        settings = settings.model_copy(update={"judge_model": None})
    return task.goal.model_copy(update={"settings": settings})


def _background(task: SubmitTask, snapshot: NetworkSnapshot) -> BackgroundRunTask | None:
    """Return the task's objective with its settings filled in, like a goal's."""
    if task.background is None:
        return None
    settings = with_defaults(BackgroundRunSettings, snapshot.background, task.background.settings)
    settings = settings.model_copy(update={"plan_needs_steps": settings.plan_needs_steps is not False})
    return task.background.model_copy(update={"settings": settings, "mounts": ()})


def _steps(goal: GoalTask | None, background: BackgroundRunTask | None) -> int | None:
    """Return how many steps a goal or background run may take; None for a network run."""
    if goal is not None:
        return (goal.settings.max_steps if goal.settings is not None else None) or GOAL_MAX_STEPS
    if background is not None:
        return (background.settings.max_steps if background.settings is not None else None) or BACKGROUND_MAX_STEPS
    return None
