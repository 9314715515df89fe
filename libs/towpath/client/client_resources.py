"""What of a platform a client can look at and change beside its runs: a resource each, imported when it is first used.

Their messages are a good part of all there are, and a program, or a command, uses few of them.
"""

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from towpath.client.audit import AuditResource
    from towpath.client.budgets import BudgetResource, QuotaResource
    from towpath.client.grants import GrantResource
    from towpath.client.policy import PolicyResource
    from towpath.client.resources import (
        DeadLetterResource,
        GateResource,
        ModelResource,
        NetworkResource,
        QueueResource,
        SwitchResource,
        ToolResource,
        WorkerResource,
        WorkspaceResource,
    )
    from towpath.client.transport import Transport


class ClientResources:
    """The resources of one platform, reached over `_transport`."""

    _transport: "Transport"

    @cached_property
    def networks(self) -> "NetworkResource":
        """The versions of networks."""
        from towpath.client.resources import NetworkResource

        return NetworkResource(self._transport)

    @cached_property
    def gates(self) -> "GateResource":
        """What waits for a person."""
        from towpath.client.resources import GateResource

        return GateResource(self._transport)

    @cached_property
    def policy(self) -> "PolicyResource":
        """The permission matrix."""
        from towpath.client.policy import PolicyResource

        return PolicyResource(self._transport)

    @cached_property
    def grants(self) -> "GrantResource":
        """Proposals of what one task may use."""
        from towpath.client.grants import GrantResource

        return GrantResource(self._transport)

    @cached_property
    def audit(self) -> "AuditResource":
        """The record of what was decided and what happened."""
        from towpath.client.audit import AuditResource

        return AuditResource(self._transport)

    @cached_property
    def tools(self) -> "ToolResource":
        """The tools that workers offer."""
        from towpath.client.resources import ToolResource

        return ToolResource(self._transport)

    @cached_property
    def switches(self) -> "SwitchResource":
        """Pauses of a project, a network, a tool or a caller."""
        from towpath.client.resources import SwitchResource

        return SwitchResource(self._transport)

    @cached_property
    def budgets(self) -> "BudgetResource":
        """What callers and the project may spend."""
        from towpath.client.budgets import BudgetResource

        return BudgetResource(self._transport)

    @cached_property
    def quotas(self) -> "QuotaResource":
        """How many runs the project may have, how many tool calls a minute, and how much it may store."""
        from towpath.client.budgets import QuotaResource

        return QuotaResource(self._transport)

    @cached_property
    def models(self) -> "ModelResource":
        """Models of providers."""
        from towpath.client.resources import ModelResource

        return ModelResource(self._transport)

    @cached_property
    def workers(self) -> "WorkerResource":
        """The processes that run tools."""
        from towpath.client.resources import WorkerResource

        return WorkerResource(self._transport)

    @cached_property
    def queues(self) -> "QueueResource":
        """What waits for workers and services."""
        from towpath.client.resources import QueueResource

        return QueueResource(self._transport)

    @cached_property
    def workspaces(self) -> "WorkspaceResource":
        """The files of runs."""
        from towpath.client.resources import WorkspaceResource

        return WorkspaceResource(self._transport)

    @cached_property
    def dead_letters(self) -> "DeadLetterResource":
        """What the queues could not handle."""
        from towpath.client.resources import DeadLetterResource

        return DeadLetterResource(self._transport)
