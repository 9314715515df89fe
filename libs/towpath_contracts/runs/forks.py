"""Forking a run from a step: how, and what the task of the fork says otherwise."""

from typing import Any
from uuid import UUID

from pydantic import Field, field_validator

from towpath_contracts.base import ClientMessage, ClientMessagePart, Message, is_unset
from towpath_contracts.budgets import Budget
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS
from towpath_contracts.runs.script_size import check_script


class ForkChanges(ClientMessagePart):
    """What the task of a fork says otherwise than that of the run that it is of; what is None stays as it was.

    Of `budget` and `model_settings` only what is given changes. `max_steps` and `max_tool_errors` count those before
    the fork too. A `budget` is for forks with one of their own, a `user_message` for those of the first step.
    """

    user_message: str | None = Field(default=None, min_length=1, max_length=100_000)
    model: str | None = Field(default=None, min_length=1, max_length=256)
    model_settings: ModelSettings | None = None
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    max_tool_errors: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    budget: Budget | None = None


class ForkOptions(ClientMessage):
    """How a run is forked: the new run shares what happened before step `from_step` and decides that step anew.

    It spends what is left of the budget of the run that it is of, and shares its counts of calls, unless it has a
    `fresh_budget`. `note` is given to the model; `script` replaces the decisions of a scripted run from that step on.
    `changes` are made to its task.
    """

    from_step: int = Field(ge=1, le=1_000_000)
    note: str = Field(default="", max_length=2_000)
    script: tuple[Any, ...] | None = Field(default=None, max_length=1_000)
    fresh_budget: bool = Field(default=False, exclude_if=lambda fresh: not fresh)
    changes: ForkChanges | None = Field(default=None, exclude_if=is_unset)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=255)

    _script = field_validator("script")(check_script)


class ForkRun(Message):
    """Fork a run of `project`; `caller` owns the new run, `actor` stands in its log."""

    project: str
    run_id: UUID
    caller: str
    actor: str
    options: ForkOptions
    key_prefix: str = ""
    key_commitment: str = ""
