"""Child runs: what a run asks of another agent in a run of its own.

A child is an ordinary run. Its rights, depth, time and steps are never more than its parent's.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, Value, is_unset
from towpath_contracts.budgets import Budget
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.swarm import SwarmTask
from towpath_contracts.tree_limits import MAX_PARALLEL

if TYPE_CHECKING:
    from towpath_contracts.runs.views import RunView


class ParentRun(Value):
    """Whose child a run is: `root_id` is the run that a caller submitted, `depth` counts from its 0.

    `max_parallel` is how many children that one may have at once: no run below it may have more.
    """

    run_id: UUID
    root_id: UUID
    step: int
    index: int
    depth: int
    max_parallel: int = Field(default=MAX_PARALLEL, exclude_if=lambda width: width == MAX_PARALLEL)


class ChildTask(Value):
    """What a child is to do: `purpose` says what its parent wants it for, `subject` what it is about.

    `execution_id` is the call that it answers, if any, and `policy_version` what permitted that. It spends what its
    root may spend; `carve_out` is the most of that which it, with its own children, may have. A `response_schema` is
    what its answer satisfies, where that is to be the answer of its parent.
    """

    agent_key: str
    user_message: str
    goal: GoalTask | None = None
    plan: PlanTask | None = Field(default=None, exclude_if=is_unset)
    swarm: SwarmTask | None = Field(default=None, exclude_if=is_unset)
    execution_id: UUID | None = Field(default=None, exclude_if=is_unset)
    policy_version: int = Field(default=0, exclude_if=lambda version: not version)
    max_steps: int | None = None
    timeout_ms: int | None = None
    purpose: str = ""
    subject: str = ""
    carve_out: Budget | None = Field(default=None, exclude_if=is_unset)
    response_schema: JsonObject | None = Field(default=None, exclude_if=is_unset)


class AskChild(Message):
    """What a pending child is asked: how far it is, and to stop where `cancel` is set. Never leaves the service."""

    run_id: UUID
    child_id: UUID
    project: str
    cancel: bool = False
    reason: str = ""


class ChildNode(Message):
    """One run of a tree, with its children in the order in which they were started; `usage` as in RunView.

    `purpose` is what its parent wants it for (`plan_step`, `delegate`, `orchestrate`, …), `subject` what it is about,
    such as the step of a plan: empty for the top.
    `truncated` says of the top that not every run below it is here: those that stand deepest, and began last, are left
    out.
    """

    run_id: UUID
    parent_run_id: UUID | None = None
    depth: int = 0
    kind: str
    network: str
    agent_key: str = ""
    status: str
    reason: str = ""
    step: int = 0
    user_message: str = ""
    purpose: str = ""
    subject: str = ""
    usage: Usage | None = None
    cost: Cost | None = None
    children: tuple["ChildNode", ...] = ()
    truncated: bool = False


class ChildFor(Value):
    """What a child is for, in the words of its parent (ChildTask)."""

    purpose: str = ""
    subject: str = ""


_OWN = {"children", "schema_version", "usage", "cost", "truncated", "purpose", "subject"}


def tree_of(
    runs: "Sequence[RunView]", purposes: Mapping[UUID, ChildFor] | None = None, *, truncated: bool = False
) -> ChildNode:
    """Return the tree of *runs*, which are listed with parents before children; the first one is its top.

    *purposes* has what each is for; *truncated* says that some are missing.
    """
    known = {} if purposes is None else purposes
    below: dict[UUID, list[RunView]] = {}
    for run in runs[1:]:
        if run.parent_run_id is not None:
            below.setdefault(run.parent_run_id, []).append(run)

    def node(run: "RunView") -> ChildNode:
        fields = run.model_dump(include=set(ChildNode.model_fields) - _OWN)
        children = tuple(node(child) for child in below.get(run.run_id, ()))
        about = known.get(run.run_id, ChildFor()).model_dump()
        return ChildNode(**fields, **about, usage=run.usage, cost=run.cost, children=children)

    return node(runs[0]).model_copy(update={"truncated": truncated})


class GetTree(Message):
    """The tree below a run, and the run itself."""

    project: str
    run_id: UUID
    limit: int = Field(default=500, ge=1, le=500)
