"""Finds what the stream lost, and reads it from the run log.

Every run that changed is in history within seconds, or its log is read again, at growing intervals, while the search
for newer ones goes on. The time until which nothing is missing is stored, and moves only when that is true. A sweep
compares with the stored cursors, never with those in memory: Postgres may have crashed and lost the last commits, and
a run that has ended brings no event that would show it. After such a crash sweeps begin at the stored time again. An
event that can't be read is set aside, like one that can't be stored.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import EVENTS_SINCE, SWEEP_RUNS
from towpath_contracts.runs.raw_events import RawEventPage, RawTransitionEvents
from towpath_contracts.runs.views import ChangedRunList, GetEventsSince, ListChangedRuns, RunSeq
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.sweep_pause import SweepPause
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_log_writer.adapters.history_tables import SweepProgressStore
from towpath_log_writer.app.history_writer import HistoryWriter
from towpath_log_writer.core.lagging_runs import LaggingRuns

SWEEP_ROWS = 2_000
"""Runs a sweep asks for at once; their answer stays well below the broker's 1 MiB."""

OVERLAP = timedelta(seconds=10)
"""A transaction that began earlier may commit later: sweeps look back as long as a commit may take."""

PAGE_SIZES = (200, 50, 10, 1)
"""Events asked for at once, largest first: a page of large results may not fit into one answer."""

REPAIRS_AT_ONCE = 4
"""The run log is read for the runs' own sake first."""


class HistoryRepairer:
    """Reads missing events: of runs given to `request_repair`, and of runs that sweeps find."""

    def __init__(
        self,
        bus: Bus,
        table: SweepProgressStore,
        writer: HistoryWriter,
        log: Logger,
        *,
        has_backlog: Callable[[], bool],
    ) -> None:
        """*has_backlog* says whether the stream has much to deliver yet: then missing events mostly arrive."""
        self._bus = bus
        self._table = table
        self._writer = writer
        self._log = log
        self._has_backlog = has_backlog
        self._wanted: dict[UUID, str] = {}
        self._asked = asyncio.Event()
        self._lagging_runs = LaggingRuns()
        self._swept: datetime | None = None
        self._stored: datetime | None = None
        self._seen: tuple[RunSeq, ...] | None = None
        self._quiet = False
        self._pause = SweepPause()

    def moved(self) -> None:
        """Sweep soon: events have come, or may have been lost."""
        self._pause.moved()

    def request_repair(self, runs: dict[UUID, str]) -> None:
        """Have the logs of *runs* (with project) read."""
        if runs:
            self._wanted.update(runs)
            self._asked.set()

    async def repair(self) -> None:
        """Read the logs of wanted runs, for ever."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._wanted:
                runs = [self._wanted.popitem() for _ in range(min(REPAIRS_AT_ONCE, len(self._wanted)))]
                await asyncio.gather(*(self._read(run, project) for run, project in runs))

    async def sweep(self, every_s: float) -> None:
        """Compare with the orchestrator every *every_s* seconds, less often while nothing moves, until cancelled."""
        try:
            await self._sweep_for_ever(every_s)
        finally:
            await self._table.close()  # else closing the pool waits for the connection

    async def _sweep_for_ever(self, every_s: float) -> None:
        while True:
            self._quiet = False
            try:
                more = await self._sweep_once(every_s)
            except ProblemError as error:
                self._log.warning("no sweep: the orchestrator does not answer", problem=error.problem.code)
                more = False
            except ValidationError as error:
                self._log.error("no sweep: the answer can't be read", error=_brief(error))
                more = False
            except DATABASE_DOWN as error:
                self._log.debug("no sweep: postgres is away", error=type(error).__name__)
                self._swept = self._stored = None  # what was found complete since the stored time may be gone
                more = False
            if not more:
                await self._pause.wait(every_s, quiet=self._quiet)

    async def _sweep_once(self, every_s: float) -> bool:
        """Look at runs that moved; True when there are more to look at now."""
        since = self._swept or await self._table.swept_until()
        swept: ChangedRunList = await self._bus.request(SWEEP_RUNS, ListChangedRuns(since=since, limit=SWEEP_ROWS))
        crash_point("log_writer.swept")
        held = await self._table.held({run.run_id for run in swept.runs}.union(self._lagging_runs.ids))
        self._writer.forget_ahead(held)
        self._lagging_runs.drop_complete(held)
        self._lagging_runs.add_lagging(swept.runs, held, due=monotonic() + every_s)
        if not self._has_backlog():
            self.request_repair(self._lagging_runs.take_due(held, monotonic(), every_s))
        full = len(swept.runs) == SWEEP_ROWS and swept.until > since
        if full and self._lagging_runs.full:
            return False  # what moved later is looked at when some of these are complete
        if swept.runs:
            self._swept = swept.until if full else swept.until - OVERLAP
        crash_point("log_writer.before_note")
        await self._store_swept(self._swept or since)
        self._quiet = not full and not self._lagging_runs.ids and swept.runs == self._seen
        self._seen = swept.runs
        return full

    async def _store_swept(self, until: datetime) -> None:
        """Note how far nothing is missing: a restart begins there, and finds late runs again."""
        oldest = self._lagging_runs.oldest
        complete = until if oldest is None else min(until, oldest - OVERLAP)
        if complete != self._stored:
            await self._table.set_swept(complete)
            self._stored = complete

    async def _read(self, run: UUID, project: str) -> None:
        """Read a run's log from where its history ends to its end, or until it can't be read."""
        before, sizes = -1, list(PAGE_SIZES)
        while True:
            after = await self._held(run)
            if after == before:
                self._log.error("a log does not go on where it should", run_id=str(run), after=after)
                return
            try:
                page = await self._page(run, after, sizes)
            except ProblemError as error:
                if error.problem.code in {"run_not_found", "run_erased"}:
                    self._lagging_runs.forget(run)
                self._log.warning("a log can't be read", run_id=str(run), problem=error.problem.code)
                return  # a later sweep asks again
            except ValidationError as error:
                if not _event_at_fault(error):
                    self._log.error("a log's answer can't be read", run_id=str(run), error=_brief(error))
                    return
                await self._writer.skip_event(run, project, after + 1, error)
                sizes = list(PAGE_SIZES)
                continue
            if page.entries:
                await self._writer.add([RawTransitionEvents(run_id=run, project=project, entries=page.entries)])
            if not page.entries or page.entries[-1].seq >= page.seq:
                return
            before = after

    async def _page(self, run: UUID, after: int, sizes: list[int]) -> RawEventPage:
        """Ask for what follows *after*; drops those of *sizes*, largest first, that can't be had.

        Raises ProblemError, and ValidationError when not even the smallest page can be read.
        """
        while True:
            wanted = GetEventsSince(run_id=run, after=after, limit=sizes[0])
            try:
                return await self._bus.request_subject(
                    EVENTS_SINCE.subject, wanted, RawEventPage, repeatable=EVENTS_SINCE.repeatable
                )
            except ProblemError as error:
                if error.problem.code != "unavailable" or len(sizes) == 1:
                    raise
            except ValidationError:
                if len(sizes) == 1:
                    raise
            del sizes[0]

    async def _held(self, run: UUID) -> int:
        while True:
            try:
                return (await self._writer.held([run]))[run]
            except DATABASE_DOWN:
                await asyncio.sleep(1)


def _event_at_fault(error: ValidationError) -> bool:
    """Return whether the one event of a page is what can't be read, and not an answer of another form."""
    if error.title != RawEventPage.__name__:
        return False
    return all(entry["loc"][:1] == ("entries",) or entry["type"] == "json_invalid" for entry in error.errors())


def _brief(error: ValidationError) -> str:
    return "; ".join(located_message(entry, "the page") for entry in error.errors()[:3])[:500]
