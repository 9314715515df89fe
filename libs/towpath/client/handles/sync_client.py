"""`SyncClient`: every method of Client for programs without asyncio; each returns when it is done.

Connections belong to the event loop of one thread, which all clients of the process share, so a client may be used from
any thread. A coroutine that waits so stops its own event loop: there, use Client.
"""

from collections.abc import Generator, Iterable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, overload
from uuid import UUID

from towpath.client.client import Client
from towpath.client.handles.loop_thread import LOOP
from towpath.client.handles.sync_methods import iterating, waiting
from towpath.client.handles.sync_runs import SyncSubmittedRun, each_event
from towpath.client.run_controls import RunFilters
from towpath.declared_places import checks_keywords
from towpath.tasks.objectives import Handed, Objective, ObjectiveResult
from towpath.tasks.outputs import Output, TypedRun
from towpath.tasks.plans import PlanDraft, PlanRun
from towpath.tasks.task import TaskKeywords
from towpath_contracts.base import JsonObject
from towpath_contracts.runs.views import RunPage, RunView
from towpath_contracts.subjects import ANONYMOUS
from towpath_readings.stream.live import StreamEvent

if TYPE_CHECKING:
    from towpath.client.handles.sync_resources import (
        SyncAuditResource,
        SyncBudgetResource,
        SyncDeadLetterResource,
        SyncGateResource,
        SyncGrantResource,
        SyncModelResource,
        SyncNetworkResource,
        SyncPolicyResource,
        SyncQueueResource,
        SyncQuotaResource,
        SyncSwitchResource,
        SyncToolResource,
        SyncWorkerResource,
        SyncWorkspaceResource,
    )


@checks_keywords
class SyncClient:
    """A client of one platform: `with SyncClient() as client: …`. Its arguments are Client's."""

    def __init__(self, server: str | None = None, *, api_key: str | None = None, caller: str = ANONYMOUS) -> None:
        self._wrapped = Client(server, api_key=api_key, caller=caller)
        self.server = self._wrapped.server

    def __enter__(self) -> Self:
        LOOP.wait(self._wrapped.__aenter__())
        self.server = self._wrapped.server
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    close = waiting(Client.close)
    get = waiting(Client.get)
    plan = waiting(Client.plan)
    tree = waiting(Client.tree)
    nodes = waiting(Client.nodes)
    goal = waiting(Client.goal)
    output = waiting(Client.output)
    messages = waiting(Client.messages)
    execution_log = waiting(Client.execution_log)
    cancel = waiting(Client.cancel)
    request = waiting(Client.request)
    fork = waiting(Client.fork)
    pause = waiting(Client.pause)
    resume = waiting(Client.resume)
    note = waiting(Client.note)
    gate = waiting(Client.gate)
    check_confidence = waiting(Client.check_confidence)
    tool_calls = waiting(Client.tool_calls)
    denied_calls = waiting(Client.denied_calls)
    events = iterating(Client.events)

    def submit(
        self,
        network: str,
        message: str = "",
        *,
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> SyncSubmittedRun:
        """Submit a task and return once it is accepted; as `Client.submit`."""
        return SyncSubmittedRun.of(LOOP.wait(self._wrapped.submit(network, message, plan=plan, **options)))

    @overload
    def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        output_type: type[Output],
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> TypedRun[Output]: ...

    @overload
    def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        plan: PlanDraft | JsonObject | str,
        **options: Unpack[TaskKeywords],
    ) -> PlanRun: ...

    @overload
    def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView: ...

    def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        output_type: type[Output] | None = None,
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView:
        """Submit a task and return the finished run; as `Client.run`."""
        if output_type is not None:
            return LOOP.wait(
                self._wrapped.run(network, message, timeout=timeout, output_type=output_type, plan=plan, **options)
            )
        if plan is not None:
            return LOOP.wait(self._wrapped.run(network, message, timeout=timeout, plan=plan, **options))
        return LOOP.wait(self._wrapped.run(network, message, timeout=timeout, **options))

    @overload
    def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        output_type: type[Output],
        **options: Unpack[TaskKeywords],
    ) -> TypedRun[Output]: ...

    @overload
    def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView: ...

    def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        output_type: type[Output] | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView:
        """Continue a run that has ended, and return the finished run that answers; as `Client.reply`."""
        if output_type is None:
            return LOOP.wait(self._wrapped.reply(run_id, message, timeout=timeout, **options))
        return LOOP.wait(self._wrapped.reply(run_id, message, timeout=timeout, output_type=output_type, **options))

    def pursue(
        self,
        network: str,
        objective: Objective[Handed] | str,
        *,
        timeout: str | float | None = None,
        **options: Unpack[TaskKeywords],
    ) -> ObjectiveResult[Handed]:
        """Pursue an objective to its end; as `Client.pursue`."""
        return LOOP.wait(self._wrapped.pursue(network, objective, timeout=timeout, **options))

    @overload
    def result(self, run_id: UUID | str, timeout: str | float | None = None, *, as_: type[Output]) -> Output: ...

    @overload
    def result(self, run_id: UUID | str, timeout: str | float | None = None) -> RunView: ...

    def result(
        self, run_id: UUID | str, timeout: str | float | None = None, *, as_: type[Output] | None = None
    ) -> RunView | Output:
        """Wait for the end of a run and return it, or with *as_* its answer as that; as `Client.result`."""
        if as_ is None:
            return LOOP.wait(self._wrapped.result(run_id, timeout))
        return LOOP.wait(self._wrapped.result(run_id, timeout, as_=as_))

    def stream(
        self,
        run_id: UUID | str,
        *,
        detailed: bool = True,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
    ) -> Generator[StreamEvent, None, None]:
        """Yield a run as it happens, as `Client.stream`; a status that waits for a person is a SyncWaitingGate."""
        found = self._wrapped.stream(
            run_id, detailed=detailed, event_types=event_types, deltas=deltas, children=children
        )
        return each_event(found)

    def runs(self, **filters: Unpack[RunFilters]) -> RunPage:
        """Return a page of runs, newest first. HTTP only."""
        return LOOP.wait(self._wrapped.runs(**filters))

    @cached_property
    def networks(self) -> "SyncNetworkResource":
        """The versions of networks."""
        from towpath.client.handles.sync_resources import SyncNetworkResource

        return SyncNetworkResource(self._wrapped.networks)

    @cached_property
    def gates(self) -> "SyncGateResource":
        """What waits for a person."""
        from towpath.client.handles.sync_resources import SyncGateResource

        return SyncGateResource(self._wrapped.gates)

    @cached_property
    def policy(self) -> "SyncPolicyResource":
        """The permission matrix."""
        from towpath.client.handles.sync_resources import SyncPolicyResource

        return SyncPolicyResource(self._wrapped.policy)

    @cached_property
    def grants(self) -> "SyncGrantResource":
        """Proposals of what one task may use."""
        from towpath.client.handles.sync_resources import SyncGrantResource

        return SyncGrantResource(self._wrapped.grants)

    @cached_property
    def audit(self) -> "SyncAuditResource":
        """The record of what was decided and what happened."""
        from towpath.client.handles.sync_resources import SyncAuditResource

        return SyncAuditResource(self._wrapped.audit)

    @cached_property
    def tools(self) -> "SyncToolResource":
        """The tools that workers offer."""
        from towpath.client.handles.sync_resources import SyncToolResource

        return SyncToolResource(self._wrapped.tools)

    @cached_property
    def switches(self) -> "SyncSwitchResource":
        """Pauses of a project, a network, a tool or a caller."""
        from towpath.client.handles.sync_resources import SyncSwitchResource

        return SyncSwitchResource(self._wrapped.switches)

    @cached_property
    def budgets(self) -> "SyncBudgetResource":
        """What callers and the project may spend."""
        from towpath.client.handles.sync_resources import SyncBudgetResource

        return SyncBudgetResource(self._wrapped.budgets)

    @cached_property
    def quotas(self) -> "SyncQuotaResource":
        """How many runs the project may have under way, and begin on one day."""
        from towpath.client.handles.sync_resources import SyncQuotaResource

        return SyncQuotaResource(self._wrapped.quotas)

    @cached_property
    def models(self) -> "SyncModelResource":
        """Models of providers."""
        from towpath.client.handles.sync_resources import SyncModelResource

        return SyncModelResource(self._wrapped.models)

    @cached_property
    def workers(self) -> "SyncWorkerResource":
        """The processes that run tools."""
        from towpath.client.handles.sync_resources import SyncWorkerResource

        return SyncWorkerResource(self._wrapped.workers)

    @cached_property
    def queues(self) -> "SyncQueueResource":
        """What waits for workers and services."""
        from towpath.client.handles.sync_resources import SyncQueueResource

        return SyncQueueResource(self._wrapped.queues)

    @cached_property
    def workspaces(self) -> "SyncWorkspaceResource":
        """The files of runs."""
        from towpath.client.handles.sync_resources import SyncWorkspaceResource

        return SyncWorkspaceResource(self._wrapped.workspaces)

    @cached_property
    def dead_letters(self) -> "SyncDeadLetterResource":
        """What the queues could not handle."""
        from towpath.client.handles.sync_resources import SyncDeadLetterResource

        return SyncDeadLetterResource(self._wrapped.dead_letters)
