"""Events of plans, workspaces and background runs; part of the union of `events`.

As there. Contents of files are named by their digests.
"""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart
from towpath_contracts.tools.workspace import FileChange


class WorkspacePlanChanged(MessagePart):
    """A call changed the plan of the run: *plan* is all of it (objective, status, steps)."""

    type: Literal["plan_changed"] = "plan_changed"
    step: int
    execution_id: UUID
    plan: JsonObject
    reset: bool = False


class WorkspaceChanged(MessagePart):
    """A call changed files of the workspace; each one's version rises by one, a deleted one is gone."""

    type: Literal["workspace_changed"] = "workspace_changed"
    step: int
    execution_id: UUID
    changes: tuple[FileChange, ...]


class InternalOutcomeRecorded(MessagePart):
    """The ledger holds what came of a call that the run applied itself."""

    type: Literal["outcome_recorded"] = "outcome_recorded"
    execution_id: UUID


class IterationStarted(MessagePart):
    """An iteration of a background run begins; `index` counts from 1 and is the step's number."""

    type: Literal["iteration_started"] = "iteration_started"
    index: int


class IterationCompleted(MessagePart):
    """An iteration is over: what was decided, with which tools, and why it counts as it does.

    `decision` is the action of the model, empty where none could be had; `failures` those in a row up to now. `reason`
    is completed, refused, failed, denied, timed_out or ended.
    """

    type: Literal["iteration_completed"] = "iteration_completed"
    index: int
    decision: str = ""
    tools: tuple[str, ...] = ()
    reason: str
    failures: int = 0


class RunEndDecided(MessagePart):
    """The run is about to end, and how is known: its summary is asked for first.

    What ends the run is known: its last words are asked for. `payload` is the model's own answer, if it gave one.
    """

    type: Literal["run_concluding"] = "run_concluding"
    step: int
    status: Literal["completed", "abandoned"]
    reason: str
    rationale: str = ""
    payload: JsonObject | None = None


class DeliverableRefused(MessagePart):
    """The deliverable is not what its schema asks for; the model gets `problems` where it may correct it once."""

    type: Literal["deliverable_refused"] = "deliverable_refused"
    step: int
    problems: tuple[str, ...] = Field(default=(), max_length=32)


class BackgroundRunEnded(MessagePart):
    """A background run comes to its end after `index` iterations; the last event before `run_finished`."""

    type: Literal["terminated"] = "terminated"
    index: int
    status: str
    reason: str
    failures: int = 0
    decision: str = ""
    tools: tuple[str, ...] = ()


BackgroundEvent = (
    WorkspacePlanChanged
    | WorkspaceChanged
    | InternalOutcomeRecorded
    | IterationStarted
    | IterationCompleted
    | RunEndDecided
    | DeliverableRefused
    | BackgroundRunEnded
)


class Reflected(MessagePart):
    """What a reflection answered, and whether the platform followed it."""

    type: Literal["reflected"] = "reflected"
    step: int
    verdict: str
    note: str = ""
    rationale: str = ""
    followed: bool = True
    refusal: str = ""


class FinalSummaryRecorded(MessagePart):
    """The last words of a run: its summary, and its deliverable where one was asked for."""

    type: Literal["summarized"] = "summarized"
    summary: str
    rationale: str = ""
    deliverable: JsonObject | None = None
    source: Literal["model", "platform"] = "model"
