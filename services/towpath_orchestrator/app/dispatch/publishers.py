"""Publishes requests for work, and the events of committed transitions.

Nothing here is waited for. A request that was lost is still pending in the state of its run and is sent again; readers
of events find by their sweep of the run tables what they were not sent, and clients by the gap in what they were.
"""

from datetime import datetime
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events.log import LogEntry, RunCreated
from towpath_contracts.facts import MessageDeadFact
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.requests.effects import OutgoingEffect
from towpath_fabric.crash_points import crash_point_after_flush
from towpath_fabric.ports import MessageBus
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.metrics import OrchestratorMetrics

MESSAGE_ID = "Nats-Msg-Id"

MAX_BODY_BYTES = 1_000_000
"""What a message may hold; the broker's limit is 1 MiB with headers."""


class RequestPublisher:
    """Publishes requests for decisions and tool calls; for one that is too large, its run gets a failure instead."""

    def __init__(self, bus: MessageBus, metrics: OrchestratorMetrics, local_facts: LocalFactQueue) -> None:
        self._bus = bus
        self._metrics = metrics
        self._local_facts = local_facts

    async def publish(self, effect: OutgoingEffect) -> None:
        message = effect.message
        assert isinstance(message, DecisionRequest | ToolRequest)
        subject = subjects.TOOL_REQUEST
        if isinstance(message, DecisionRequest):
            subject = subjects.decide(subjects.pool_of(message.model, message.project))
        self._metrics.effects.labels(effect.effect.kind).inc()
        body = message.model_dump_json().encode()
        if len(body) > MAX_BODY_BYTES:
            self._local_facts.add(_too_large(effect, message.run_id, subject, len(body)))
            return
        await self._bus.publish(subject, body, {MESSAGE_ID: effect.message_id})
        await crash_point_after_flush("orchestrator.effect_sent")


def _too_large(effect: OutgoingEffect, run_id: UUID, subject: str, size: int) -> MessageDeadFact:
    return MessageDeadFact(
        run_id=run_id,
        stream=subject,
        reason=f"it has {size} bytes; the broker carries {MAX_BODY_BYTES}",
        effect_id=effect.effect.effect_id,
        attempt=effect.effect.attempt,
    )


NOT_CLIENTS = frozenset({subjects.ANONYMOUS, subjects.LOCAL})
"""Callers whose runs no credential may listen to: a message would be for nobody."""


class EventPublisher:
    """Publishes the events of transitions, for the readers of run logs and for the client whose run it is."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus

    async def publish(self, run_id: UUID, task: RunCreated, entries: list[LogEntry], texts: list[str]) -> None:
        """Publish the events of one transition of the run that has *task*, in one message where they fit.

        The client's own is a second one: its subject names the caller, which the broker holds the client to, and it is
        in no stream, so that the broker drops it where nobody listens.
        """
        body = events_body(run_id, task.project, entries, texts)
        if len(body) <= MAX_BODY_BYTES:
            await self._bus.publish(subjects.run_event(run_id), body)
            if task.caller not in NOT_CLIENTS:
                await self._bus.publish(subjects.task_live(task.caller, run_id), body)
            await crash_point_after_flush("orchestrator.events_told")
        elif len(entries) > 1:  # a single event that fits no message is left to the readers' sweep
            for entry, text in zip(entries, texts, strict=True):
                await self.publish(run_id, task, [entry], [text])


def events_body(run_id: UUID, project: str, entries: list[LogEntry], texts: list[str]) -> bytes:
    """Join event texts that are already JSON into one TransitionEvents message, written as pages of the log are."""
    parts = ",".join(
        f'{{"seq":{entry.seq},"at":"{_time(entry.at)}","event":{text}}}'
        for entry, text in zip(entries, texts, strict=True)
    )
    return f'{{"schema_version":1,"run_id":"{run_id}","project":"{project}","entries":[{parts}]}}'.encode()


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
