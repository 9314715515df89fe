"""Outcomes that the ledger has not confirmed yet.

An outcome is kept, and its delivery stays unacknowledged, until TAS says that the ledger holds it; until then it
is sent again every few seconds and after every broker loss.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.rpc import CONFIRM_HEADER
from towpath_contracts.subjects import TOOL_OUTCOME
from towpath_contracts.tools.calls import OutcomeConfirmed, ToolOutcome
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import ack, in_progress, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.app.call import Call

RESEND_S = 3.0
"""Longer than TAS needs to commit a batch, short enough that a lost outcome costs seconds."""

BEAT_S = 6.0
"""Under a third of the delivery's ack wait of 20 s."""


@dataclass(slots=True)
class _Held:
    """One unconfirmed outcome."""

    body: bytes
    deliveries: list[Msg]
    sent_s: float = 0.0
    beat_s: float = field(default_factory=monotonic)


class Outbox:
    """Sends outcomes and holds them until they are confirmed. `open` before the first one.

    *moved* is set whenever something was confirmed; *place* is the subject of this worker alone on which it hears that.
    """

    def __init__(self, bus: Bus, moved: asyncio.Event, place: str) -> None:
        self._bus = bus
        self._place = place
        self._moved = moved
        self._held: dict[str, _Held] = {}
        self._headers: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    async def open(self) -> None:
        """Listen for confirmations. Not on an inbox: a service may answer a question, but not write to any inbox."""
        await self._bus.nc.subscribe(self._place, cb=self._on_confirmed)
        self._headers = {CONFIRM_HEADER: self._place}

    async def post(self, key: str, body: bytes, deliveries: list[Msg]) -> None:
        """Send the outcome *key* and hold it with the *deliveries* that it will acknowledge."""
        held = self._held[key] = _Held(body, deliveries)
        crash_point("worker.outcome_kept")
        await self._send(held)

    async def attach(self, key: str, delivery: Msg) -> bool:
        """Take another delivery of a call whose outcome is held, and send the outcome again; False where none is."""
        held = self._held.get(key)
        if held is None:
            return False
        held.deliveries.append(delivery)
        await self._send(held)
        return True

    async def tend(self) -> None:
        """Send again what was sent long ago, and keep the deliveries alive. Call it about once a second."""
        now = monotonic()
        for held in list(self._held.values()):
            if now - held.sent_s >= RESEND_S:
                await self._send(held)
            if now - held.beat_s >= BEAT_S:
                held.beat_s = now
                for newest in held.deliveries[-1:]:
                    await in_progress(newest)

    async def send_all(self) -> None:
        """Send everything that is held: the broker may have lost what it was given."""
        for held in list(self._held.values()):
            await self._send(held)

    async def hand_back(self) -> None:
        """Give the deliveries of what is still held to other workers; the ledger refuses to do anything twice."""
        for held in self._held.values():
            for newest in held.deliveries[-1:]:
                await nak(newest, 0)

    async def _send(self, held: _Held) -> None:
        held.sent_s = monotonic()
        await self._bus.post(TOOL_OUTCOME, held.body, self._headers)
        await crash_point_sent("worker.outcome_sent")

    async def _on_confirmed(self, message: Msg) -> None:
        try:
            confirmed = OutcomeConfirmed.model_validate_json(message.data)
        except ValidationError:
            return  # not a confirmation: what is held stays held
        for key in confirmed.keys:
            held = self._held.pop(key, None)
            crash_point("worker.confirmed")
            for delivery in held.deliveries if held is not None else ():
                await ack(delivery)
                await crash_point_sent("worker.acked")
        self._moved.set()


LOOK_S = 0.5
"""How often it is looked whether the first outcome has been confirmed."""


class LateOutcomes:
    """Tells them, each in a task of its own."""

    def __init__(self, outbox: Outbox, log: Logger) -> None:
        self._outbox = outbox
        self._log = log
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, call: Call, outcome: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        """Tell what a call came to; of a pure call nobody asks, and an unclear outcome says nothing new."""
        task = asyncio.create_task(self._tell(call, outcome))
        self._telling.add(task)
        task.add_done_callback(self._told)

    def close(self) -> None:
        """Stop telling: the process ends."""
        for task in self._telling:
            task.cancel()

    async def _tell(self, call: Call, said: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        outcome = said if isinstance(said, ToolOutcome) else await said
        if call.claim_id is None or (outcome.failure is not None and outcome.failure.uncertain):
            return
        while True:
            if call.key not in self._outbox:
                break
            await asyncio.sleep(LOOK_S)
        # A name of its own: the first outcome may be confirmed twice, and that says nothing of this one.
        late = outcome.model_copy(update={"late": True})
        self._log.warning("a tool ended after its time", tool=call.invocation.tool, execution_id=call.key)
        await self._outbox.post(late.key, late.model_dump_json().encode(), [])

    def _told(self, task: "asyncio.Task[None]") -> None:
        self._telling.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("a late outcome can't be told", exc_info=error)
