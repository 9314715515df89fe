"""Reads events and logs from their streams, in batches, and acknowledges what is stored.

A batch is acknowledged after its commit. A message that can't be read, or whose handling ends the process each time, is
acknowledged too: the run log still has its events, and the sweep will find them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import asyncpg
from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts import subjects
from towpath_contracts.decisions.request import MAX_TOOL_LOG_BYTES, LlmCallLog, ToolLog
from towpath_contracts.runs.raw_events import RawTransitionEvents
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.nats.pull_consumer import PullConsumer, ack
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.redelivery.poison_messages import PoisonGuard, Refuse
from towpath_fabric.telemetry.logs import Logger
from towpath_log_writer.adapters.history_tables import INVALID_DATA, HistoryStore
from towpath_log_writer.app.history_writer import WAITS_S, HistoryWriter
from towpath_log_writer.app.repair import HistoryRepairer
from towpath_log_writer.metrics import LogWriterMetrics
from towpath_log_writer.settings import LogWriterSettings

BACKLOG = 1_000
"""With more messages than this to come, what is missing is most likely among them."""

TOOL_LOG = subjects.LOG_TOOL_ALL.rstrip("*.") + "."

QUIET_AFTER_S = 5.0
"""When nothing has arrived for this long, the stream is taken to be empty, whatever count it last gave."""

FORGET_S = 600
"""How often marks of old messages and costs of past days are removed."""


class StreamBacklog:
    """How much the stream of events has still to deliver, by its last message."""

    def __init__(self, metrics: LogWriterMetrics) -> None:
        self._metrics = metrics
        self._pending = 0
        self._arrived = monotonic()

    def observe(self, pending: int) -> None:
        """Note that a message has arrived, and *pending* others follow it."""
        self._arrived = monotonic()
        self._pending = pending
        self._metrics.backlog.set(pending)

    def is_large(self) -> bool:
        """Whether so much follows that what is missing is most likely among it."""
        return self._pending > BACKLOG and monotonic() - self._arrived < QUIET_AFTER_S


async def gather_batch(consumer: PullConsumer, most: int, linger_s: float) -> list[Msg]:
    """Wait for a message, then a little longer for those that follow it."""
    messages = await consumer.take(most)
    if len(messages) < most and linger_s:
        await asyncio.sleep(linger_s)
        messages += consumer.take_now(most - len(messages))
    return messages


async def handle_in_order(
    messages: list[Msg], guard: PoisonGuard, handle: Callable[[list[Msg]], Awaitable[None]], skip: Refuse
) -> None:
    """Have *handle* take *messages* together, or one by one where any is watched: an ack counts for all before it."""
    _, watched = guard.apart(messages)
    if not watched:
        await handle(messages)
        return
    for message in messages:
        async with guard.alone(message, skip) as admitted:
            if admitted:
                await handle([message])


async def forget_past(tables: HistoryStore, metrics: LogWriterMetrics, log: Logger) -> None:
    """Remove marks of messages that were handled alone long ago, and costs of days that are past, for ever."""
    succeeded = metrics.housekept.labels("history")
    succeeded.set(wall().timestamp())  # so that a process that never succeeds is seen, too
    while True:
        try:
            await tables.forget_marks()
            await tables.forget_costs()
            succeeded.set(wall().timestamp())
        except DATABASE_DOWN as error:
            log.debug("postgres is away, what is past is removed later", error=str(error))
        await asyncio.sleep(FORGET_S)


class HistoryEventReader:
    """Brings events from the stream into history."""

    def __init__(
        self,
        consumer: PullConsumer,
        guard: PoisonGuard,
        writer: HistoryWriter,
        repairer: HistoryRepairer,
        backlog: StreamBacklog,
        settings: LogWriterSettings,
        metrics: LogWriterMetrics,
        log: Logger,
    ) -> None:
        self._consumer = consumer
        self._guard = guard
        self._writer = writer
        self._repairer = repairer
        self._backlog = backlog
        self._settings = settings
        self._metrics = metrics
        self._log = log

    async def run(self) -> None:
        """Take events for ever."""
        linger_s = self._settings.history_linger_ms / 1000
        while True:
            messages = await gather_batch(self._consumer, self._settings.history_batch, linger_s)
            crash_point("log_writer.taken")
            self._repairer.moved()
            self._backlog.observe(int(messages[-1].metadata.num_pending or 0))
            await handle_in_order(messages, self._guard, self._store, self._skip)

    async def _store(self, messages: list[Msg]) -> None:
        self._repairer.request_repair(await self._writer.add(self._read(messages)))
        crash_point("log_writer.before_ack")
        await ack(messages[-1])  # stands for all before it (`ack_all`)
        await crash_point_after_flush("log_writer.acked")

    async def _skip(self, message: Msg, _reason: str, _reads: bool) -> None:
        self._metrics.messages.labels("EVENTS", "set_aside").inc()
        await ack(message)

    def _read(self, messages: Iterable[Msg]) -> list[RawTransitionEvents]:
        batches = []
        unread = 0
        for message in messages:
            try:
                batches.append(RawTransitionEvents.model_validate_json(message.data))
            except ValidationError:
                unread += 1
        self._metrics.messages.labels("EVENTS", "read").inc(len(batches))
        if unread:
            self._metrics.messages.labels("EVENTS", "unreadable").inc(unread)
            self._log.error("events that can't be read", messages=unread)
        return batches


class DebugLogReader:
    """Brings what deciders and workers logged into history."""

    def __init__(
        self,
        consumer: PullConsumer,
        guard: PoisonGuard,
        tables: HistoryStore,
        settings: LogWriterSettings,
        metrics: LogWriterMetrics,
        log: Logger,
    ) -> None:
        self._consumer = consumer
        self._guard = guard
        self._tables = tables
        self._settings = settings
        self._metrics = metrics
        self._log = log

    async def run(self) -> None:
        """Take logs for ever."""
        linger_s = self._settings.history_linger_ms / 1000
        while True:
            messages = await gather_batch(self._consumer, self._settings.history_batch, linger_s)
            await handle_in_order(messages, self._guard, self._handle, self._skip)

    async def _handle(self, messages: list[Msg]) -> None:
        calls, logs = self._read(messages)
        crash_point("log_writer.logs_taken")
        await self._store(calls, logs)
        crash_point("log_writer.logs_written")
        await ack(messages[-1])

    async def _skip(self, message: Msg, _reason: str, _reads: bool) -> None:
        self._metrics.messages.labels("LOGS", "set_aside").inc()
        await ack(message)

    def _read(self, messages: Iterable[Msg]) -> tuple[list[LlmCallLog], list[ToolLog]]:
        calls: list[LlmCallLog] = []
        logs: list[ToolLog] = []
        for message in messages:
            try:
                if message.subject == subjects.LOG_LLM_CALL:
                    calls.append(LlmCallLog.model_validate_json(message.data))
                elif message.subject.startswith(TOOL_LOG) and len(message.data) > MAX_TOOL_LOG_BYTES:
                    self._metrics.messages.labels("LOGS", "dropped").inc()  # no honest worker's: none sends so much
                elif message.subject.startswith(TOOL_LOG):
                    log = ToolLog.model_validate_json(message.data)
                    if message.subject == subjects.log_tool(log.project, log.toolset):  # a worker's own, by its rights
                        logs.append(log)
            except ValidationError:
                self._metrics.messages.labels("LOGS", "unreadable").inc()
        self._metrics.messages.labels("LOGS", "read").inc(len(calls) + len(logs))
        return calls, logs

    async def _store(self, calls: list[LlmCallLog], logs: list[ToolLog]) -> None:
        tries = 0
        while calls or logs:
            try:
                await self._tables.add_logs(calls, logs)
            except INVALID_DATA as error:
                await self._store_one_by_one(calls, logs, error)
                return
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("logs wait for postgres", error=type(error).__name__)
                await asyncio.sleep(WAITS_S[min(tries, len(WAITS_S) - 1)])
                tries += 1
            else:
                return

    async def _store_one_by_one(self, calls: list[LlmCallLog], logs: list[ToolLog], error: Exception) -> None:
        """Store each by itself; the one at fault is dropped, which logs may be."""
        if len(calls) + len(logs) == 1:
            self._metrics.messages.labels("LOGS", "dropped").inc()
            self._log.error("a log can't be stored", error=str(error)[:500])
            return
        for call in calls:
            await self._store([call], [])
        for line in logs:
            await self._store([], [line])
