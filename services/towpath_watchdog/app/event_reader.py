"""Reads the events of runs from the stream, and reports what they show.

A batch is acknowledged when it is in memory. Nothing is judged while many events are about to come, since findings
about the past help nobody. A report that the broker did not store is made again when the run moves.
"""

import asyncio
from collections.abc import Iterable

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.runs.raw_events import RawTransitionEvents
from towpath_fabric.nats.pull_consumer import PullConsumer, ack, deliveries, flush
from towpath_fabric.telemetry.logs import Logger
from towpath_watchdog.app.fact_reporter import FindingReporter
from towpath_watchdog.app.run_sweep import WatchdogSweep
from towpath_watchdog.core.run_memory import WatchedRuns
from towpath_watchdog.metrics import WatchdogMetrics
from towpath_watchdog.settings import WatchdogSettings

BACKLOG = 1_000
"""With more messages than this to come, what is remembered is old: judging waits."""

WATCHED_FROM = 3
"""From this delivery on, messages are taken one by one."""

SKIPPED_FROM = 8
"""From this delivery on, a message is skipped where a process gets it first. Nothing keeps a watchdog from taking a
message at once, no database and no other service, so what is delivered so often is not waiting for anything."""


class WatchdogEventReader:
    """Reads run events from the stream into the watchdog's memory, and judges the runs that they are about."""

    def __init__(
        self,
        consumer: PullConsumer,
        memory: WatchedRuns,
        run_sweep: WatchdogSweep,
        reporter: FindingReporter,
        settings: WatchdogSettings,
        metrics: WatchdogMetrics,
        log: Logger,
    ) -> None:
        self._consumer = consumer
        self._memory = memory
        self._run_sweep = run_sweep
        self._reporter = reporter
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._begun = False
        """Whether this process has taken a message."""

    async def run(self) -> None:
        """Take events for ever."""
        linger_s = self._settings.watchdog_linger_ms / 1000
        while True:
            messages = await self._consumer.take(self._settings.watchdog_batch)
            self._run_sweep.moved()
            if len(messages) < self._settings.watchdog_batch and linger_s:
                await asyncio.sleep(linger_s)
                messages += self._consumer.take_now(self._settings.watchdog_batch - len(messages))
            if deliveries(messages[0]) < WATCHED_FROM:
                await self._take(messages)
            else:
                await self._take_each(messages)
            self._metrics.followed.set(len(self._memory))
            if int(messages[-1].metadata.num_pending or 0) <= BACKLOG:
                await self._reporter.report_findings()

    async def _take(self, messages: list[Msg]) -> None:
        self._begun = True
        for batch in self._read(messages):
            if not self._memory.take(batch):
                self._run_sweep.request_log(batch.run_id, batch.project, batch.entries[-1].seq)
        await ack(messages[-1])  # stands for all before it (`ack_all`)

    async def _take_each(self, messages: list[Msg]) -> None:
        """Take messages one by one, so that one which ends the process is the first that the next process gets.

        That one is skipped in the end: a watchdog reads the log of a run that lacks events, and may lack some.
        """
        for message in messages:
            if not self._begun and deliveries(message) >= SKIPPED_FROM:
                self._begun = True
                self._metrics.events.labels("set_aside").inc()
                self._log.error("an event is skipped: it ended the process", subject=message.subject[:200])
                await ack(message)
            else:
                await self._take([message])
            await flush(message)  # before the next one may end the process

    def _read(self, messages: Iterable[Msg]) -> list[RawTransitionEvents]:
        batches = []
        for message in messages:
            try:
                batches.append(RawTransitionEvents.model_validate_json(message.data))
            except ValidationError:
                self._metrics.events.labels("unreadable").inc()
                self._log.warning("an event can't be read", subject=message.subject[:200])
        self._metrics.events.labels("read").inc(len(batches))
        return batches
