"""Finds what the stream does not show: lost events, and runs that nobody advances.

The stream alone is never trusted. Every request is bounded; one that is not answered is repeated at the next interval,
and no answer ends a loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import EVENTS_SINCE, IDLE_RUNS, SWEEP_RUNS
from towpath_contracts.runs.idle_runs import IdleRun, IdleRunList, ListIdleRuns
from towpath_contracts.runs.raw_events import RawEventPage
from towpath_contracts.runs.views import ChangedRunList, GetEventsSince, ListChangedRuns, RunSeq
from towpath_fabric.clock import wall
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.sweep_pause import SweepPause
from towpath_fabric.telemetry.logs import Logger
from towpath_watchdog.app.fact_reporter import FindingReporter
from towpath_watchdog.core.findings import idle_finding, idle_key, lease_of, lease_s
from towpath_watchdog.core.run_memory import WINDOW_EVENTS, FindingReport, WatchedRuns
from towpath_watchdog.metrics import WatchdogMetrics
from towpath_watchdog.settings import WatchdogSettings

SWEEP_ROWS = 2_000
"""Runs a sweep asks for at once; their answer stays well below the broker's 1 MiB."""

OVERLAP = timedelta(seconds=10)
"""A transaction that began earlier may commit later: sweeps look back as long as a commit may take."""

WANTED_KEPT = 2_000
"""Logs that wait to be read; beyond that the oldest entry is dropped, and the run's next event adds it again."""

PAGE_SIZES = (WINDOW_EVENTS, 50, 10)
"""Events asked for at once, largest first: a page of large results may not fit into one answer."""

MAX_IDLE_REPORTED = 20
"""Of each sort in one turn: many runs that stand still have one cause, and the gauge tells how many they are."""

MAX_REFUSALS = 3
"""Logs of idle runs that may be refused in one turn; after that the leases of the others are taken for unknown ones."""


class WatchdogSweep:
    """Reads missing events, and asks which runs stand still."""

    def __init__(
        self,
        bus: Bus,
        memory: WatchedRuns,
        settings: WatchdogSettings,
        reporter: FindingReporter,
        metrics: WatchdogMetrics,
        log: Logger,
    ) -> None:
        self._bus = bus
        self._memory = memory
        self._settings = settings
        self._reporter = reporter
        self._idle = metrics.idle
        self._log = log
        self._wanted: OrderedDict[UUID, tuple[str, int]] = OrderedDict()
        self._asked = asyncio.Event()
        self._swept: datetime | None = None
        self._seen: tuple[RunSeq, ...] | None = None
        self._quiet = False
        self._pause = SweepPause()

    def moved(self) -> None:
        """Sweep soon: events have come, or may have been lost."""
        self._pause.moved()

    def request_log(self, run_id: UUID, project: str, seq: int) -> None:
        """Have the log of a run read that stands at *seq*."""
        self._wanted[run_id] = (project, seq)
        while len(self._wanted) > WANTED_KEPT:
            self._wanted.popitem(last=False)
        self._asked.set()

    async def read(self) -> None:
        """Read the logs that are wanted, one after another, for ever."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._wanted:
                run_id, (project, seq) = self._wanted.popitem(last=False)
                await self._unless_refused(f"the log of {run_id}", self._read_one(run_id, project, seq))
            await self._reporter.report_findings()

    async def sweep(self) -> None:
        """Compare with the orchestrator, for ever, less often while nothing moves.

        The first sweep begins now: what is older is in the stream.
        """
        self._swept = wall() - OVERLAP
        while True:
            await self._pause.wait(self._settings.watchdog_sweep_s, quiet=self._quiet)
            self._quiet = False
            await self._unless_refused("the sweep", self._sweep_once())

    async def check_idle_runs(self) -> None:
        """Ask which runs stand still, for ever."""
        while True:
            await asyncio.sleep(self._settings.watchdog_look_s)
            await self._unless_refused("the look at idle runs", self._check_idle_once())

    async def _unless_refused(self, what: str, asked: Awaitable[None]) -> None:
        try:
            await asked
        except ProblemError as error:
            self._log.warning(f"{what} waits: the orchestrator does not answer", problem=error.problem.code)
        except ValidationError as error:
            self._log.error(f"{what} can't be read", error=str(error)[:500])

    async def _sweep_once(self) -> None:
        since = self._swept or wall()
        swept: ChangedRunList = await self._bus.request(SWEEP_RUNS, ListChangedRuns(since=since, limit=SWEEP_ROWS))
        late = self._memory.late(swept.runs)
        for run in late:
            self.request_log(run.run_id, run.project, run.seq)
        self._quiet = not late and swept.runs == self._seen
        self._seen = swept.runs
        if swept.runs:
            full = len(swept.runs) == SWEEP_ROWS and swept.until > since
            self._swept = swept.until if full else max(since, swept.until - OVERLAP)

    async def _read_one(self, run_id: UUID, project: str, seq: int) -> None:
        """Read a log from where what is held ends, or a little before *seq*, to its end."""
        after = self._memory.start_of(run_id, seq)
        while not self._memory.ended(run_id):
            try:
                page = await self._page(run_id, after)
            except ProblemError as error:
                if error.problem.code not in {"run_not_found", "run_erased"}:
                    raise
                self._memory.end(run_id)
                return
            self._memory.load(run_id, project, after, page.entries)
            if not page.entries or page.entries[-1].seq >= page.seq:
                return
            after = page.entries[-1].seq

    async def _page(self, run_id: UUID, after: int, limit: int = 0) -> RawEventPage:
        """Ask for what follows *after*, in ever smaller pieces; raises ProblemError, and ValidationError."""
        sizes = (limit,) if limit else PAGE_SIZES
        for size in sizes[:-1]:
            try:
                return await self._ask_page(run_id, after, size)
            except ProblemError as error:
                if error.problem.code != "unavailable":
                    raise
        return await self._ask_page(run_id, after, sizes[-1])

    async def _ask_page(self, run_id: UUID, after: int, limit: int) -> RawEventPage:
        wanted = GetEventsSince(run_id=run_id, after=after, limit=limit)
        return await self._bus.request_subject(
            EVENTS_SINCE.subject, wanted, RawEventPage, repeatable=EVENTS_SINCE.repeatable
        )

    async def _check_idle_once(self) -> None:
        settings = self._settings
        question = ListIdleRuns(
            overdue_s=settings.watchdog_overdue_s,
            quiet_s=settings.watchdog_quiet_s,
            queued_s=settings.watchdog_queued_s,
        )
        idle: IdleRunList = await self._bus.request(IDLE_RUNS, question)
        for why in ("overdue", "quiet", "queued"):
            runs = [run for run in idle.runs if run.idle == why]
            self._idle.labels(why).set(len(runs))
            fresh = [run for run in runs if not self._reporter.has_reported(run.run_id, idle_key(run), run.seq)]
            await self._report_idle(fresh)

    async def _report_idle(self, runs: Iterable[IdleRun]) -> None:
        """Report the first of *runs* with a finding; one whose log is refused does not delay the others."""
        found: list[FindingReport] = []
        refused = 0
        for run in runs:
            timeout_ms = None
            try:
                timeout_ms = await self._timeout_of(run, ask=refused < MAX_REFUSALS)
            except (ProblemError, ValidationError) as error:
                refused += 1
                self._log.warning("an idle run can't be read", run_id=str(run.run_id), error=str(error)[:500])
            finding = idle_finding(run, lease_s(timeout_ms, self._settings.watchdog_quiet_s))
            if finding is not None:
                found.append(FindingReport(run_id=run.run_id, seq=run.seq, finding=finding))
            if len(found) == MAX_IDLE_REPORTED:
                break
        await self._reporter.report(found)

    async def _timeout_of(self, run: IdleRun, *, ask: bool) -> int | None:
        """Return the step timeout of *run* where it matters; None where it is not known. Raises what `_page` does."""
        trace = self._memory.trace(run.run_id)
        if trace is not None and trace.step_timeout_ms is not None:
            return trace.step_timeout_ms
        if run.idle != "quiet" or not ask:
            return None
        return lease_of((await self._page(run.run_id, 0, 1)).entries)
