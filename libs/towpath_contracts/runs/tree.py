"""The tree of a run: the run itself and every run below it, as a reader asks for it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, MessagePart
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.runs.views import RunView


class RunTreeNode(Message):
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
    children: tuple["RunTreeNode", ...] = ()
    truncated: bool = False
    erased_at: datetime | None = None


class ChildPurpose(MessagePart):
    """What a child is for, in the words of its parent (ChildTask)."""

    purpose: str = ""
    subject: str = ""


_OWN = {"children", "schema_version", "usage", "cost", "truncated", "purpose", "subject"}


def tree_of(
    runs: Sequence[RunView], purposes: Mapping[UUID, ChildPurpose] | None = None, *, truncated: bool = False
) -> RunTreeNode:
    """Return the tree of *runs*, which are listed with parents before children; the first one is its top.

    *purposes* has what each is for; *truncated* says that some are missing.
    """
    known = {} if purposes is None else purposes
    below: dict[UUID, list[RunView]] = {}
    for run in runs[1:]:
        if run.parent_run_id is not None:
            below.setdefault(run.parent_run_id, []).append(run)

    def node(run: RunView) -> RunTreeNode:
        fields = run.model_dump(include=set(RunTreeNode.model_fields) - _OWN)
        children = tuple(node(child) for child in below.get(run.run_id, ()))
        about = known.get(run.run_id, ChildPurpose()).model_dump()
        return RunTreeNode(**fields, **about, usage=run.usage, cost=run.cost, children=children)

    return node(runs[0]).model_copy(update={"truncated": truncated})


class GetTree(Message):
    """The tree below a run, and the run itself."""

    project: str
    run_id: UUID
    limit: int = Field(default=500, ge=1, le=500)
