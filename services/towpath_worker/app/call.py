"""One call in the worker, the slots that calls occupy, and the running of a tool's function.

A call occupies its slot until its function has really ended, also when its call was given up. An execution is in
this process at most once, and nothing is fetched that could not begin at once.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, Literal
from uuid import UUID

from nats.aio.msg import Msg

from towpath.tools.declaration import AnyTool
from towpath.user_code import capture_result
from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import ToolInvocation
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_worker.core.results import CallCutOffError

HANG_GRACE_S = 5.0
"""How long after its time an interrupted async function may take to end before it counts as hung.

More than a program gets after SIGTERM (`towpath.tools.process.GRACE_S`), less than the lease has over the tool's time.
"""


class CallStage(Enum):
    """How far a call is."""

    CHECKING = auto()
    RUNNING = auto()
    REPORTING = auto()
    ABANDONED = auto()
    """Reported as timed out while its function still runs."""


@dataclass(slots=True, kw_only=True, eq=False)
class WorkerCall:
    """One execution in this process. `deliveries` are the messages to acknowledge, newest last."""

    invocation: ToolInvocation
    deliveries: list[Msg]
    stage: CallStage = CallStage.CHECKING
    claim_id: UUID | None = None
    began_s: float = 0.0
    until_s: float = 0.0
    lease_until_s: float = float("inf")
    probing: Literal["", "required", "preferred"] = ""
    heartbeat_s: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)
    cancel_reason: str | None = None
    task: "asyncio.Task[None] | None" = None
    thread: "Future[tuple[bool, Any]] | None" = None

    @property
    def key(self) -> str:
        """How outcomes are confirmed: `execution_id:attempt`; `:late` follows for one after the first."""
        return attempt_key(self.invocation)

    @property
    def root_run_id(self) -> UUID | None:
        """The run that the caller submitted, as the call's ticket attests it; None where it says nothing of it.

        The envelope's is for traces alone, and missing in some.
        """
        try:
            return UUID((self.invocation.run or {}).get("root_run_id"))
        except (TypeError, ValueError, AttributeError):  # not attested yet, so anything may stand there
            return None

    @property
    def overrun(self) -> bool:
        """Whether a plain function still runs in its thread although its call was given up."""
        return self.task is None and self.thread is not None and not self.thread.done()

    @property
    def hung(self) -> bool:
        """Whether an async function goes on although it was interrupted."""
        running = self.stage is CallStage.RUNNING or self.stage is CallStage.ABANDONED
        return running and self.task is not None and monotonic() > self.until_s + HANG_GRACE_S

    def cancel(self, reason: str) -> None:
        """Ask the call to stop: an async function is interrupted, a plain one sees it in its context."""
        self.cancel_reason = reason or "cancelled"
        self.stop.set()
        if self.stage is CallStage.RUNNING and self.task is not None and self.thread is None:
            self.task.cancel()


def attempt_key(invocation: ToolInvocation) -> str:
    """Return `execution_id:attempt`."""
    return f"{invocation.execution_id}:{invocation.attempt}"


async def call_function(
    tool: AnyTool, arguments: JsonObject, timeout_s: float, threads: Executor, call: WorkerCall
) -> Any:
    """Run the function for at most *timeout_s*; raises CallCutOffError, or whatever the function raises."""
    scope = asyncio.timeout(timeout_s)
    try:
        async with scope:
            if tool.is_async:
                return await tool.function(**arguments)
            return await _in_thread(tool.function, arguments, threads, call)
    except TimeoutError as error:
        if not scope.expired():
            raise
        call.stop.set()
        msg = f"the tool did not end within {timeout_s:g} s"
        raise CallCutOffError(msg) from error


async def _in_thread(function: Callable[..., Any], arguments: JsonObject, threads: Executor, call: WorkerCall) -> Any:
    context = contextvars.copy_context()
    call.thread = threads.submit(partial(context.run, capture_result, function, **arguments))
    succeeded, value = await asyncio.wrap_future(call.thread)
    if not succeeded:
        raise value
    return value


class CallSlots:
    """At most *size* calls; *active* is set when one begins. `consumers` fetch no more than what has room."""

    def __init__(self, size: int, active: asyncio.Event) -> None:
        self._size = size
        self._active = active
        self._calls: dict[UUID, WorkerCall] = {}
        self._room = asyncio.Event()
        self._room.set()
        self.consumers: list[PullConsumer] = []

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[WorkerCall]:
        return iter(tuple(self._calls.values()))

    @property
    def free(self) -> int:
        """How many calls may begin."""
        return self._size - len(self._calls)

    def find(self, execution_id: UUID) -> WorkerCall | None:
        """Return the call of this execution, if it is here."""
        return self._calls.get(execution_id)

    def runs(self) -> set[UUID]:
        """Return the runs whose calls are here, and those above them."""
        return {run for call in self for run in (call.invocation.run_id, call.root_run_id) if run is not None}

    async def wait_room(self) -> None:
        """Wait until a call may begin."""
        await self._room.wait()

    def occupy(self, call: WorkerCall) -> None:
        """Take a slot for *call*."""
        self._calls[call.invocation.execution_id] = call
        self._active.set()
        if self.free <= 0:
            self._room.clear()
        for consumer in self.consumers:
            consumer.hold(1)

    def vacate(self, call: WorkerCall) -> None:
        """Give the slot of *call* back, once its function has really ended."""
        del self._calls[call.invocation.execution_id]
        self._room.set()
        for consumer in self.consumers:
            consumer.hold(-1)
