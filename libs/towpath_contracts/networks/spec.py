"""Networks as people write them, and the snapshot that publishing compiles.

A snapshot is immutable and addressed by its digest; a run keeps the snapshot it started with.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from towpath_contracts.base import ClientMessagePart, JsonObject, Message, MessagePart, Name, is_unset
from towpath_contracts.budgets import Budget
from towpath_contracts.networks.background import BackgroundRunSettings
from towpath_contracts.networks.goal import GoalSettings
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.swarm import CompiledSwarm, SwarmSettings
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS

MAX_STEP_TIMEOUT_MS = 3_600_000
"""No model call may take longer than an hour."""

MAX_STEPS = 10
"""Steps of a run; of a swarm, for each of its agents."""

DEFAULT_CONTEXT_LIMIT = 32_768
"""Bytes of full tool output that a prompt may hold."""


MAX_FALLBACKS = 4
"""Models that are asked after the first one: each takes its attempts, and its part of the step's time."""


def split_models(written: Any) -> Any:
    """Return *written* with the first of a list of models as `model`, the others as `fallback_models`."""
    models = written.get("model") if isinstance(written, Mapping) else None
    if not isinstance(models, list | tuple):
        return written
    if not models or written.get("fallback_models"):
        msg = "model: give one model or a list of them, and fallback_models only beside one"
        raise ValueError(msg)
    return {**written, "model": models[0], "fallback_models": models[1:]}


class AgentSpec(ClientMessagePart):
    """One agent of a network; its `prompt_template` binds `{tools}`, `{routes}`, `{agent_key}`, `{tool_history}`.

    `budget` is what it may spend in one run, `model_settings` how its model is asked.
    `model` may be a list: the others become `fallback_models`, which are asked where the one before can't answer.
    """

    key: Name
    display_name: str = ""
    description: str = Field(default="", max_length=2_048)
    agent_type: str = ""
    prompt_template: str = Field(default="", max_length=65_536)
    model: str | None = None
    equipped_tools: tuple[str, ...] = ()
    allowed_routes: tuple[str, ...] = ()
    is_default: bool = False
    allow_respond: bool = False
    respond_schema: JsonObject | None = None
    respond_guidance: str = ""
    budget: Budget | None = Field(default=None, exclude_if=is_unset)
    model_settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)
    fallback_models: tuple[str, ...] = Field(default=(), max_length=MAX_FALLBACKS, exclude_if=lambda models: not models)

    @model_validator(mode="before")
    @classmethod
    def _listed_models(cls, written: Any) -> Any:
        return split_models(written)

    @model_validator(mode="after")
    def _has_a_first_model(self) -> Self:
        if self.fallback_models and self.model is None:
            msg = "fallback_models: name the model that is asked before them"
            raise ValueError(msg)
        return self


class NetworkSpec(ClientMessagePart):
    """A network as written in YAML or Python; `publish` compiles it.

    With `swarm` its agents work together in a fixed manner: then the lead is the default agent and every member may
    respond, without anybody saying so; and `max_steps`, where it is left at 10, is 10 for each agent. Without
    `timeout_ms` a run has the active time that is usual for its kind.
    """

    kind: str = Field(default="Network", pattern="^Network$")
    name: Name
    description: str = Field(default="", max_length=4_096)
    model: str = "scripted:task"
    agents: tuple[AgentSpec, ...] = Field(max_length=50)
    max_steps: int = Field(default=MAX_STEPS, ge=1, le=MAX_STEPS_CAP)
    max_tool_errors: int = Field(default=8, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    step_timeout_ms: int = Field(default=60_000, ge=1, le=MAX_STEP_TIMEOUT_MS)
    force_respond: bool = False
    force_respond_agent: str | None = None
    context_limit: int = Field(default=DEFAULT_CONTEXT_LIMIT, ge=0, le=200_000)
    labels: dict[str, str] = Field(default_factory=dict)
    goal: GoalSettings | None = Field(default=None, exclude_if=is_unset)
    background: BackgroundRunSettings | None = Field(default=None, exclude_if=is_unset)
    on_loop: Literal["gate"] | None = Field(default=None, exclude_if=is_unset)
    swarm: SwarmSettings | None = Field(default=None, exclude_if=is_unset)
    fallback_models: tuple[str, ...] = Field(default=(), max_length=MAX_FALLBACKS, exclude_if=lambda models: not models)

    @model_validator(mode="before")
    @classmethod
    def _listed_models(cls, written: Any) -> Any:
        return split_models(written)


class CompiledAgent(MessagePart):
    """An agent inside a snapshot; `prompt` is the compiled base prompt (a jinja template, all names known)."""

    key: str
    display_name: str = ""
    description: str = ""
    agent_type: str = ""
    prompt: str = ""
    model: str
    equipped_tools: tuple[str, ...] = ()
    allowed_routes: tuple[str, ...] = ()
    allow_respond: bool = False
    respond_schema: JsonObject | None = None
    respond_guidance: str = ""
    budget: Budget | None = Field(default=None, exclude_if=is_unset)
    model_settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)
    fallback_models: tuple[str, ...] = Field(default=(), max_length=MAX_FALLBACKS, exclude_if=lambda models: not models)


class NetworkSnapshot(MessagePart):
    """An immutable, digest-addressed network."""

    network: str
    default_agent_key: str
    agents: dict[str, CompiledAgent]
    tools: dict[str, ToolSpec]
    max_steps: int
    max_tool_errors: int
    timeout_ms: int | None = Field(default=None, exclude_if=is_unset)
    step_timeout_ms: int
    force_respond: bool = False
    force_respond_agent: str | None = None
    context_limit: int = DEFAULT_CONTEXT_LIMIT
    description: str = ""
    goal: GoalSettings | None = Field(default=None, exclude_if=is_unset)
    background: BackgroundRunSettings | None = Field(default=None, exclude_if=is_unset)
    on_loop: Literal["gate"] | None = Field(default=None, exclude_if=is_unset)
    swarm: CompiledSwarm | None = Field(default=None, exclude_if=is_unset)

    @cached_property
    def all_tools(self) -> Mapping[str, ToolSpec]:
        """The pinned tools, with those that every agent has without being equipped."""
        return {**OUTPUT_TOOLS, **self.tools}

    @cached_property
    def plan_members(self) -> frozenset[str]:
        """The names that the steps of a plan may ask, whatever run of the network wants it carried out."""
        return frozenset((*self.agents, *(self.swarm.swarms if self.swarm is not None else ())))


class PublishNetwork(Message):
    """Gateway to orchestrator: validate, and unless `dry_run` make a new version.

    With `if_version` only where that version is current; 0 means that there is none yet.
    """

    project: str
    actor: str
    spec: JsonObject
    dry_run: bool = False
    if_version: int | None = None
    key_prefix: str = ""
    key_commitment: str = ""


class NetworkVersion(Message):
    """One published version."""

    project: str
    name: str
    version: int
    digest: str
    published_at: datetime
    published_by: str
    current: bool = True
    snapshot: NetworkSnapshot | None = None
    spec: JsonObject | None = None
    unchanged: bool = False


class ListNetworks(Message):
    """The current version of every network of a project; with `name` a page of that one's versions, newest first."""

    project: str
    name: str | None = None
    before: int | None = None
    limit: int = 50


class NetworkList(Message):
    """What was asked for; `next_before` is where an older page of versions begins."""

    networks: tuple[NetworkVersion, ...]
    next_before: int | None = None
