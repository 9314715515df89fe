"""Tells runs what was found about them, as facts, and counts it.

The same finding has the same id, whoever tells it and however often; the run machine takes it once. What the
broker has stored is not told again by this process while it remembers it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.facts import WatchdogReportedFact
from towpath_contracts.ids import effect_id
from towpath_fabric.nats.bus import Bus
from towpath_fabric.telemetry.logs import Logger
from towpath_watchdog.core.run_memory import FindingReport, RunMemory
from towpath_watchdog.metrics import WatchdogMetrics

SOURCE = "watchdog"
"""The name under which facts are sent."""

REPORTED_KEPT = 10_000
"""Findings that are remembered as told; one that is forgotten is told again, which changes nothing but the log."""


class FactReporter:
    """Tells runs what was found about them."""

    def __init__(self, bus: Bus, memory: RunMemory, metrics: WatchdogMetrics, log: Logger) -> None:
        self._bus = bus
        self._memory = memory
        self._metrics = metrics
        self._log = log
        self._told: OrderedDict[str, None] = OrderedDict()

    def has_told(self, run_id: UUID, key: str, since: int) -> bool:
        """Say whether the run was told of this already."""
        return _fact_id(run_id, key, since) in self._told

    async def judge(self) -> None:
        """Tell what the runs show of which something was heard since the last time."""
        heard_of, reports = self._memory.heard_of, self._memory.reports()
        await self.tell(reports)
        self._metrics.judged.inc(heard_of)

    async def tell(self, reports: Iterable[FindingReport]) -> None:
        """Send the facts that were not sent yet; one that is told twice has the same id and is folded once."""
        for report in reports:
            found = report.finding
            fact_id = _fact_id(report.run_id, found.key, found.since)
            if fact_id in self._told:
                continue
            fact = WatchdogReportedFact(
                run_id=report.run_id,
                fact_id=fact_id,
                finding=found.name,
                key=found.key,
                since=found.since,
                steps=found.steps,
                score=found.score,
                detail=found.detail,
                tools=found.tools,
            )
            subject = subjects.run_inbox(SOURCE, report.run_id)
            stored = await self._bus.store(subject, fact.model_dump_json().encode(), {"Nats-Msg-Id": fact_id})
            self._metrics.findings.labels(found.name).inc()
            if stored:
                self._remember(fact_id)
            else:
                self._metrics.unsent.inc()
            self._log.info(
                "found",
                run_id=str(report.run_id),
                finding=found.name,
                detail=found.detail,
                score=found.score,
                told=stored,
            )

    def _remember(self, fact_id: str) -> None:
        self._told[fact_id] = None
        while len(self._told) > REPORTED_KEPT:
            self._told.popitem(last=False)


def _fact_id(run_id: UUID, key: str, since: int) -> str:
    return str(effect_id(run_id, f"{SOURCE}:{key}:{since}"))
