"""Looking after what is in the worker: beats, hung calls, stranded messages, new connections.

A delivery is kept alive only while its call is within its time, or its outcome is waiting for confirmation; a hung
tool must miss its beats.
"""

import asyncio

from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import in_progress, nak
from towpath_worker.app.call import Call, Slots, Stage
from towpath_worker.app.call_runner import CallServer
from towpath_worker.app.outcome_outbox import BEAT_S, Outbox
from towpath_worker.app.registration import Registration
from towpath_worker.metrics import WorkerMetrics

TEND_S = 0.5

STRANDED_S = 5.0
"""A message that waited this long behind a full worker is given to another one."""


class Tender:
    """Looks after everything twice a second."""

    def __init__(
        self,
        bus: Bus,
        *,
        slots: Slots,
        outbox: Outbox,
        server: CallServer,
        registration: Registration,
        metrics: WorkerMetrics,
    ) -> None:
        self._bus = bus
        self._slots = slots
        self._outbox = outbox
        self._server = server
        self._registration = registration
        self._metrics = metrics
        self._reconnects = 0
        self._registering: asyncio.Task[None] | None = None
        self._full_since: float | None = None

    async def run(self) -> None:
        """Look after everything, for ever."""
        self._reconnects = self._bus.nc.stats["reconnects"]
        try:
            while True:
                await asyncio.sleep(TEND_S)
                await self._look()
        finally:
            if self._registering is not None:
                self._registering.cancel()

    async def _look(self) -> None:
        if self._bus.nc.stats["reconnects"] != self._reconnects:
            self._reconnects = self._bus.nc.stats["reconnects"]
            await self._reconnected()
        await self._outbox.tend()
        for call in self._slots:
            await self._look_after(call)
        await self._hand_back_stranded()
        self._metrics.unconfirmed.set(len(self._outbox))
        self._metrics.running.set(len(self._slots))
        self._metrics.overrun.set(sum(call.overrun or call.hung for call in self._slots))

    async def _look_after(self, call: Call) -> None:
        now = monotonic()
        if call.hung and call.stage is Stage.RUNNING:
            await self._server.report_hung(call)
        within = call.stage is Stage.REPORTING or (call.stage is Stage.RUNNING and now < call.until_s)
        if within and call.task is not None and now - call.beat_s >= BEAT_S:
            call.beat_s = now
            await in_progress(call.deliveries[-1])

    async def _reconnected(self) -> None:
        """The broker may have forgotten everything: say outcomes again, have queues made. Consumers ask anew alone."""
        await self._outbox.send_all()
        if self._registering is None or self._registering.done():
            self._registering = asyncio.create_task(self._registration.keep_trying(), name="register again")

    async def _hand_back_stranded(self) -> None:
        """Give messages to other workers that wait behind this one while it is full."""
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
