"""Checks what belongs to one kind of task: a goal, a plan, a swarm, an objective.

A fault is refused before there is a run, at its place in the task: a criterion that can't be evaluated, or that nothing
in the network could meet, would only be unmet in the run, step after step. Mounted files are read-only, and their texts
are stored before the first event of the run names them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.json_schema import unusable_schema
from towpath_contracts.networks.background import BackgroundRunTask
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan_checks import PLAN_BYTES, PLAN_INVALID, check_plan
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm, SelectedSwarm
from towpath_contracts.problems.near_names import unknown_agent
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.workspace import MAX_MOUNT_BYTES, MAX_MOUNT_FILES, FileEntry, PathRefusedError, clean_path
from towpath_engine.rules.plan_goals import EXPRESSION_CHARS, criteria_faults, expressions_of, goal_faults

GOAL_BYTES = 128 * 1024
"""Bytes of JSON. A goal goes into every request to a model."""


def goal_problems(goal: GoalTask | None, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with *goal* on this network, each at its place in the task."""
    if goal is None:
        return
    size = len(canonical_json(goal.model_dump(mode="json")).encode())
    if size > GOAL_BYTES:
        detail = f"the goal has {size} bytes; the limit is {GOAL_BYTES}"
        yield ProblemDetail(pointer="/goal", code="request_too_large", detail=detail)
    chars = sum(map(len, expressions_of(goal.acceptance_criteria)))
    if chars > EXPRESSION_CHARS:
        detail = f"the criteria have {chars} characters of expressions together; the limit is {EXPRESSION_CHARS}"
        yield ProblemDetail(pointer="/goal/acceptance_criteria", code="request_too_large", detail=detail)
        return
    for number, fault in criteria_faults(goal.acceptance_criteria, snapshot):
        pointer = f"/goal/acceptance_criteria/{number}/when"
        yield ProblemDetail(pointer=pointer, code="criterion_invalid", detail=fault)
    judge = goal.settings.judge_model if goal.settings is not None else None
    if judge is not None and (fault := model_fault(judge)):
        yield ProblemDetail(pointer="/goal/settings/judge_model", code="model_unknown", detail=fault)
    named = goal.settings.specialists if goal.settings is not None else ()
    for place, key in enumerate(named):
        if key not in snapshot.agents:
            detail = unknown_agent(key, snapshot.agents)
            pointer = f"/goal/settings/specialists/{place}"
            yield ProblemDetail(pointer=pointer, code="agent_not_found", detail=detail)


CRITERIA = "acceptance_criteria"


def expressions_in(task: SubmitTask) -> list[str]:
    """Return the criteria of *task* that are expressions, those of the agents of its plan too, before it is checked.

    They are looked for where an accepted plan has them and nowhere else: what stands elsewhere is never compiled.
    """
    found = [] if task.goal is None else expressions_of(task.goal.acceptance_criteria)
    for criterion in criteria_in(None if task.plan is None else task.plan.plan):
        when = criterion.get("when") if isinstance(criterion, dict) else None
        found += [when] if isinstance(when, str) else []
    return found


def criteria_in(plan: JsonObject | None) -> list[Any]:
    """Return the criteria of the agents of a plan, whether it was checked or not."""
    found: list[Any] = []
    for step in _listed(plan, "steps"):
        alone = step.get("agent") if isinstance(step, dict) else None
        together = step.get("parallel") if isinstance(step, dict) else None
        for call in (alone, *_listed(together, "steps")):
            found += _listed(call, CRITERIA)
    return found


def _listed(part: Any, name: str) -> list[Any]:
    given = part.get(name) if isinstance(part, dict) else None
    return given if isinstance(given, list) else []


NAMED_CHARS = 2_000


def plan_problems(task: SubmitTask, snapshot: NetworkSnapshot, most_steps: int) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with a plan on this network, each fault at its place in the task."""
    asked = task.plan
    if asked is None:
        return
    size = len(canonical_json(asked.bindings).encode("utf-8", "surrogatepass"))
    if size > PLAN_BYTES:
        detail = f"the bindings have {size} bytes; the limit is {PLAN_BYTES}"
        yield ProblemDetail(pointer="/plan/bindings", code="request_too_large", detail=detail)
    for name in ("response_schema", "single_instruction"):
        if getattr(task, name):
            detail = f"a plan says what became of each of its steps: leave {name} out"
            yield ProblemDetail(pointer=f"/{name}", code=PLAN_INVALID, detail=detail)
    if asked.plan is None:
        return
    members = {*snapshot.agents, *(snapshot.swarm.swarms if snapshot.swarm is not None else ())}
    silent = not task.user_message and not plan_said(task)
    plan, faults = check_plan(
        asked.plan, agents=members, bindings=asked.bindings, most_steps=most_steps, self_contained=silent
    )
    for fault in (*faults, *(() if plan is None else goal_faults(plan, snapshot))):
        yield fault.model_copy(update={"pointer": f"/plan/plan{fault.pointer}"})


def plan_said(task: SubmitTask) -> str:
    """Return what stands for the user's message in a task with a plan: what is to be planned, or what the plan is."""
    if task.plan is None:
        return ""
    given = task.plan.plan or {}
    named = [value for name in ("name", "description") if isinstance(value := given.get(name), str) and value]
    return task.plan.prompt or "\n".join(named)[:NAMED_CHARS]


NETWORK = "network"


SWARM = "swarm"


def kind_of(task: SubmitTask, snapshot: NetworkSnapshot) -> str:
    """Return the kind of run that *task* makes of a network; a single instruction is that of one agent."""
    if snapshot.swarm is None or task.kind != NETWORK or task.single_instruction:
        return task.kind
    return SWARM


def swarm_of(task: SubmitTask, snapshot: NetworkSnapshot) -> SelectedSwarm | None:
    """Return the swarm that the run of *task* is of; None for any other run. The lead of a team may pursue a goal."""
    if snapshot.swarm is None or (kind_of(task, snapshot) != SWARM and not _leads(task, snapshot.swarm)):
        return None
    return SelectedSwarm(swarm=snapshot.swarm)


def swarm_problems(task: SubmitTask, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Name everything that a swarm can't take of *task*."""
    swarm = snapshot.swarm
    if swarm is None:
        return
    for name in ("goal", "background"):
        if getattr(task, name) is not None and not _leads(task, swarm):
            detail = f"{snapshot.network} is a swarm ({swarm.mode}): it takes a message, not a {name}"
            yield ProblemDetail(pointer=f"/{name}", code="swarm_takes_messages", detail=detail)
    if kind_of(task, snapshot) != SWARM and not _leads(task, swarm):
        return
    if task.agent_key in snapshot.agents and not _may_begin(task.agent_key, swarm):
        detail = f"{swarm.first_agent} begins this {swarm.mode}; leave agent_key out"
        yield ProblemDetail(pointer="/agent_key", code="agent_not_found", detail=detail)
    if task.response_schema is not None and not swarm.answers_alone:
        detail = "several agents answer together at the end of this swarm: let one agent come after them"
        yield ProblemDetail(pointer="/response_schema", code="response_schema_invalid", detail=detail)


def _leads(task: SubmitTask, swarm: CompiledSwarm) -> bool:
    """Return whether *task* is a goal for the lead of a team, which delegates and is judged by what came of it."""
    return task.goal is not None and swarm.mode == "team" and not task.single_instruction


def _may_begin(agent_key: str | None, swarm: CompiledSwarm) -> bool:
    """Return whether a task may begin with that agent: any of a handoff, else the one who begins anyway."""
    return agent_key == swarm.first_agent or (swarm.mode == "handoff" and agent_key in swarm.handoffs)


OBJECTIVE_BYTES = 128 * 1024
"""Bytes of JSON, without mounted files. An objective goes into every request to a model."""


NEEDED = "plan_setup"


@dataclass(slots=True)
class TaskMountFiles:
    """The files mounted for a task in the order of their paths, their texts by digest, and what is wrong with them."""

    files: tuple[FileEntry, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    problems: tuple[ProblemDetail, ...] = ()


def mounted(task: SubmitTask) -> TaskMountFiles:
    """Read the mounts of *task*; those of an objective count like the task's own."""
    named = [(f"/mounts/{place}", mount) for place, mount in enumerate(task.mounts)]
    if task.background is not None:
        own = enumerate(task.background.mounts)
        named += [(f"/background/mounts/{place}", mount) for place, mount in own]
    files: dict[str, FileEntry] = {}
    texts: dict[str, str] = {}
    problems: list[ProblemDetail] = []
    size = 0
    for pointer, mount in named:
        for place, file in enumerate(mount.files):
            at = f"{pointer}/files/{place}"
            data = file.content.encode()
            size += len(data) + len(file.path)
            try:
                path = clean_path(f"{mount.mount_path}/{file.path}" if mount.mount_path else file.path)
            except PathRefusedError as error:
                problems.append(ProblemDetail(pointer=f"{at}/path", code="path_invalid", detail=str(error)))
                continue
            if path in files:
                detail = f"{path} is mounted twice"
                problems.append(ProblemDetail(pointer=f"{at}/path", code="path_invalid", detail=detail))
            digest = digest_text(data)
            files[path] = FileEntry(path=path, digest=digest, size=len(data), read_only=True)
            texts[digest] = file.content
    problems += _too_large(files, size)
    ordered = tuple(files[path] for path in sorted(files))
    return TaskMountFiles(files=ordered, texts=texts, problems=tuple(problems))


def _too_large(files: dict[str, FileEntry], size: int) -> Iterator[ProblemDetail]:
    if len(files) > MAX_MOUNT_FILES:
        detail = f"{len(files)} files are mounted; the limit is {MAX_MOUNT_FILES}"
        yield ProblemDetail(pointer="/mounts", code="request_too_large", detail=detail)
    if size > MAX_MOUNT_BYTES:
        detail = f"the mounted files have {size} bytes; the limit is {MAX_MOUNT_BYTES}"
        yield ProblemDetail(pointer="/mounts", code="request_too_large", detail=detail)
    for path in files:
        folder = next((other for other in _above(path) if other in files), None)
        if folder is not None:
            detail = f"{folder} can't be a file and the folder of {path}"
            yield ProblemDetail(pointer="/mounts", code="path_invalid", detail=detail)


def _above(path: str) -> Iterator[str]:
    segments = path.split("/")
    for length in range(1, len(segments)):
        yield "/".join(segments[:length])


def objective_problems(
    background: BackgroundRunTask | None, snapshot: NetworkSnapshot, agent_key: str | None
) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with an objective on this network, each at its place in the task."""
    if background is None:
        return
    size = len(canonical_json(background.model_dump(mode="json", exclude={"mounts"})).encode())
    if size > OBJECTIVE_BYTES:
        detail = f"the objective with its sections has {size} bytes; the limit is {OBJECTIVE_BYTES}"
        yield ProblemDetail(pointer="/background", code="request_too_large", detail=detail)
    if background.deliverable_schema is not None and (fault := unusable_schema(background.deliverable_schema)):
        pointer = "/background/deliverable_schema"
        yield ProblemDetail(pointer=pointer, code="deliverable_schema_invalid", detail=fault)
    model = background.settings.summarize_model if background.settings is not None else None
    if model is not None and (fault := model_fault(model)):
        yield ProblemDetail(pointer="/background/settings/summarize_model", code="model_unknown", detail=fault)
    agent = snapshot.agents.get(agent_key or snapshot.default_agent_key)
    if agent is not None and NEEDED not in agent.equipped_tools:
        detail = f"{agent.key} can't plan: equip it with {NEEDED}, plan_mark_step and the other plan tools"
        yield ProblemDetail(pointer="/agent_key", code="plan_tools_missing", detail=detail)
