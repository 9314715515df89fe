"""The worker of a harness: calls reach the user's functions by the worker's own steps, in this process.

Ticket, claim, arguments, function, result and outcome are the worker's (`towpath_worker.app`). What is left out is what
a process needs: registration, heartbeats, and sending again what a broker might have lost.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from towpath.hooks import Hook, Hooks
from towpath.toolbox import WorkerTools
from towpath_contracts import subjects
from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.calls import CancelTool, ToolInvocation
from towpath_fabric.clock import wall
from towpath_fabric.tickets import TicketVerifier
from towpath_testing.memory.message_bus import MemoryBus, MessageFeed
from towpath_testing.metrics import uncounted
from towpath_worker.adapters.call_folders import CallFolders
from towpath_worker.app.call import CallSlots, WorkerCall
from towpath_worker.app.call_execution import CallExecutor
from towpath_worker.app.call_runner import CallRunner
from towpath_worker.app.outcome_outbox import OutcomeSender
from towpath_worker.app.run_ends import RunEnds
from towpath_worker.metrics import WorkerMetrics

NAME = "harness"
CONCURRENCY = 16


class KnownKeys:
    """The keys of the one tool-access service that there is."""

    def __init__(self, keys: dict[str, str]) -> None:
        self.verifier = TicketVerifier(keys)

    async def learn_keys(self) -> bool:
        """Return False: there are no others."""
        return False

    def now_s(self) -> float:
        """Return the time of the harness's clock."""
        return wall().timestamp()


class HarnessWorker:
    """Takes the calls of every toolset."""

    def __init__(
        self,
        bus: MemoryBus,
        toolbox: WorkerTools,
        hooks: tuple[Hook, ...],
        keys: dict[str, str],
        project: str,
        log: Any,
    ) -> None:
        self._bus = bus
        self._toolbox = toolbox
        self._project = project
        self._threads = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="tool")
        self._folders = CallFolders(log)
        active, progress = asyncio.Event(), asyncio.Event()
        self._slots = CallSlots(CONCURRENCY, active)
        toolsets = toolbox.toolsets()
        confirm = {name: subjects.tool_confirm(project, name, NAME) for name in toolsets}
        self._outbox = OutcomeSender(bus, progress, active, confirm)  # type: ignore[arg-type]
        metrics = _worker_metrics()
        found = Hooks(hooks, lambda hook, error: log.error("a hook failed", hook_event=hook.event, exc_info=error))
        self._ends = RunEnds(found, NAME, self._slots.runs)
        executor = CallExecutor(
            bus,
            worker=NAME,
            threads=self._threads,
            folders=self._folders,
            hooks=found,
            ends=self._ends,
            metrics=metrics,
            log=log,
        )
        self._runner = CallRunner(
            bus,  # type: ignore[arg-type]
            toolbox,
            worker=NAME,
            project=project,
            registration=KnownKeys(keys),  # type: ignore[arg-type]
            executor=executor,
            outbox=self._outbox,
            metrics=metrics,
            log=log,
        )
        self._feeds = {name: MessageFeed(bus, exec_consumer(project, name)) for name in toolsets}

    async def start(self) -> None:
        """Begin to take calls."""
        await self._outbox.open()
        for toolset, feed in self._feeds.items():
            await self._bus.subscribe(subjects.tool_cancel_of(self._project, toolset), self._on_cancel)
            self._bus.spawn(self._take(toolset, feed), f"take {toolset}")

    async def _take(self, toolset: str, feed: MessageFeed) -> None:
        while True:
            for message in await feed.take(CONCURRENCY):
                invocation = ToolInvocation.model_validate_json(message.data)
                call = WorkerCall(invocation=invocation, deliveries=[message])
                self._slots.occupy(call)
                call.task = self._bus.spawn(self._run(call, toolset), f"call {invocation.tool}")

    async def _run(self, call: WorkerCall, toolset: str) -> None:
        try:
            await self._runner.run(call, toolset)
        finally:
            call.task = None
            self._slots.vacate(call)

    async def _on_cancel(self, message: Any) -> None:
        cancel = CancelTool.model_validate_json(message.data)
        call = self._slots.find(cancel.execution_id)
        if call is not None:
            call.cancel(cancel.reason)

    async def tell_ends(self, has_ended: Callable[[UUID], bool]) -> None:
        """Call the hooks for each run that has ended, once what it was calling is over."""
        self._ends.take(run_id for runs in self._ends.questions() for run_id in runs if has_ended(run_id))
        await self._ends.notify()

    def close(self) -> None:
        """Take no more calls, and give folders and threads back."""
        self._runner.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._folders.close()


@cache
def _worker_metrics() -> WorkerMetrics:
    """Return metrics that count nothing; made once, since there are many."""
    return uncounted(WorkerMetrics(CollectorRegistry()))
