"""Entries of the audit about what people do to runs, gates, networks, budgets and dead letters.

Whoever does something is in the audit, with the key that was checked, before it takes effect: where the entry can't be
stored, nothing is done. What the platform does by itself, a deadline or the cancel of a child run, has no entry.
"""

from typing import Any, Protocol
from uuid import UUID

from towpath_contracts.rpc import RECORD_ACTION
from towpath_contracts.tools.access import RecordAction
from towpath_fabric.ports import MessageBus


class PersonRequest(Protocol):
    """A request that says who asks; without a key, over NATS say, its two fields are empty."""

    @property
    def project(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def key_prefix(self) -> str: ...
    @property
    def key_commitment(self) -> str: ...


async def record_action(
    bus: MessageBus,
    request: PersonRequest,
    action: str,
    *,
    reason: str = "",
    run_id: UUID | None = None,
    once: bool = False,
    **detail: Any,
) -> None:
    """Have the audit say that *request* is carried out; it is committed when this returns. Raises ProblemError."""
    by = {"by_key": request.key_prefix, "by_commitment": request.key_commitment}
    entry = RecordAction(
        project=request.project,
        action=action,
        actor=request.actor,
        reason=reason,
        run_id=run_id,
        detail={**detail, **by},
        once=once,
    )
    await bus.request(RECORD_ACTION, entry)
