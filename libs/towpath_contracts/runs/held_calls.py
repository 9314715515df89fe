"""What the tool-access service says of calls that it does not let through yet: nothing of them has begun."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from towpath_contracts.runs.fact_base import FactBase
from towpath_contracts.switches import ActiveSwitch


class CallPausedFact(FactBase):
    """A call is held back by a switch: it waits, however long, and its deadline with it; the run opens its gate."""

    type: Literal["call.paused"] = "call.paused"
    execution_id: UUID
    tool: str
    switch: ActiveSwitch


class QuotaChangedFact(FactBase):
    """The project's limit of tool calls a minute was raised or lifted: what it has postponed is asked for at once."""

    type: Literal["quota.changed"] = "quota.changed"


class CallPostponedFact(FactBase):
    """The project's tool calls of this minute are used up: request number `attempt` has begun nothing."""

    type: Literal["call.postponed"] = "call.postponed"
    execution_id: UUID
    attempt: int
    until: datetime
    code: str
    message: str
