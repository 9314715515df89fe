"""What a background run remembers beside the rest of its state (features D4-D8).

Law: bounded. Contents of files are blobs, named here by their digest.
"""

from dataclasses import dataclass, field
from datetime import datetime

from towpath_contracts.base import JsonObject

CALLS_KEPT = 5
"""Last tool calls of the snapshot that a prompt shows (feature D4)."""


@dataclass(frozen=True, kw_only=True)
class PlanStep:
    """One step of the plan; ids are S001, S002, …"""

    step_id: str
    title: str
    status: str = "pending"
    details: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of the run: `status` is active, completed or abandoned."""

    objective: str
    status: str = "active"
    steps: tuple[PlanStep, ...] = ()


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
class BackgroundState:
    """`failures` in a row count towards `max_failures`; `reflections` are shown until the next decision."""

    plan: Plan | None = None
    files: dict[str, WorkspaceFile] = field(default_factory=dict)
    failures: int = 0
    total_failures: int = 0
    last_error: str = ""
    last_calls: tuple[JsonObject, ...] = ()
    reflections: tuple[str, ...] = ()
    plan_confirmed: bool = False
    reset_allowed: bool = False
    iteration_began: datetime | None = None
    ending: str = ""
    ending_status: str = ""
    final_payload: JsonObject | None = None
    summary: str = ""
    deliverable: JsonObject | None = None
