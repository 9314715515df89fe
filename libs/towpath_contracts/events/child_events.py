"""Events of child runs: born, waiting, ended."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart, is_unset
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.runs.children import ChildTask


class ChildStarted(MessagePart):
    """A child run was born in this very transition; `index` is its place among the children of the step."""

    type: Literal["child_started"] = "child_started"
    child_id: UUID
    step: int
    index: int
    task: ChildTask


class ChildGateWaitChanged(MessagePart):
    """A child run began to wait for people, or stopped: while all that a run waits for do, its time stands still."""

    type: Literal["child_waits"] = "child_waits"
    child_id: UUID
    waits: bool
    child_seq: int = 0


class ChildEnded(MessagePart):
    """A child has its final status; `worked` are the tools of which a call succeeded in it, by its own log.

    `below` is what its own children have cost, where it had any, and `usage_below` the tokens that they used.
    """

    type: Literal["child_ended"] = "child_ended"
    child_id: UUID
    step: int
    index: int
    status: str
    reason: str = ""
    final: JsonObject | None = None
    usage: Usage = Usage()
    cost: Cost = Cost()
    below: Cost | None = Field(default=None, exclude_if=is_unset)
    usage_below: Usage | None = Field(default=None, exclude_if=is_unset)
    child_seq: int = 0
    cursors: dict[str, int] = Field(default_factory=dict)
    worked: tuple[str, ...] = ()
