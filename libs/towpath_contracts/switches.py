"""The stop switch: holding back new tool calls of a project, a network, a tool or a caller.

What is paused waits, and nothing of it is lost: no call is refused, no deadline used up, and an attempt only by
what was sent out and is called back. What runs already goes on, unless the switch is set to stop it too. A change
needs a person with the role `operator`.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, MessagePart, Token
from towpath_contracts.ids import gate_id

OPERATOR = "operator"
"""The role whose holders may pause and resume."""

PAUSED = "paused"
"""The type of the gate behind which a held call waits."""

SwitchKind = Literal["project", "network", "tool", "caller"]

SwitchName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/*?\[\]!-]{1,128}$")]
"""A name or a glob of `*`, `?` and `[…]`; of a project its own name."""


class ActiveSwitch(MessagePart):
    """One thing that is paused; `switch_id` is of this pause alone, so that a later one is another."""

    switch_id: UUID
    kind: SwitchKind
    name: str
    reason: str
    paused_by: str
    paused_at: datetime

    def describe(self) -> str:
        """Return it in words: `tool crm.write is paused by ann: the vendor is down`."""
        return f"{self.kind} {self.name} is paused by {self.paused_by}: {self.reason}"


class SetSwitch(Message):
    """Pause (`paused`) or resume; `stop_running` also asks the calls that run to stop."""

    project: Token
    kind: SwitchKind
    name: SwitchName
    paused: bool
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    roles: tuple[str, ...] = ()
    reason: str = Field(max_length=2_000)
    stop_running: bool = False


class SwitchSet(Message):
    """What a switch was set to; `changed` is False where it stood so already, `stopping` counts calls asked to stop."""

    switch: ActiveSwitch | None
    changed: bool
    stopping: int = 0


class ListSwitches(Message):
    """Everything that is paused in a project."""

    project: Token


class SwitchList(Message):
    """What is paused, oldest first."""

    switches: tuple[ActiveSwitch, ...]


class WakePaused(Message):
    """TAS to orchestrator: this switch holds nothing any more; whoever waits for it may ask again at once."""

    project: Token
    switch_id: UUID
    actor: str
    reason: str = ""


def paused_gate(run_id: UUID, execution_id: UUID, switch_id: UUID) -> UUID:
    """Name the gate behind which one call waits for one pause: once opened and closed, it is never opened again."""
    return gate_id(run_id, f"paused:{execution_id}:{switch_id}")
