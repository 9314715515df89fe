"""The resources of a client without asyncio: every method of `towpath.client.resources` and its neighbours, waiting."""

from typing import Any

from towpath.client.audit import AuditResource
from towpath.client.budgets import BudgetResource, QuotaResource
from towpath.client.grants import GrantResource
from towpath.client.handles.sync_methods import iterating, waiting
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


class _SyncResource:
    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped


class SyncNetworkResource(_SyncResource):
    """Publishing and reading networks."""

    publish = waiting(NetworkResource.publish)
    validate = waiting(NetworkResource.validate)
    list = waiting(NetworkResource.list)
    show = waiting(NetworkResource.show)
    prompt = waiting(NetworkResource.prompt)
    invoke = waiting(NetworkResource.invoke)


class SyncGateResource(_SyncResource):
    """What waits for a person."""

    list = waiting(GateResource.list)
    page = waiting(GateResource.page)
    show = waiting(GateResource.show)
    approve = waiting(GateResource.approve)
    deny = waiting(GateResource.deny)
    edit = waiting(GateResource.edit)
    delegate = waiting(GateResource.delegate)
    resolve = waiting(GateResource.resolve)
    notices = waiting(GateResource.notices)
    retry_notice = waiting(GateResource.retry_notice)


class SyncPolicyResource(_SyncResource):
    """The permission matrix."""

    apply = waiting(PolicyResource.apply)
    show = waiting(PolicyResource.show)
    check = waiting(PolicyResource.check)
    permissions = waiting(PolicyResource.permissions)
    versions = waiting(PolicyResource.versions)
    changes = waiting(PolicyResource.changes)
    roll_back = waiting(PolicyResource.roll_back)
    put_rule = waiting(PolicyResource.put_rule)
    remove_rule = waiting(PolicyResource.remove_rule)
    diff = waiting(PolicyResource.diff)
    diff_permissions = waiting(PolicyResource.diff_permissions)
    shadow = waiting(PolicyResource.shadow)
    set_shadow = waiting(PolicyResource.set_shadow)
    end_shadow = waiting(PolicyResource.end_shadow)
    statistics = waiting(PolicyResource.statistics)


class SyncGrantResource(_SyncResource):
    """Ways to make a grant."""

    from_network = waiting(GrantResource.from_network)
    from_plan = waiting(GrantResource.from_plan)
    from_runs = waiting(GrantResource.from_runs)
    propose = waiting(GrantResource.propose)


class SyncAuditResource(_SyncResource):
    """The record of what was decided and what happened."""

    search = waiting(AuditResource.search)
    export = iterating(AuditResource.export)
    checkpoint = waiting(AuditResource.checkpoint)
    prove = waiting(AuditResource.prove)
    prove_entry = waiting(AuditResource.prove_entry)
    request_erasure = waiting(AuditResource.request_erasure)
    request_run_erasure = waiting(AuditResource.request_run_erasure)
    erasures = waiting(AuditResource.erasures)
    erasure = waiting(AuditResource.erasure)
    confirm_erasure = waiting(AuditResource.confirm_erasure)
    withdraw_erasure = waiting(AuditResource.withdraw_erasure)


class SyncToolResource(_SyncResource):
    """The registered tools."""

    list = waiting(ToolResource.list)


class SyncSwitchResource(_SyncResource):
    """What is paused."""

    list = waiting(SwitchResource.list)
    pause = waiting(SwitchResource.pause)
    resume = waiting(SwitchResource.resume)


class SyncBudgetResource(_SyncResource):
    """What may be spent in the credential's project, and what is."""

    show = waiting(BudgetResource.show)
    costs = waiting(BudgetResource.costs)
    set = waiting(BudgetResource.set)
    lift = waiting(BudgetResource.lift)


class SyncQuotaResource(_SyncResource):
    """How many runs the project may have, how many tool calls a minute, and how much it may store."""

    show = waiting(QuotaResource.show)
    set = waiting(QuotaResource.set)
    lift = waiting(QuotaResource.lift)


class SyncModelResource(_SyncResource):
    """Models of providers."""

    check = waiting(ModelResource.check)


class SyncWorkerResource(_SyncResource):
    """The processes that run tools."""

    list = waiting(WorkerResource.list)
    drain = waiting(WorkerResource.drain)


class SyncQueueResource(_SyncResource):
    """The queues, as the broker has them now."""

    list = waiting(QueueResource.list)


class SyncWorkspaceResource(_SyncResource):
    """`client.workspaces`: list the files of a run, and read them as any version was."""

    list = waiting(WorkspaceResource.list)
    read = waiting(WorkspaceResource.read)


class SyncDeadLetterResource(_SyncResource):
    """Messages that could not be handled."""

    list = waiting(DeadLetterResource.list)
    show = waiting(DeadLetterResource.show)
    requeue = waiting(DeadLetterResource.requeue)
    discard = waiting(DeadLetterResource.discard)
