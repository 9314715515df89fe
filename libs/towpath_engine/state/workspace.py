"""The workspace of a run: its plan and its files.

Bounded (64 steps, 1,000 files). Contents of files are blobs, named here by their digest.
"""

from dataclasses import dataclass, field
from datetime import datetime

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.tools.internal_tools import PLAN_TOOLS


@dataclass(frozen=True, kw_only=True)
class WorkspacePlanStep:
    """One step of the plan; ids are S001, S002, …"""

    step_id: str
    title: str
    status: str = "pending"
    details: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkspacePlan:
    """The plan of the run: `status` is active, completed or abandoned."""

    objective: str
    status: str = "active"
    steps: tuple[WorkspacePlanStep, ...] = ()

    def as_json(self) -> JsonObject:
        """Return the plan as the log, a prompt and a reader see it; what is empty is left out of a step."""
        steps = [
            {
                "step_id": step.step_id,
                "title": step.title,
                "status": step.status,
                **({"details": step.details} if step.details else {}),
                **({"notes": list(step.notes)} if step.notes else {}),
            }
            for step in self.steps
        ]
        return {"objective": self.objective, "status": self.status, "steps": steps}


def plan_from(data: JsonObject) -> WorkspacePlan:
    """Read what `as_json` wrote."""
    steps = tuple(WorkspacePlanStep(**{**step, "notes": tuple(step.get("notes", ()))}) for step in data["steps"])
    return WorkspacePlan(objective=data["objective"], status=data["status"], steps=steps)


@dataclass(frozen=True, kw_only=True)
class WorkspaceFile:
    """One file of the workspace, without its content."""

    digest: str
    size: int
    version: int = 1
    read_only: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RunWorkspace:
    """The plan and the files of a run."""

    plan: WorkspacePlan | None = None
    files: dict[str, WorkspaceFile] = field(default_factory=dict)


EMPTY_WORKSPACE = RunWorkspace()


def needs_plan(tools: tuple[str, ...], desk: RunWorkspace | None, *, with_steps: bool) -> bool:
    """Return whether *tools* may not be used yet: a background run plans before it acts.

    Where plans have to be *with_steps*, one without any is none.
    """
    plan = desk.plan if desk is not None else None
    planned = plan is not None and plan.status == "active" and (bool(plan.steps) or not with_steps)
    return not planned and not PLAN_TOOLS.issuperset(tools)


def file_list_json(desk: RunWorkspace | None) -> str:
    """Return the list of files that a tool of a worker gets, as JSON: path to digest, size and whether read-only."""
    files = desk.files if desk is not None else {}
    return canonical_json(
        {path: {"digest": f.digest, "size": f.size, "read_only": f.read_only} for path, f in files.items()}
    )
