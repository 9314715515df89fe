"""Background objectives: a plan, a workspace, a deliverable.

An objective is short and ASCII; what a run reads and writes lives in its own workspace, never on a host.
"""

import unicodedata
from typing import Any

from pydantic import Field, field_validator, model_validator

from towpath_contracts.base import ClientMessagePart, JsonObject, SparseSettings, is_unset
from towpath_contracts.text import normalized

BACKGROUND_MAX_STEPS = 24
MAX_FAILURES = 8
MAX_OBJECTIVE = 1_024
MAX_ITERATION_MS = 24 * 3_600_000


def ascii_text(text: str) -> str:
    """Return *text* in ASCII: accents are dropped, what has no ASCII form becomes `?`, white space is single."""
    plain = normalized("NFKD", text)
    plain = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(plain.encode("ascii", "replace").decode().split())


class CallerContextSection(ClientMessagePart):
    """A section that the caller adds to every prompt of the run."""

    title: str = Field(min_length=1, max_length=160)
    text: str = Field(max_length=48_000)


class WorkspaceMountFile(ClientMessagePart):
    """One read-only file that the caller puts into the workspace; `path` is relative to the mount."""

    path: str = Field(min_length=1, max_length=1_296)
    content: str


class WorkspaceMount(ClientMessagePart):
    """A folder of the caller's host as it was at submit, read-only in the workspace under `mount_path`."""

    mount_path: str = Field(default="", max_length=1_296)
    files: tuple[WorkspaceMountFile, ...] = Field(default=(), max_length=2_000)


class BackgroundRunSettings(SparseSettings):
    """How an objective is pursued; a task may set any of it, a network gives the defaults of its tasks.

    `iteration_timeout_ms` bounds one iteration: past it the run reflects, past twice of it the run fails. With
    `plan_needs_steps` a plan without any step is none: a run begins with it set, the logs of earlier ones do not have
    it, and go on as they did.
    """

    max_steps: int | None = Field(default=None, ge=1, le=1_000)
    max_failures: int = Field(default=MAX_FAILURES, ge=1, le=1_000)
    iteration_timeout_ms: int | None = Field(default=None, ge=1, le=MAX_ITERATION_MS)
    enable_reflection: bool = True
    allow_plan_reset: bool = True
    summarize_model: str | None = Field(default=None, max_length=256)
    plan_needs_steps: bool | None = Field(default=None, exclude_if=is_unset)

    @model_validator(mode="before")
    @classmethod
    def _in_own_names(cls, given: Any) -> Any:
        """Take `max_iterations`, the name of another design, for `max_steps` (docs/reference/sources.md)."""
        if not isinstance(given, dict) or "max_iterations" not in given or "max_steps" in given:
            return given
        return {"max_steps" if name == "max_iterations" else name: value for name, value in given.items()}


class BackgroundRunTask(ClientMessagePart):
    """An objective and the schema of what it hands over; it makes the run one of kind `background`."""

    objective: str = Field(min_length=1, max_length=16_384)
    deliverable_schema: JsonObject | None = None
    context_sections: tuple[CallerContextSection, ...] = Field(default=(), max_length=32)
    mounts: tuple[WorkspaceMount, ...] = Field(default=(), max_length=16)
    settings: BackgroundRunSettings | None = None

    @field_validator("objective")
    @classmethod
    def _short_ascii(cls, value: str) -> str:
        plain = ascii_text(value)
        if not plain or len(plain) > MAX_OBJECTIVE:
            msg = f"1 to {MAX_OBJECTIVE} ASCII characters; this has {len(plain)}"
            raise ValueError(msg)
        return plain
