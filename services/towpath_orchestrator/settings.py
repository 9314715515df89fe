"""Settings of the orchestrator."""

import math
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.run_limits import MAX_DEPTH, MAX_PARALLEL, MAX_TIMEOUT_MS, PLAN_STEPS, USUAL_TIMES_MS
from towpath_fabric.settings import Settings


class OrchestratorSettings(Settings):
    """Limits of one orchestrator replica; every replica is given the same."""

    max_active_runs: int = 1_000
    """Runs that are started at the same time; more wait as `queued`.

    A run that waits for a person, or for its children, is not counted.
    """

    max_active_share: float = Field(default=0.8, gt=0, le=1)
    """How much of `max_active_runs` one caller's runs of one network may hold: slow tools leave room for the others.

    One caller's runs may make up so much of `max_queued_runs`, too, and of `max_waiting_submits`.
    """

    max_project_share: float = Field(default=0.9, gt=0, le=1)
    """How much of `max_active_runs`, `max_queued_runs` and `max_waiting_runs` one project may have: all its callers and
    networks together. Larger than the share of one caller, which leaves the project's others something."""

    priority_ageing_s: float = Field(default=30, gt=0)
    """Waiting so long counts as much as one more step of priority, so that no priority starves the others."""

    max_waiting_runs: int = 20_000
    """Runs that wait for people or a quota; beyond it no more are started, since each is asked about now and then."""

    max_waiting_submits: int = 2_048
    """Tasks on their way into the database at once; more are refused with `overloaded` at once."""

    max_queued_runs: int = 100_000
    """Beyond this a submit is refused with `overloaded`."""

    message_window: int = Field(default=64, ge=8, le=1_024)
    """Requests that may be on their way to a model, for a start: while others wait it finds its own width."""

    batch_size: int = 256
    """Facts that one transaction folds at most: large enough to share a commit, small enough to stay within 50 ms."""

    cache_runs: int = 4_000
    """States kept in memory; a run that is not there is loaded from its snapshot and tail."""

    snapshot_every: int = 128
    """Events between two stored snapshots: bounds what a reload reads."""

    reconcile_ms: int = 250
    """How often overdue runs are looked for."""

    webhooks_file: Path | None = None
    """YAML with the webhooks that get notices of gates (docs/approvals.md); without it there are none."""

    approval_notices_file: Path | None = None
    """YAML with the mailboxes and the channels of chats that are told of gates (docs/approvals.md)."""

    console_url: Annotated[str, Field(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$", max_length=500)] = ""
    """Where people open the console, so that notices lead to what waits there; `towpath up` sets its gateway's."""

    model_prices_file: Path | None = None
    """YAML with prices of models that the built-in list lacks, or has wrong (docs/budgets.md)."""

    planner_model: str | None = None
    """The model that writes plans for tasks; else the model of the agent that would begin.

    A task that names its model, or brings a script, is planned by that.
    """

    network_timeout_ms: int = Field(default=USUAL_TIMES_MS["network"], ge=1, le=MAX_TIMEOUT_MS)
    """Active time of a run whose task and network name none; the next four are those of the other kinds of runs."""

    swarm_timeout_ms: int = Field(default=USUAL_TIMES_MS["swarm"], ge=1, le=MAX_TIMEOUT_MS)
    goal_timeout_ms: int = Field(default=USUAL_TIMES_MS["goal"], ge=1, le=MAX_TIMEOUT_MS)
    plan_timeout_ms: int = Field(default=USUAL_TIMES_MS["plan"], ge=1, le=MAX_TIMEOUT_MS)
    background_timeout_ms: int = Field(default=USUAL_TIMES_MS["background"], ge=1, le=MAX_TIMEOUT_MS)

    max_timeout_ms: int = Field(default=MAX_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)
    """The longest active time of any run; a task that asks for more is refused, a network's is cut."""

    max_depth: int = Field(default=MAX_DEPTH, ge=0, le=MAX_DEPTH)
    """How deep child runs nest below the run that a caller submits; this and the next two can only be lowered.

    Runs keep what held when they were submitted, and so do the runs below them.
    """

    max_plan_steps: int = Field(default=PLAN_STEPS, ge=1, le=PLAN_STEPS)
    """Steps of a plan that a task gives, or a model writes; a workflow's stages are its network's."""

    max_parallel: int = Field(default=MAX_PARALLEL, ge=1, le=MAX_PARALLEL)
    """Children of one run that run at the same time."""

    allow_scripts: bool = False
    allow_anonymous: bool = False

    @field_validator("planner_model")
    @classmethod
    def _served(cls, model: str | None) -> str | None:
        if model is not None and (fault := model_fault(model)):
            raise ValueError(fault)
        return model

    @property
    def active_share(self) -> int:
        """Runs that one caller may have under way in one network."""
        return math.ceil(self.max_active_runs * self.max_active_share)

    @property
    def queued_share(self) -> int:
        """Runs of one caller that may wait for room: the rest of `max_queued_runs` is for others."""
        return math.ceil(self.max_queued_runs * self.max_active_share)

    def project_share_of(self, most: int) -> int:
        """Return how many of *most* runs one project may have."""
        return math.ceil(most * self.max_project_share)

    @property
    def scripts_allowed(self) -> bool:
        """Whether tasks may bring their own decisions."""
        return self.embedded or self.allow_scripts

    @property
    def anonymous_allowed(self) -> bool:
        """Whether plain `task.submit` is answered."""
        return self.embedded or self.allow_anonymous
