"""The worker: pulls invocations of its toolsets and runs as many at once as it has slots.

One execution runs at most once at a time in this process. A delivery is acknowledged only after the ledger holds its
outcome, or TAS refused to let it start: a crash before that redelivers it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any, Protocol

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from towpath.hooks import Hook, HookEvent, Hooks
from towpath.toolbox import WorkerTools
from towpath.tools.declaration import AnyTool
from towpath_contracts import subjects
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.streams import exec_consumer
from towpath_contracts.strict_json import json_fault
from towpath_contracts.tools.calls import CancelTool, ToolInvocation
from towpath_contracts.tools.workers import proved_id
from towpath_fabric.crash_points import crash_point
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import PullConsumer, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_worker.adapters.call_folders import CallFolders
from towpath_worker.app.call import CallSlots, CallStage, WorkerCall, attempt_key
from towpath_worker.app.call_execution import CallExecutor
from towpath_worker.app.call_runner import MALFORMED, CallRunner
from towpath_worker.app.heartbeats import Heartbeats, WorkerLoad
from towpath_worker.app.maintenance import WorkerMaintenance
from towpath_worker.app.outcome_outbox import OutcomeSender
from towpath_worker.app.registration import ToolsetRegistrar
from towpath_worker.app.run_ends import RunEnds
from towpath_worker.metrics import WorkerMetrics

DEFAULT_CONCURRENCY = 16

OTHER_ATTEMPT_DELAY_S = 1.0
"""Until a new attempt is redelivered while an older one of the same call still runs here."""

SAY_S = 2.0
"""How long a worker that is told to end waits for tool access to hear that it takes no calls."""

CANCEL_WAIT_S = 1.0
"""How long calls that were cut off at the end of the process may take to notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. `name` is this process; `owner` answers for the tools and is the same for all replicas.

    `project` is the one whose calls it takes.
    """

    name: str
    owner: str = "worker"
    project: str = "default"
    concurrency: int = DEFAULT_CONCURRENCY


class ToolDiscovery(Protocol):
    """Finds the tools of a toolset while the worker runs. `settled` is set once it knows them, or knows why not."""

    toolset: str
    settled: asyncio.Event

    @property
    def up(self) -> bool:
        """Whether its tools can be called now."""

    @property
    def held(self) -> int:
        """How many of its tools are not accepted as they are."""

    async def run(self, offer: Callable[[str, tuple[Any, ...]], None]) -> None:
        """Find tools for ever, and hand over all of them whenever they change."""


class ToolWorker:
    """Serves the tools of a toolbox. `run` until cancelled; `drain` before that for a clean end."""

    def __init__(
        self,
        bus: Bus,
        toolbox: WorkerTools,
        *,
        options: WorkerOptions,
        log: Logger,
        registry: CollectorRegistry,
        hooks: tuple[Hook, ...] = (),
        telemetry: SpanRecorder | None = None,
        sources: Sequence[ToolDiscovery] = (),
    ) -> None:
        self._telemetry = telemetry
        self._sources = tuple(sources)
        self._offered = asyncio.Event()
        self._bus = bus
        self._toolbox = toolbox
        self._options = options
        self._log = log
        self._metrics = WorkerMetrics(registry)
        self._hooks = Hooks(hooks, self._hook_failed)
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="tool")
        self._folders = CallFolders(log)
        self._active = asyncio.Event()
        self._slots = CallSlots(options.concurrency, self._active)
        self._progress = asyncio.Event()
        self._toolsets = tuple(dict.fromkeys((*toolbox.toolsets(), *(source.toolset for source in sources))))
        proof = token_hex(32)
        place = proved_id(proof)
        confirm_subjects = {name: subjects.tool_confirm(options.project, name, place) for name in self._toolsets}
        self._outbox = OutcomeSender(bus, self._progress, self._active, confirm_subjects)
        self._registration = ToolsetRegistrar(
            bus, toolbox, worker=options.name, owner=options.owner, project=options.project, log=log
        )
        self._ends = RunEnds(self._hooks, options.name, self._slots.runs)
        self._runner = self._make_runner()
        self.registered = asyncio.Event()
        """Set once TAS has taken the tools."""
        self._drained = False
        self._ending = False
        self._heartbeats = Heartbeats(
            bus,
            project=options.project,
            worker_id=place,
            proof=proof,
            name=options.name,
            toolsets=self._toolsets,
            load=self._load,
            drain=self.take_no_more,
            ends=self._ends,
        )

    def _make_runner(self) -> CallRunner:
        executor = CallExecutor(
            self._bus,
            worker=self._options.name,
            threads=self._threads,
            folders=self._folders,
            hooks=self._hooks,
            ends=self._ends,
            metrics=self._metrics,
            log=self._log,
            telemetry=self._telemetry,
        )
        return CallRunner(
            self._bus,
            self._toolbox,
            worker=self._options.name,
            project=self._options.project,
            registration=self._registration,
            executor=executor,
            outbox=self._outbox,
            metrics=self._metrics,
            log=self._log,
        )

    async def run(self) -> None:
        """Register, then take and run calls until cancelled."""
        await self._outbox.open()
        for toolset in self._toolsets:
            cancelled = subjects.tool_cancel_of(self._options.project, toolset)
            await self._bus.nc.subscribe(cancelled, cb=self._on_cancel)
        maintenance = WorkerMaintenance(
            self._bus,
            active=self._active,
            slots=self._slots,
            outbox=self._outbox,
            runner=self._runner,
            registration=self._registration,
            metrics=self._metrics,
        )
        try:
            async with asyncio.TaskGroup() as group:
                await self._find_tools(group)
                await self._registration.keep_trying()
                self.registered.set()
                await self._hooks.notify(HookEvent(name="start", worker=self._options.name))
                for toolset in self._toolbox.toolsets():
                    group.create_task(self._pull(toolset), name=f"pull {toolset}")
                group.create_task(maintenance.run(), name="maintenance")
                group.create_task(self._heartbeats.run(), name="heartbeats")
                group.create_task(self._ends.run(), name="tell of ended runs")
                group.create_task(asyncio.to_thread(self._folders.remove_left), name="remove left folders")
        finally:
            self._runner.close()
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._folders.close()

    async def _find_tools(self, group: asyncio.TaskGroup) -> None:
        """Start the sources of tools and wait until each has found its own or failed; a failed one goes on trying."""
        for source in self._sources:
            self._toolbox.offer(source.toolset, ())
            self._metrics.source_up.labels(source.toolset).set_function(partial(_is_up, source))
            self._metrics.held.labels(source.toolset).set_function(partial(_held_count, source))
            group.create_task(source.run(self._take_offer), name=f"find {source.toolset}")
        for source in self._sources:
            await source.settled.wait()
        if self._sources:
            group.create_task(self._register_offers(), name="register what was found")

    def _take_offer(self, toolset: str, tools: tuple[AnyTool, ...]) -> None:
        taken = self._toolbox.offer(toolset, tools)
        if taken:
            self._log.warning("discovered tools have the names of others and are left out", tools=taken)
        self._offered.set()

    async def _register_offers(self) -> None:
        while True:
            await self._offered.wait()
            self._offered.clear()
            try:
                await self._registration.keep_trying()
            except ProblemError as error:  # the calls of those that are registered go on
                found = error.problem
                self._log.error("what was found is refused", code=found.code, detail=found.detail)

    async def ready(self) -> None:
        """Return when calls can be taken; raises RuntimeError with the reason when not."""
        if not self._registration.done:
            msg = "TAS has not answered the registration yet"
            raise RuntimeError(msg)
        if self._slots.free <= 0 and all(call.overrun or call.hung for call in self._slots):
            msg = "every slot is held by a call whose time is over"
            raise RuntimeError(msg)

    @property
    def overrun(self) -> bool:
        """Whether abandoned functions still run; only the end of the process stops them."""
        return any(call.overrun or call.hung for call in self._slots)

    async def take_no_more(self) -> None:
        """Take no new calls for as long as this process runs; those that it has go on."""
        if self._drained:
            return
        self._drained = True
        self._log.info(
            "takes no new calls", running=len(self._slots), remedy="start this worker again to have it take calls"
        )
        for consumer in self._slots.consumers:
            await consumer.stop()

    async def finish_calls(self) -> None:
        """Take no new calls, and wait until those that are here have ended and every outcome is confirmed.

        The process ends then: it is said that nobody has to look for it any more.
        """
        await self.take_no_more()
        await self._say_load()
        await self._wait_until_idle()
        self._ending = True
        await self._say_load()

    async def _say_load(self) -> None:
        with contextlib.suppress(TimeoutError):  # it is for people to look at, and nothing waits for it
            async with asyncio.timeout(SAY_S):
                await self._heartbeats.say()

    def _load(self) -> WorkerLoad:
        idle = self._drained and not len(self._slots) and not len(self._outbox)
        return WorkerLoad(
            calls=len(self._slots),
            slots=self._options.concurrency,
            draining=self._drained,
            idle=idle,
            ending=self._ending,
        )

    async def drain(self, grace_s: float) -> None:
        """Take nothing new, let what runs end for *grace_s* seconds, and give the rest to other workers.

        Within that time hooks also hear of the runs that are known to have ended.
        """
        for consumer in self._slots.consumers:
            await consumer.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._wait_until_idle()
                await self._ends.notify()  # what a slow hook has not heard yet
        left = {call: call.task for call in self._slots if call.task is not None}
        for call, task in left.items():
            await nak(call.deliveries[-1], 0)
            task.cancel()
        if left:
            await asyncio.wait(left.values(), timeout=CANCEL_WAIT_S)
        await self._outbox.hand_back()
        await self._hooks.notify(HookEvent(name="finished", worker=self._options.name))
        self._log.info("drained", handed_back=len(left) + len(self._outbox))

    async def _wait_until_idle(self) -> None:
        """Wait until nothing runs and every outcome is confirmed."""
        while self._outbox or any(call.task and call.stage is not CallStage.ABANDONED for call in self._slots):
            self._progress.clear()
            await self._progress.wait()

    async def _pull(self, toolset: str) -> None:
        consumer = PullConsumer(
            self._bus.nc,
            exec_consumer(self._options.project, toolset),
            window=self._options.concurrency,
            rebind=self._registration.rebind,
        )
        self._slots.consumers.append(consumer)
        try:
            await consumer.start()
            if self._drained:  # it was drained while this began
                await consumer.stop()
            while True:
                await self._slots.wait_room()
                await consumer.take(0)  # waits until something is here and takes nothing: the room may be gone by then
                for message in consumer.take_now(self._slots.free):
                    await self._begin(message, toolset)
        finally:
            await consumer.stop()  # also where this ends without having been drained

    async def _begin(self, message: Msg, toolset: str) -> None:
        """Start the call of a delivery, or add the delivery to the call that is here already."""
        try:
            invocation = ToolInvocation.model_validate_json(message.data)
        except ValidationError:
            return await self._runner.refuse(message, MALFORMED)
        fault = json_fault(invocation.args, allow_nul=True) or json_fault(invocation.run)
        if fault is not None:  # NaN has no digest, so no ticket can be for it
            return await self._runner.refuse(message, MALFORMED, detail=fault)
        if await self._outbox.attach(attempt_key(invocation), message):
            return None
        here = self._slots.find(invocation.execution_id)
        if here is not None and here.invocation.attempt == invocation.attempt:
            here.deliveries.append(message)
            return None
        if here is not None:  # TAS must get the outcome of the attempt that still runs here before another one begins
            return await nak(message, OTHER_ATTEMPT_DELAY_S)
        crash_point("worker.taken")
        call = WorkerCall(invocation=invocation, deliveries=[message])
        self._slots.occupy(call)
        call.task = asyncio.create_task(self._runner.run(call, toolset))
        call.task.add_done_callback(partial(self._call_ended, call))
        return None

    def _call_ended(self, call: WorkerCall, task: "asyncio.Task[None]") -> None:
        """Free the slot once the function has really ended; report what should not happen."""
        call.task = None
        self._progress.set()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._metrics.refused.labels("internal").inc()
            self._log.error("a call failed outside its tool", execution_id=call.key, exc_info=error)
        if call.thread is None or call.thread.done():
            self._slots.vacate(call)
        else:
            loop = asyncio.get_running_loop()
            call.thread.add_done_callback(lambda _: self._thread_ended(loop, call))

    def _thread_ended(self, loop: asyncio.AbstractEventLoop, call: WorkerCall) -> None:
        """Free the slot of an overrun call; called in its thread, perhaps after the loop has closed."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._overrun_ended, call)

    def _overrun_ended(self, call: WorkerCall) -> None:
        self._slots.vacate(call)
        self._runner.report_overrun(call)

    async def _on_cancel(self, message: Msg) -> None:
        try:
            cancel = CancelTool.model_validate_json(message.data)
        except ValidationError:
            return  # not a cancel: nothing is stopped
        call = self._slots.find(cancel.execution_id)
        if call is not None and message.subject == _cancel_subject(call):
            call.cancel(cancel.reason)

    def _hook_failed(self, hook: Hook, error: BaseException) -> None:
        self._metrics.hook_failures.labels(hook.event).inc()
        self._log.warning("a hook failed", hook_event=hook.event, error=type(error).__name__)


def _cancel_subject(call: WorkerCall) -> str:
    invocation = call.invocation
    return subjects.tool_cancel(invocation.project, invocation.toolset, invocation.execution_id)


def _is_up(source: ToolDiscovery) -> float:
    return float(source.up)


def _held_count(source: ToolDiscovery) -> float:
    return float(source.held)
