"""What a task must be, and what becomes of it as the first event of its run. Pure.

Law: a task is refused whole, with every reason at once; what is accepted has every default filled in.
"""

from towpath_contracts.canonical import canonical_json
from towpath_contracts.events import RunCreated
from towpath_contracts.networks import NetworkVersion, Snapshot
from towpath_contracts.problems import Problem, ProblemDetail, problem
from towpath_contracts.tasks import SubmitTask
from towpath_engine.publish import model_is_known
from towpath_orchestrator.settings import OrchestratorSettings

TASK_LIMITS = {"user_message": 256 * 1024, "system_params": 32 * 1024, "labels": 16 * 1024}
"""Bytes of JSON. Each goes into every message of the run, which the broker limits to 1 MiB."""


def check_task(task: SubmitTask, snapshot: Snapshot, settings: OrchestratorSettings) -> Problem | None:
    """Return every reason why *task* can't run on *snapshot*, as one problem."""
    details: list[ProblemDetail] = []
    if task.agent_key is not None and task.agent_key not in snapshot.agents:
        known = ", ".join(snapshot.agents)
        details.append(ProblemDetail(pointer="/agent_key", code="agent_not_found", detail=f"agents are: {known}"))
    if task.model is not None and not model_is_known(task.model):
        details.append(
            ProblemDetail(pointer="/model", code="model_unknown", detail=f"{task.model!r} is not provider:model")
        )
    for name, limit in TASK_LIMITS.items():
        size = len(canonical_json(getattr(task, name)).encode())
        if size > limit:
            return problem("request_too_large", f"{name} has {size} bytes; the limit is {limit}")
    if task.script is not None and not settings.scripts_allowed:
        return problem("script_not_allowed", "this platform does not play scripts")
    if not details:
        return None
    code = details[0].code if len(details) == 1 else "request_invalid"
    return problem(code, f"{len(details)} problem(s): {details[0].detail}", errors=tuple(details))


def created_event(
    task: SubmitTask, version: NetworkVersion, snapshot: Snapshot, caller: str, script_digest: str | None
) -> RunCreated:
    """Return the first event of the run: the task with every default filled in."""
    model = task.model or ("scripted:task" if task.script is not None else None)
    return RunCreated(
        project=version.project,
        caller=caller,
        network=version.name,
        version=version.version,
        snapshot_digest=version.digest,
        agent_key=task.agent_key or snapshot.default_agent_key,
        user_message=task.user_message,
        system_params=task.system_params,
        model=model,
        script_digest=script_digest,
        max_steps=task.max_steps or snapshot.max_steps,
        max_tool_errors=task.max_tool_errors or snapshot.max_tool_errors,
        timeout_ms=task.timeout_ms or snapshot.timeout_ms,
        step_timeout_ms=snapshot.step_timeout_ms,
        context_limit=snapshot.context_limit,
        grant=None if task.grant is None else tuple(rule.model_dump(mode="json") for rule in task.grant),
        labels=task.labels,
        debug=task.debug,
        single_instruction=task.single_instruction,
        priority=task.priority,
    )
