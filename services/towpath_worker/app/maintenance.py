"""Periodic work of a worker: heartbeats, hung calls, stranded messages, new connections.

A delivery is kept alive only while its call is within its time, or its outcome waits for confirmation. A hung tool must
miss its heartbeats, so that the broker redelivers its message and the claim decides who goes on.
"""

import asyncio

from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import in_progress, nak
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_worker.app.call import CallSlots, CallStage, WorkerCall
from towpath_worker.app.call_runner import CallRunner
from towpath_worker.app.outcome_outbox import HEARTBEAT_S, OutcomeSender
from towpath_worker.app.registration import ToolsetRegistrar
from towpath_worker.metrics import WorkerMetrics

INTERVAL_S = 0.5
"""Between two looks, while there is a call or an unconfirmed outcome."""

STRANDED_S = 5.0
"""A message that waited this long at a full worker is given to another one."""


class WorkerMaintenance:
    """Keeps calls and outcomes alive, and recovers what the broker lost.

    It rests while there is neither; *active* is set when that ends.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        active: asyncio.Event,
        slots: CallSlots,
        outbox: OutcomeSender,
        runner: CallRunner,
        registration: ToolsetRegistrar,
        metrics: WorkerMetrics,
    ) -> None:
        self._bus = bus
        self._active = active
        self._slots = slots
        self._outbox = outbox
        self._runner = runner
        self._registration = registration
        self._metrics = metrics
        self._reconnects = 0
        self._registering: asyncio.Task[None] | None = None
        self._full_since: float | None = None

    async def run(self) -> None:
        """Do everything twice a second, while there is anything to do, until cancelled."""
        self._reconnects = self._bus.reconnects
        forget = on_reconnect(self._bus.nc, self._active.set)
        try:
            while True:
                await asyncio.sleep(INTERVAL_S)
                await self._check()
                if not len(self._slots) and not len(self._outbox):
                    await self._active.wait()
                self._active.clear()
        finally:
            forget()
            if self._registering is not None:
                self._registering.cancel()

    async def _check(self) -> None:
        if self._bus.reconnects != self._reconnects:
            self._reconnects = self._bus.reconnects
            await self._reconnected()
        await self._outbox.maintain()
        for call in self._slots:
            await self._check_call(call)
        await self._hand_back_stranded()
        self._metrics.unconfirmed.set(len(self._outbox))
        self._metrics.running.set(len(self._slots))
        self._metrics.overrun.set(sum(call.overrun or call.hung for call in self._slots))

    async def _check_call(self, call: WorkerCall) -> None:
        now = monotonic()
        if call.hung and call.stage is CallStage.RUNNING:
            await self._runner.report_hung(call)
        within = call.stage is CallStage.REPORTING or (call.stage is CallStage.RUNNING and now < call.until_s)
        if within and call.task is not None and now - call.heartbeat_s >= HEARTBEAT_S:
            call.heartbeat_s = now
            await in_progress(call.deliveries[-1])

    async def _reconnected(self) -> None:
        """Send the outcomes and register again: the broker may have lost both. Consumers recover by themselves."""
        await self._outbox.send_all()
        if self._registering is None or self._registering.done():
            self._registering = asyncio.create_task(self._registration.keep_trying(), name="register again")

    async def _hand_back_stranded(self) -> None:
        """Give messages to other workers that wait here while this worker is full."""
        waiting = [consumer for consumer in self._slots.consumers if consumer.waiting]
        now = monotonic()
        if self._slots.free > 0 or not waiting:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        elif now - self._full_since >= STRANDED_S:
            self._full_since = None
            for message in [one for consumer in waiting for one in consumer.take_now(consumer.waiting)]:
                await nak(message, 0.1)
