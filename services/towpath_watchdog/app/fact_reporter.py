"""Sends what was found about runs to them, as facts, and counts it.

The same finding has the same id, whichever watchdog sends it and however often, so the run machine accepts it once.
What the broker has stored is not sent again by this process while it remembers it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.facts import WatchdogReportedFact
from towpath_contracts.ids import effect_id
from towpath_fabric.ids import new_run_id
from towpath_fabric.nats.bus import Bus
from towpath_fabric.telemetry.logs import Logger
from towpath_watchdog.core.run_memory import FindingReport, WatchedRuns
from towpath_watchdog.metrics import WatchdogMetrics

SOURCE = "watchdog"
"""The name under which facts are sent."""

REPORTED_KEPT = 10_000
"""Findings that are remembered as reported; a forgotten one is reported again, which changes nothing but the log."""


class FindingReporter:
    """Reports findings to the runs that they are about."""

    def __init__(self, bus: Bus, memory: WatchedRuns, metrics: WatchdogMetrics, log: Logger) -> None:
        self._bus = bus
        self._memory = memory
        self._metrics = metrics
        self._log = log
        self._reported: OrderedDict[str, None] = OrderedDict()
        self._stored_by = new_run_id().hex

    def has_reported(self, run_id: UUID, key: str, since: int) -> bool:
        """Whether this was reported to the run already."""
        return _fact_id(run_id, key, since) in self._reported

    async def report_findings(self) -> None:
        """Report the findings of the runs that changed since the last call."""
        changed_runs, reports = self._memory.changed_runs, self._memory.reports()
        await self.report(reports)
        self._metrics.judged.inc(changed_runs)

    async def report(self, reports: Iterable[FindingReport]) -> None:
        """Send the facts that were not sent yet; one that is sent twice has the same id and counts once."""
        for report in reports:
            found = report.finding
            fact_id = _fact_id(report.run_id, found.key, found.since)
            if fact_id in self._reported:
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
            # Not the fact's id alone: an agent could store that first, and of each id the broker keeps one message.
            headers = {"Nats-Msg-Id": f"{fact_id}:{self._stored_by}"}
            stored = await self._bus.store(subject, fact.model_dump_json().encode(), headers)
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
                stored=stored,
            )

    def _remember(self, fact_id: str) -> None:
        self._reported[fact_id] = None
        while len(self._reported) > REPORTED_KEPT:
            self._reported.popitem(last=False)


def _fact_id(run_id: UUID, key: str, since: int) -> str:
    return str(effect_id(run_id, f"{SOURCE}:{key}:{since}"))
