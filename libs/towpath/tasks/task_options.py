"""What may be said of a task beside its network and its message, as keywords that editors and type checkers know.

They are the fields of SubmitTask, with what the SDK takes in their place: a `Goal`, folders of this host, a deadline in
words. `tests/unit/towpath/test_keywords.py` holds them against the message.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from uuid import UUID

    from towpath.tasks.goals import Goal
    from towpath.tasks.mounts import HostMount
    from towpath.tasks.objectives import Objective
    from towpath_contracts.base import JsonObject
    from towpath_contracts.budgets import Budget
    from towpath_contracts.decisions.attachments import TaskAttachment
    from towpath_contracts.decisions.earlier_turns import TaskTurn
    from towpath_contracts.networks.background import BackgroundRunTask, WorkspaceMount
    from towpath_contracts.networks.goal import GoalTask
    from towpath_contracts.networks.model_settings import ModelSettings
    from towpath_contracts.tasks import TaskGrantRule


class TaskOptions(TypedDict, total=False):
    """Options of submit, run, stream and reply.

    `deadline` is the time that the run may be active, in seconds or as text such as "30m"; `timeout_ms` says the same
    in milliseconds. `goal` may be a sentence, and `background` the objective. `idempotency_key` makes a repeated
    submit the same run.
    """

    version: int | None
    agent_key: str | None
    system_params: "JsonObject"
    quoted_inputs: Mapping[str, str]
    max_steps: int | None
    max_tool_errors: int | None
    timeout_ms: int | None
    deadline: str | float | None
    model: str | None
    script: Sequence[Any] | None
    grant: "Sequence[TaskGrantRule | JsonObject] | None"
    labels: Mapping[str, str]
    priority: int
    debug: bool
    single_instruction: bool
    response_schema: "JsonObject | None"
    goal: "Goal | GoalTask | JsonObject | str | None"
    background: "Objective[Any] | BackgroundRunTask | JsonObject | str | None"
    mounts: "Sequence[HostMount | WorkspaceMount | JsonObject]"
    budget: "Budget | JsonObject | None"
    model_settings: "ModelSettings | JsonObject | None"
    attachments: "Sequence[TaskAttachment | JsonObject]"
    messages: "Sequence[TaskTurn | JsonObject]"
    continues: "UUID | str | None"
    idempotency_key: str | None
    traceparent: str | None


class RunOptions(TaskOptions, total=False):
    """Options of `run.sync`: those of a task, where it is sent, and how long its end is waited for."""

    server: str | None
    api_key: str | None
    caller: str
    timeout: str | float | None
