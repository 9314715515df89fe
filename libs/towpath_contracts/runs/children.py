"""Child runs: what a run asks of another agent in a run of its own.

A child is an ordinary run. Its rights, depth, time and steps are never more than its parent's.
"""

from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart, is_unset
from towpath_contracts.budgets import Budget
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.swarm import SelectedSwarm
from towpath_contracts.run_limits import MAX_DEPTH, MAX_PARALLEL, PLAN_STEPS


class ParentRun(MessagePart):
    """Whose child a run is: `root_id` is the run that a caller submitted, `depth` counts from its 0.

    `max_parallel` is how many children that one may have at once: no run below it may have more. Where `wants_criteria`
    is set, the end of a run that did not reach its goal says which of its criteria are met.
    """

    run_id: UUID
    root_id: UUID
    step: int
    index: int
    depth: int
    max_parallel: int = Field(default=MAX_PARALLEL, exclude_if=lambda width: width == MAX_PARALLEL)
    wants_criteria: bool = Field(default=False, exclude_if=lambda wanted: not wanted)


class RunTreeCaps(MessagePart):
    """What a platform allows of trees of runs: how deep they nest, how long plans are, how many run at once."""

    max_depth: int = Field(default=MAX_DEPTH, ge=0, le=MAX_DEPTH)
    plan_steps: int = Field(default=PLAN_STEPS, ge=1, le=PLAN_STEPS)
    max_parallel: int = Field(default=MAX_PARALLEL, ge=1, le=MAX_PARALLEL)

    def with_lower(self, other: "RunTreeCaps | None") -> "RunTreeCaps":
        """Return the lower of each."""
        if other is None:
            return self
        return RunTreeCaps(
            max_depth=min(self.max_depth, other.max_depth),
            plan_steps=min(self.plan_steps, other.plan_steps),
            max_parallel=min(self.max_parallel, other.max_parallel),
        )


SERVER_CAPS = RunTreeCaps()


class ChildTask(MessagePart):
    """The task of a child run: `purpose` says what its parent wants it for, `subject` what it is about.

    `execution_id` is the call that it answers, if any, and `policy_version` what permitted that. It spends what its
    root may spend; `carve_out` is the most of that which it, with its own children, may have. A `response_schema` is
    what its answer satisfies, where that is to be the answer of its parent.
    """

    agent_key: str
    user_message: str
    goal: GoalTask | None = None
    plan: PlanTask | None = Field(default=None, exclude_if=is_unset)
    swarm: SelectedSwarm | None = Field(default=None, exclude_if=is_unset)
    execution_id: UUID | None = Field(default=None, exclude_if=is_unset)
    policy_version: int = Field(default=0, exclude_if=lambda version: not version)
    max_steps: int | None = None
    timeout_ms: int | None = None
    purpose: str = ""
    subject: str = ""
    carve_out: Budget | None = Field(default=None, exclude_if=is_unset)
    response_schema: JsonObject | None = Field(default=None, exclude_if=is_unset)


class AskChildStatus(Message):
    """Asks a pending child run how far it is, and to stop where `cancel` is set. Never leaves the service."""

    run_id: UUID
    child_id: UUID
    project: str
    cancel: bool = False
    reason: str = ""
