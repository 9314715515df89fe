"""What the tool-access service attests to a worker: the call that a ticket is for, and whose it is.

A ticket holds the claims themselves. What may be long, as arguments and labels, it holds by digest: a ticket
travels with every claim and outcome.
"""

from uuid import UUID

from pydantic import Field

from towpath_contracts.base import MessagePart
from towpath_contracts.tools.calls import EffectClass


class CallingRun(MessagePart):
    """Whose call it is, as the tool-access service attests it; what an older one does not say is empty.

    `root_run_id` is the run that a caller submitted, the call's own or one above it; None where that is not known, as
    of a call that an older service accepted. `system_params` names the arguments that the platform filled in, which no
    model has chosen; of such a call none.
    """

    network: str = ""
    agent_key: str = ""
    caller: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    root_run_id: UUID | None = None
    system_params: tuple[str, ...] = ()


class TicketClaims(MessagePart):
    """What a ticket says; signed with Ed25519 by the tool-access service.

    `run_digest` is that of the invocation's `run`; empty in tickets of services that send none.
    """

    execution_id: UUID
    attempt: int
    run_id: UUID
    project: str
    fence: int
    tool: str
    args_digest: str
    run_digest: str = Field(default="", exclude_if=lambda digest: not digest)
    effect_class: EffectClass
    policy_version: int
    issued_at: float
    expires_at: float
    key_id: str
