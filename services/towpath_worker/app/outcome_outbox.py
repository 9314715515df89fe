"""Outcomes that the ledger has not confirmed yet, and late outcomes.

An outcome is kept, and its delivery stays unacknowledged, until TAS confirms that the ledger holds it; until then it is
sent again every few seconds and after every loss of the broker. A late outcome (of a call that was already reported as
timed out) settles what is `unknown`. It never replaces the first one, which is confirmed before it, and holds no slot.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.rpc import CONFIRM_HEADER, OUTCOME_HEADER
from towpath_contracts.subjects import TOOL_OUTCOME
from towpath_contracts.tools.calls import OutcomeConfirmed, ToolOutcome
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.nats.pull_consumer import ack, in_progress, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.app.call import WorkerCall

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

RESEND_S = 3.0
"""Longer than TAS needs to commit a batch, short enough that a lost outcome costs seconds."""

HEARTBEAT_S = 6.0
"""Under a third of the delivery's ack wait of 20 s."""


@dataclass(slots=True)
class _UnconfirmedOutcome:
    """One unconfirmed outcome."""

    body: bytes
    headers: dict[str, str]
    deliveries: list[Msg]
    sent_s: float = 0.0
    heartbeat_s: float = field(default_factory=monotonic)


class OutcomeSender:
    """Sends outcomes and holds them until they are confirmed. `open` before the first one.

    *progress* is set whenever something was confirmed, *active* when something is sent. Confirmations come on
    *confirm_subjects*, this worker's own, by toolset.
    """

    def __init__(
        self, bus: "Bus", progress: asyncio.Event, active: asyncio.Event, confirm_subjects: Mapping[str, str]
    ) -> None:
        self._bus = bus
        self._confirm_subjects = confirm_subjects
        self._progress = progress
        self._active = active
        self._held: dict[str, _UnconfirmedOutcome] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    async def open(self) -> None:
        """Listen for confirmations. Not on an inbox: a service may answer a question, but not write to any inbox."""
        for subject in self._confirm_subjects.values():
            await self._bus.nc.subscribe(subject, cb=self._on_confirmed)

    async def post(self, outcome: ToolOutcome, toolset: str, deliveries: list[Msg]) -> None:
        """Send the outcome of a call of *toolset*, and hold it with the *deliveries* that it will acknowledge."""
        named = f"{outcome.key} {outcome.ticket}"
        headers = {CONFIRM_HEADER: self._confirm_subjects[toolset], OUTCOME_HEADER: named}
        held = _UnconfirmedOutcome(outcome.model_dump_json().encode(), headers, deliveries)
        self._held[outcome.key] = held
        self._active.set()
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

    async def maintain(self) -> None:
        """Send again what was sent long ago, and keep the deliveries alive. Call it about once a second."""
        now = monotonic()
        for held in list(self._held.values()):
            if now - held.sent_s >= RESEND_S:
                await self._send(held)
            if now - held.heartbeat_s >= HEARTBEAT_S:
                held.heartbeat_s = now
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

    async def _send(self, held: _UnconfirmedOutcome) -> None:
        held.sent_s = monotonic()
        await self._bus.publish(TOOL_OUTCOME, held.body, held.headers)
        await crash_point_after_flush("worker.outcome_sent")

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
                await crash_point_after_flush("worker.acked")
        self._progress.set()


CONFIRMED_POLL_S = 0.5
"""How often to check whether the first outcome has been confirmed."""


class LateOutcomeReporter:
    """Reports late outcomes, each in a task of its own."""

    def __init__(self, outbox: OutcomeSender, log: Logger) -> None:
        self._outbox = outbox
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def report(self, call: WorkerCall, outcome: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        """Report a late outcome. A pure call needs none, and an uncertain one adds nothing."""
        task = asyncio.create_task(self._report(call, outcome))
        self._tasks.add(task)
        task.add_done_callback(self._reported)

    def close(self) -> None:
        """Cancel the reports: the process ends."""
        for task in self._tasks:
            task.cancel()

    async def _report(self, call: WorkerCall, result: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        outcome = result if isinstance(result, ToolOutcome) else await result
        if call.claim_id is None or (outcome.failure is not None and outcome.failure.uncertain):
            return
        while True:
            if call.key not in self._outbox:
                break
            await asyncio.sleep(CONFIRMED_POLL_S)
        # A key of its own: the first outcome may be confirmed twice, and that does not confirm this one.
        late = outcome.model_copy(update={"late": True})
        self._log.warning("a tool ended after its time", tool=call.invocation.tool, execution_id=call.key)
        await self._outbox.post(late, call.invocation.toolset, [])

    def _reported(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("a late outcome could not be reported", exc_info=error)
