"""Sends effects and tells events, after the commit.

Nothing here is waited for. An effect that was not sent is still pending in the state and is sent again; an event
that was not told is found by its readers' sweep.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

from nats import errors as nats_errors

from towpath_contracts import subjects
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events.log import LogEntry
from towpath_contracts.facts import FenceRaised, MessageDead, OutcomeRecorded
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import RAISE_FENCE
from towpath_contracts.runs.children import AskChild
from towpath_contracts.tools.access import FenceAnswer, RaiseFence
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.internal_outcomes import RecordOutcome
from towpath_engine.requests.effects import Effect, StoreText, message_of, sayable_again
from towpath_engine.state.run import RunState
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.ports import Wire
from towpath_orchestrator.app.loop.child_runs import Children
from towpath_orchestrator.app.loop.dispatch_windows import Windows
from towpath_orchestrator.app.loop.internal_outcomes import tell_outcome
from towpath_orchestrator.metrics import Metrics

MESSAGE_ID = "Nats-Msg-Id"

RECONNECT_LOOK_S = 0.5
"""How often the connection is looked at; streams are back within this time after the server."""

MAX_BODY_BYTES = 1_000_000
"""What a message may hold; the broker's limit is 1 MiB with headers."""


def events_body(run_id: UUID, project: str, entries: list[LogEntry], texts: list[str]) -> bytes:
    """Join event texts that are already JSON into one RunEvents message."""
    parts = ",".join(
        f'{{"seq":{entry.seq},"at":"{entry.at.isoformat()}","event":{text}}}'
        for entry, text in zip(entries, texts, strict=True)
    )
    return f'{{"schema_version":1,"run_id":"{run_id}","project":"{project}","entries":[{parts}]}}'.encode()


class Sender:
    """Says what a committed transition wants said."""

    def __init__(
        self, bus: Wire, metrics: Metrics, local: Callable[[FenceRaised | MessageDead | OutcomeRecorded], None]
    ) -> None:
        """*local* takes facts that this process learns by asking."""
        self._bus = bus
        self._metrics = metrics
        self._local = local
        self._asking: set[asyncio.Task[None]] = set()
        self.children: Children | None = None
        self.windows: Windows | None = None

    async def tell(self, run_id: UUID, project: str, entries: list[LogEntry], texts: list[str]) -> None:
        """Publish the events of one transition."""
        body = events_body(run_id, project, entries, texts)
        if len(body) <= MAX_BODY_BYTES:
            await self._bus.post(subjects.run_event(run_id), body)
            await crash_point_sent("orchestrator.events_told")
        elif len(entries) > 1:  # whoever misses one that fits no message finds it by the sweep
            for entry, text in zip(entries, texts, strict=True):
                await self.tell(run_id, project, [entry], [text])

    async def follow_reconnects(
        self, states: Callable[[], list[RunState]], ensure: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Say again what is pending whenever the broker came back: what was on its way when it died may be lost.

        The attempt stays the same, so what the broker still has is not stored twice; without this a lost decision
        request would wait for its lease to end. *ensure* declares the streams, which a broker without its data lacks:
        what is sent before they are there is lost in silence.
        """
        seen = self._bus.reconnects
        while True:
            await asyncio.sleep(RECONNECT_LOOK_S)
            if self._bus.reconnects == seen or not self._bus.connected:
                continue
            seen = self._bus.reconnects
            try:
                if ensure is not None:
                    await ensure()
            except (TimeoutError, nats_errors.Error):
                seen -= 1  # not ready yet: looked at again
                continue
            for state in states():
                for pending in sayable_again(state):
                    await self.send(message_of(state, pending), state)

    async def send(self, effect: Effect, state: RunState) -> None:
        """Send one effect of a run in *state*; a request may have to wait for its turn."""
        message = effect.message
        if isinstance(message, RaiseFence):
            self._begin(self._raise_fence(message))
            return
        if isinstance(message, RecordOutcome):
            self._begin(self._record_outcome(message))
            return
        if isinstance(message, StoreText):
            return  # stored with its transition; nobody is told
        if isinstance(message, AskChild):
            if self.children is not None and (message.cancel or effect.effect.attempt > 1):
                self.children.ask(message)
            return
        if self.windows is not None:
            await self.windows.offer(effect, state)
        else:
            await self.request(effect)

    async def request(self, effect: Effect) -> None:
        """Send a request whose turn has come."""
        message = effect.message
        assert isinstance(message, DecisionRequest | ToolRequest)
        subject = subjects.TOOL_REQUEST
        if isinstance(message, DecisionRequest):
            subject = subjects.decide(subjects.pool_of(message.model, message.project))
        self._metrics.effects.labels(effect.effect.kind).inc()
        body = message.model_dump_json().encode()
        if len(body) > MAX_BODY_BYTES:
            reason = f"it has {len(body)} bytes; the broker carries {MAX_BODY_BYTES}"
            pending = effect.effect
            self._local(
                MessageDead(
                    run_id=message.run_id,
                    stream=subject,
                    reason=reason,
                    effect_id=pending.effect_id,
                    attempt=pending.attempt,
                )
            )
            return
        await self._bus.post(subject, body, {MESSAGE_ID: effect.message_id})
        await crash_point_sent("orchestrator.effect_sent")

    def _begin(self, asking: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _record_outcome(self, request: RecordOutcome) -> None:
        crash_point("orchestrator.before_outcome")
        answer = await tell_outcome(self._bus, request)
        if answer is None:
            return  # the outcome stays pending and is told again by the reconciler
        crash_point("orchestrator.outcome_answered")
        self._local(OutcomeRecorded(run_id=request.run_id, execution_id=request.execution_id, refused=answer.refused))

    async def _raise_fence(self, request: RaiseFence) -> None:
        crash_point("orchestrator.before_fence")
        try:
            answer: FenceAnswer = await self._bus.ask(RAISE_FENCE, request)
        except ProblemError:
            return  # the fence stays pending and is asked for again by the reconciler
        crash_point("orchestrator.fence_answered")
        self._local(FenceRaised(run_id=request.run_id, fence=answer.fence, voided=answer.voided, live=answer.live))
