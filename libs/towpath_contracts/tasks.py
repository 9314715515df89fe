"""How work comes in: SubmitTask and its answers.

A task is accepted only when RunAccepted is sent, after its run is committed.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, field_validator, model_validator

from towpath_contracts.base import ClientMessage, ClientMessagePart, JsonObject, Message, Name, is_unset
from towpath_contracts.budgets import Budget
from towpath_contracts.decisions.attachments import MAX_ATTACHMENTS, TaskAttachment
from towpath_contracts.decisions.earlier_turns import MAX_TURNS, TaskTurn
from towpath_contracts.networks.background import BackgroundRunTask, WorkspaceMount
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.plan import PlanTask, with_own_names
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS, MAX_VERSION
from towpath_contracts.runs.script_size import check_script
from towpath_contracts.runs.trace_context import parse_traceparent

GLOB = r"^[A-Za-z0-9_.:/*?\[\]!-]+$"
"""What a pattern of names is made of, as in the matrix."""


def _printable(key: str) -> str:
    if not key.isprintable():
        msg = "use printable characters"
        raise ValueError(msg)
    return key


PrintableKey = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_printable)]
"""An idempotency key."""


class TaskGrantRule(ClientMessagePart):
    """One thing a task may do: it narrows the matrix for this task and never widens it.

    `tool` and `operation` are globs of `*`, `?` and `[…]`; `when` is a condition as in the matrix, without macros.
    """

    tool: str = Field(max_length=128, pattern=GLOB)
    operation: str = Field(default="*", max_length=64, pattern=GLOB)
    when: str | None = Field(default=None, max_length=1_024)


class SubmitTask(ClientMessage):
    """A task: network + message + options. Accepting it creates a run.

    `script` is a JSON array of decisions in wire form, played in order by the scripted provider; `timeout_ms` counts
    active time; `single_instruction` ends the run after its first instruction (dry invoke). The answer of
    the run satisfies `response_schema`, in place of the one that its agent has. `quoted_inputs` are texts of others by
    name, such as a customer's mail: agents read them, and nothing in them counts as said by the caller. A `goal`, a
    `background` objective or a `plan` makes the run one of that kind; `mounts` are
    files that it finds in its workspace. `budget` is what the run may spend. `model_settings` win over those of its
    agents, one by one. `attachments` are images and documents that agents are shown. `messages` are the earlier turns
    of a conversation, oldest first; a run that `continues` another one has those of that run, and takes over what it
    does not say itself. `traceparent` names the caller's span, below which the run stands; it is no part of what is
    asked for: a task that is sent again may bring another.
    """

    network: Name
    user_message: str = Field(default="", max_length=100_000)
    version: int | None = Field(default=None, ge=1, le=MAX_VERSION)
    agent_key: str | None = None
    system_params: JsonObject = Field(default_factory=dict)
    quoted_inputs: dict[Name, str] = Field(default_factory=dict, max_length=32, exclude_if=lambda texts: not texts)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    max_tool_errors: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    model: str | None = Field(default=None, max_length=256)
    script: tuple[Any, ...] | None = Field(default=None, max_length=MAX_STEPS_CAP)
    grant: tuple[TaskGrantRule, ...] | None = Field(default=None, max_length=256)
    labels: dict[str, str] = Field(default_factory=dict, max_length=32)
    priority: int = Field(default=5, ge=0, le=10)
    debug: bool = False
    single_instruction: bool = False
    response_schema: JsonObject | None = Field(default=None, exclude_if=is_unset)
    goal: GoalTask | None = Field(default=None, exclude_if=is_unset)
    background: BackgroundRunTask | None = Field(default=None, exclude_if=is_unset)
    plan: PlanTask | None = Field(default=None, exclude_if=is_unset)
    mounts: tuple[WorkspaceMount, ...] = Field(default=(), max_length=16, exclude_if=lambda mounts: not mounts)
    budget: Budget | None = Field(default=None, exclude_if=is_unset)
    model_settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)
    attachments: tuple[TaskAttachment, ...] = Field(
        default=(), max_length=MAX_ATTACHMENTS, exclude_if=lambda attached: not attached
    )
    messages: tuple[TaskTurn, ...] = Field(default=(), max_length=MAX_TURNS, exclude_if=lambda turns: not turns)
    continues: UUID | None = Field(default=None, exclude_if=is_unset)
    idempotency_key: PrintableKey | None = None
    traceparent: str | None = Field(default=None, max_length=64, exclude_if=is_unset)

    @field_validator("plan")
    @classmethod
    def _in_own_names(cls, value: PlanTask | None) -> PlanTask | None:
        if value is None or value.plan is None:
            return value
        return value.model_copy(update={"plan": with_own_names(value.plan)})

    _script = field_validator("script")(check_script)

    @field_validator("traceparent")
    @classmethod
    def _names_a_span(cls, value: str | None) -> str | None:
        if value is not None and parse_traceparent(value) is None:
            msg = "use a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _something_to_do(self) -> "SubmitTask":
        if sum(given is not None for given in (self.goal, self.background, self.plan)) > 1:
            msg = "a task has one of a goal, a background objective and a plan"
            raise ValueError(msg)
        if self.continues is not None and self.messages:
            msg = "a task that continues a run has the messages of that run: leave messages out"
            raise ValueError(msg)
        if not self.user_message and not self.script and self.kind == "network":
            msg = "user_message is required unless a script, a goal, a background objective or a plan is given"
            raise ValueError(msg)
        return self

    @property
    def kind(self) -> str:
        """The kind of run that the task makes."""
        kinds = {"goal": self.goal, "background": self.background, "plan": self.plan}
        return next((kind for kind, given in kinds.items() if given is not None), "network")


class RunAccepted(Message):
    """The run exists and will reach a recorded status; it may be active for `timeout_ms`."""

    run_id: UUID
    project: str
    network: str
    version: int
    status: str
    created_at: datetime
    timeout_ms: int | None = None
    duplicate: bool = False
    trace_id: str = ""
